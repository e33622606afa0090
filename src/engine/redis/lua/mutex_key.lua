-- How a mutex lies in its key: Redisson's RLock, a hash with one field, the owner; its value counts re-entries, ours is always 1.
local function occupy(owner, ttl)
    redis.call('HSET', KEYS[1], owner, '1')
    redis.call('PEXPIRE', KEYS[1], ttl)
end

local function vacate(owner)
    return redis.call('HDEL', KEYS[1], owner) == 1
end
