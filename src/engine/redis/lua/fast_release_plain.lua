-- The common case: it is held, and nobody waits.
local DROPPED = redis.pcall('GET', KEYS[1]) == ARGV[1]
if DROPPED then
    redis.call('DEL', KEYS[1], KEYS[5])
    if redis.call('EXISTS', KEYS[3]) == 0 then
        return 1
    end
end
