-- Take a vote back, whatever it was: KEYS lock, those that wait; ARGV owner, and what it wanted if it may be among those.
--   0: did not hold       1: held, and not any more       2: likewise, and others wait
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
    return 1 + redis.call('EXISTS', KEYS[2])
end
if ARGV[2] then
    redis.call('ZREM', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
end
return 0
