-- How a mutex lies in its key: the plain family, a string whose value is the owner.
local function occupy(owner, ttl)
    redis.call('SET', KEYS[1], owner, 'PX', ttl)
end

local function vacate(owner)
    return redis.pcall('GET', KEYS[1]) == owner and redis.call('DEL', KEYS[1]) == 1
end
