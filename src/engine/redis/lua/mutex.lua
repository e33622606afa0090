-- A mutex, however it lies in its key: one holder.
local function fits()
    return not HOLDER
end

local function admit(owner, _, _, ttl, record)
    occupy(owner, ttl, record)
    HOLDER, LEFT = owner, ttl
end

local function keep(owner, ttl)
    prolong(ttl)
    local record = record_of(owner)
    return record and with_token(record)
end

local function drop(owner)
    if not vacate(owner) and not expel(owner) then
        return false
    end
    HOLDER = nil
    return true
end

local function announce()
    if CHANNEL ~= '' then
        call('PUBLISH', CHANNEL, '0')
    end
end

local function left()
    return LEFT or call('PTTL', LOCK)
end

local function foreign()
    return HOLDER and not is_ours(HOLDER)
end
