-- The common case: it is held, and nobody waits.
local DROPPED = redis.call('HDEL', KEYS[1], ARGV[1]) == 1
if DROPPED then
    redis.call('DEL', KEYS[5])
    if redis.call('EXISTS', KEYS[3]) == 0 then
        redis.call('PUBLISH', ARGV[5], '0')
        return 1
    end
end
