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
    return vacate(owner) or expel(owner)
end

-- A RReadWriteLock that has left again may have left its `mode`, which is nobody's, and for which its own kind would wait.
local function entered()
    if look() ~= 'kind' then
        return false
    end
    if redis.pcall('HLEN', LOCK) == 1 then
        call('DEL', LOCK)
        call('PUBLISH', 'redisson_rwlock' .. string.sub(CHANNEL, 23), '1')
        HOLDER, LEFT = nil, nil
    end
    return true
end

local function announce()
    return CHANNEL == '' and 0 or wake_foreigners(CHANNEL)
end

local function others_wait()
    return foreigners_wait(CHANNEL)
end

local function foreign()
    return HOLDER and not is_ours(HOLDER)
end

local function holders()
    return {HOLDER}
end

-- A FairLock's release is told to the first of its own queue alone: where there is one, pawls look often.
local function left()
    if LEFT then
        return LEFT
    end
    local ms = call('PTTL', LOCK)
    local often = (ms > 20 or ms == -1) and CHANNEL ~= '' and foreign() and first_of_fair(CHANNEL)
    return often and 20 or ms
end
