-- Take all of several locks, or none. KEYS: 4 of each (and in a cluster one more); ARGV: 7 of each, those of acquire and the kind.
-- `kinds` has, for each kind, acquire as a function of its keys and arguments (see script.c).
--   {1, {1, first token, how many, server time}, ...}   all are held, each for its LEASE
--   {0, n, kept}: the n-th is not free   {-1, n, kept}: it is another kind of lock   {-2, n}: a semaphore of another limit
-- kept 1: all who are in the way may be idle, and were told.
local wrong = {held = 0, kind = -1, limit = -2}
local keys, args, answer, refused = {}, {}, {1}, nil
for i = 1, #KEYS / 4 do
    keys[i], args[i] = {unpack(KEYS, i * 4 - 3, i * 4)}, {unpack(ARGV, i * 7 - 6, i * 7)}
    local seen, kept = kinds[args[i][7]](keys[i], args[i], true)
    if wrong[seen] and not kept then
        return {wrong[seen], i}
    end
    refused = refused or wrong[seen] and {wrong[seen], i, 1}
end
if refused then
    return refused
end
for i = 1, #keys do
    answer[i + 1] = kinds[args[i][7]](keys[i], args[i], false)
end
return answer
