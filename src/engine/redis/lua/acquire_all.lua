-- Take all of several locks, or none. KEYS: 5 of each; ARGV: 10 of each, those of acquire and the kind. `kinds` has, for each kind,
-- acquire as a function of its keys and arguments (see scripts.c).
--   {1, {1, first token, how many, server time}, ...}   all are held, each for its LEASE
--   {0, n}: the n-th is not free   {-1, n}: it is another kind of lock   {-2, n}: a semaphore of another limit
local wrong = {held = 0, kind = -1, limit = -2}
local keys, args, answer = {}, {}, {1}
for i = 1, #KEYS / 5 do
    keys[i], args[i] = {unpack(KEYS, i * 5 - 4, i * 5)}, {unpack(ARGV, i * 10 - 9, i * 10)}
    local seen = kinds[args[i][10]](keys[i], args[i], true)
    if wrong[seen] then
        return {wrong[seen], i}
    end
end
for i = 1, #keys do
    answer[i + 1] = kinds[args[i][10]](keys[i], args[i], false)
end
return answer
