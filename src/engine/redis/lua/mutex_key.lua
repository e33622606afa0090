-- How a mutex lies in its key: Redisson's RLock, a hash with the owner as a field; its value counts re-entries, ours is always 1. Beside
-- it, behind an `@`, its record: Redisson asks for fields by name and deletes the key as a whole, so both come and go together.
local function occupy(owner, ttl, record)
    redis.call('HSET', KEYS[1], owner, '1', '@' .. owner, record)
    redis.call('PEXPIRE', KEYS[1], ttl)
end

local function vacate(owner)
    local gone = redis.pcall('HDEL', KEYS[1], owner, '@' .. owner)
    if type(gone) == 'table' then -- a holder of the plain family is here; or the server may not write, and says so again
        gone = redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HDEL', KEYS[1], owner, '@' .. owner) or 0
    end
    return gone > 0
end
