-- The plain family: a string, whose value is the owner. WHO is a string, `OWNER RECORD`.
local HOLDER, LEFT

local function look()
    local value = redis.pcall('GET', LOCK)
    if type(value) == 'table' then
        if call('TYPE', LOCK).ok ~= 'hash' then
            return 'kind'
        end
        value = ''
    end
    HOLDER = value or nil
    return value == OWNER and 'mine' or 'open'
end

local function fits()
    return not HOLDER
end

local function admit(owner, _, _, ttl, record)
    call('SET', LOCK, owner, 'PX', ttl)
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
    if redis.pcall('GET', LOCK) ~= owner then
        return false
    end
    call('DEL', LOCK, WHO)
    HOLDER = nil
    return true
end

local function announce()
end

local function left()
    return LEFT or call('PTTL', LOCK)
end

local function foreign()
    return HOLDER and not is_ours(HOLDER)
end
