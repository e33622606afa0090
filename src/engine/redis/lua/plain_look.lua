local HOLDER, LEFT

-- A hash under a mutex's name is a holder of Redisson's.
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

local function owner_and_record()
    return string.match(call('GET', WHO) or '', '^(%S+) (.*)$')
end

-- Take a holder of Redisson's away, by its field.
local function expel(owner)
    return redis.pcall('HEXISTS', LOCK, owner) == 1 and call('DEL', LOCK) > 0
end

local function prolong(ttl)
    call('PEXPIRE', LOCK, ttl)
    call('PEXPIRE', WHO, ttl)
end

local function record_of(owner)
    local holder, record = owner_and_record()
    return holder == owner and record
end

local function put_record(owner, record)
    local left = call('PTTL', WHO) -- KEEPTTL came with 6.0
    call('SET', WHO, owner .. ' ' .. record)
    if left > 0 then
        call('PEXPIRE', WHO, left)
    end
end
