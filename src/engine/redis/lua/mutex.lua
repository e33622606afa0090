-- Redisson's RLock: a hash with one field, the owner; its value counts re-entries, ours is always 1. WHO is a string, `OWNER RECORD`.
local HOLDER, LEFT

local function other_type()
    local kind = call('TYPE', LOCK).ok
    if kind ~= 'string' or string.match(call('GET', LOCK), '^%d%d?%d?%d?%d?%d?%d?$') then
        return 'kind'
    end
    HOLDER = ''
    return 'open'
end

local function look()
    local fields = redis.pcall('HKEYS', LOCK)
    if fields.err then
        return other_type()
    end
    HOLDER = fields[1]
    for _, field in ipairs(fields) do
        if field == 'mode' then
            return 'kind'
        elseif field == OWNER then
            return 'mine'
        end
    end
    return 'open'
end

local function fits()
    return not HOLDER
end

local function admit(owner, _, _, ttl, record)
    call('HSET', LOCK, owner, 1)
    call('PEXPIRE', LOCK, ttl)
    call('SET', WHO, owner .. ' ' .. record, 'PX', ttl)
    HOLDER, LEFT = owner, ttl
end

local function keep(owner, ttl)
    call('PEXPIRE', LOCK, ttl)
    call('PEXPIRE', WHO, ttl)
    local holder, record = string.match(call('GET', WHO) or '', '^(%S+) (.*)$')
    return holder == owner and record
end

local function drop(owner)
    if call('HDEL', LOCK, owner) == 0 then
        return false
    end
    call('DEL', WHO)
    HOLDER = nil
    return true
end

local function announce()
    call('PUBLISH', CHANNEL, '0')
end

local function left()
    return LEFT or call('PTTL', LOCK)
end

local function foreign()
    return HOLDER and not is_ours(HOLDER)
end
