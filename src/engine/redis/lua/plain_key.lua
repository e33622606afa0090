-- How a mutex lies in its key: the plain family, a string whose value is the owner. The record lies beside it: `OWNER RECORD`.
local function occupy(owner, ttl, record)
    redis.call('SET', KEYS[1], owner, 'PX', ttl)
    redis.call('SET', KEYS[4], owner .. ' ' .. record, 'PX', ttl)
end

local function vacate(owner)
    return redis.pcall('GET', KEYS[1]) == owner and redis.call('DEL', KEYS[1], KEYS[4]) > 0
end
