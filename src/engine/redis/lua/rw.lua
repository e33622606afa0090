-- Redisson's ReadWriteLock: a hash with `mode`, a field per reader (owner) or writer (owner:write), and per hold of a reader a string of
-- its own whose time is that reader's: a field without one belongs to a reader that is dead.
local MODE, FIELDS, LEFT = nil, {}, -2

local function hold_key(owner, n)
    return BESIDE .. owner .. ':rwlock_timeout:' .. n
end

local function read_hold_left(owner, count)
    local longest = -2
    for n = 1, math.min(tonumber(count) or 1, 100) do
        local ttl = call('PTTL', hold_key(owner, n))
        if ttl == -1 then
            return -1
        end
        longest = math.max(longest, ttl)
    end
    return longest
end

-- Readers that died stand in the way of writers only; so it is for a writer that they are looked for.
local function bury_readers(all)
    for i = 1, #all, 2 do
        if all[i] ~= 'mode' and string.sub(all[i], -6) ~= ':write' then
            local ttl = read_hold_left(all[i], all[i + 1])
            if ttl == -2 then
                call('HDEL', LOCK, all[i])
                call('HDEL', WHO, all[i])
            else
                FIELDS[all[i]] = true
                LEFT = (ttl == -1 or LEFT == -1) and -1 or math.max(LEFT, ttl)
            end
        end
    end
    if not next(FIELDS) then
        call('DEL', LOCK)
        MODE = nil
    end
end

-- The mode of a hash with these fields; nil: it is no such lock. All others are owners: a UUID and a number.
local function mode_of(all)
    local mode
    for i = 1, #all, 2 do
        if all[i] == 'mode' then
            mode = all[i + 1]
        elseif string.sub(all[i], 37, 37) ~= ':' then
            return nil
        end
    end
    return (mode == 'read' or mode == 'write') and mode or nil
end

local function look()
    local all = redis.pcall('HGETALL', LOCK)
    if all.err then
        return 'kind'
    end
    MODE, FIELDS, LEFT = mode_of(all), {}, -2
    if #all > 0 and not MODE then
        return 'kind'
    end
    if MODE == 'read' then
        bury_readers(all)
    elseif MODE then
        for i = 1, #all, 2 do
            FIELDS[all[i]] = all[i] ~= 'mode' or nil
        end
        LEFT = call('PTTL', LOCK)
    end
    return (FIELDS[OWNER] or FIELDS[OWNER .. ':write']) and 'mine' or 'open'
end

local function fits(mode)
    return not MODE or (mode == 's' and MODE == 'read')
end

local function extend(ttl)
    local now = call('PTTL', LOCK)
    if now ~= -1 and now < tonumber(ttl) then
        call('PEXPIRE', LOCK, ttl)
    end
end

local function admit(owner, mode, _, ttl, record)
    if mode == 'x' then
        call('HSET', LOCK, 'mode', 'write', owner .. ':write', 1)
        call('PEXPIRE', LOCK, ttl)
        MODE = 'write'
    else
        local fresh = not MODE
        call('HSET', LOCK, 'mode', 'read', owner, 1)
        call('SET', hold_key(owner, 1), 1, 'PX', ttl)
        if fresh then
            call('PEXPIRE', LOCK, ttl)
        else
            extend(ttl)
        end
        MODE = 'read'
    end
    record_holder(owner, record, ttl)
    LEFT = math.max(LEFT, tonumber(ttl))
end

local function keep(owner, ttl)
    if call('HEXISTS', LOCK, owner) == 1 then
        call('SET', hold_key(owner, 1), 1, 'PX', ttl)
    end
    extend(ttl)
    call('PEXPIRE', WHO, ttl)
    return call('HGET', WHO, owner)
end

local function drop(owner)
    local count = redis.pcall('HGET', LOCK, owner)
    if type(count) == 'table' or call('HDEL', LOCK, owner, owner .. ':write') == 0 then
        return false
    end
    call('HDEL', WHO, owner)
    for n = 1, math.min(tonumber(count) or 0, 100) do
        call('DEL', hold_key(owner, n))
    end
    if call('HLEN', LOCK) == 1 then
        call('DEL', LOCK)
    end
    look()
    return true
end

local function announce()
    return MODE and 0 or call('PUBLISH', CHANNEL, '1')
end

local function left()
    return LEFT
end

local function holders()
    local all = {}
    for field in pairs(FIELDS) do
        all[#all + 1] = string.gsub(field, ':write$', '')
    end
    return all
end

local function foreign()
    for field in pairs(FIELDS) do
        if not is_ours(field) then
            return true
        end
    end
    return false
end
