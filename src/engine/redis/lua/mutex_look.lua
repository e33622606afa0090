local HOLDER, LEFT

-- A string under a mutex's name is a holder of the plain family, unless it counts permits.
local function other_type()
    local kind = call('TYPE', LOCK).ok
    if kind ~= 'string' or string.match(call('GET', LOCK), '^%d%d?%d?%d?%d?%d?%d?$') then
        return 'kind'
    end
    HOLDER = ''
    return 'open'
end

-- With a field `mode` it is a RReadWriteLock, which enters although others hold. Then nobody can have it, not even its holder; waiters are
-- told to ask at once.
local function look()
    local fields = redis.pcall('HKEYS', LOCK)
    if fields.err then
        return other_type()
    end
    HOLDER = nil
    local mine = false
    for _, field in ipairs(fields) do
        if field == 'mode' then
            HOLDER, LEFT = '', 0
            return 'kind'
        elseif field == OWNER then
            mine = true
        elseif string.sub(field, 1, 1) ~= '@' then
            HOLDER = field
        end
    end
    HOLDER = mine and OWNER or HOLDER
    return mine and 'mine' or 'open'
end

-- Take a holder of the plain family away, by its value.
local function expel(owner)
    return redis.pcall('GET', LOCK) == owner and call('DEL', LOCK, WHO) > 0
end

local function prolong(ttl)
    call('PEXPIRE', LOCK, ttl)
end

local function record_of(owner)
    local record = redis.pcall('HGET', LOCK, '@' .. owner)
    return type(record) == 'string' and record
end

local function put_record(owner, record)
    call('HSET', LOCK, '@' .. owner, record)
end
