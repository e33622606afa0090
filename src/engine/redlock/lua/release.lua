-- Take a vote back, of any kind: KEYS lock, those that wait; ARGV owner, and if it may be no hold: what it wanted if it may be among
-- those that wait, or nothing; and 1 if it may be a hold nevertheless.
--   0: did not hold       1: held, and not any more       2: likewise, and another was told that it is its turn
-- The end of a hold is told to the one that waits longest, by what it says itself: so all servers tell the same one, and not all that
-- wait need to look. Half a millisecond in its score says that it was told and has not asked since: then it is another's turn. It stays in
-- sight of those that line up.
local held = redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])
if not held then
    if ARGV[2] and ARGV[2] ~= '' then
        redis.call('ZREM', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
    end
    return 0
end
if ARGV[2] and not ARGV[3] or redis.call('EXISTS', KEYS[2]) == 0 then
    return 1
end
local all, find, sub = redis.call('ZRANGE', KEYS[2], 0, 127, 'WITHSCORES'), string.find, string.sub
for _ = 1, #all / 2 do
    local first, best
    for i = 1, #all, 2 do
        local space = all[i + 1] % 1 == 0 and find(all[i], ' x 1 ', 38, true)
        local since = space and sub(all[i], space + 5, space + 17) -- as many digits in all of them
        if since and (not best or since < best or since == best and all[i] < all[first]) then
            first, best = i, since
        end
    end
    if not first then
        break
    end
    local member = all[first]
    local number = sub(member, 38, find(member, ' ', 38, true) - 1)
    if redis.call('PUBLISH', 'pawl:inbox:' .. sub(member, 1, 36), 'w ' .. number) > 0 then
        redis.call('ZADD', KEYS[2], all[first + 1] + 0.5, member)
        return 2
    end
    redis.call('ZREM', KEYS[2], member) -- it has died
    all[first + 1] = 0.5
end
return 1
