-- For a look at several locks: these are each lock's in turn. So what is said of a lock is made once and not for every lock.
local LOCK, TOKEN, QUEUE, WHO, BESIDE, WAITED

-- What another program has under one of these keys is as if it were not there: it must not hide the other locks.
local function call(...)
    local found = redis.pcall(...)
    if type(found) ~= 'table' or not found.err then
        return found
    end
    return not string.find(found.err, '^WRONGTYPE') and redis.call(...)
end

local function text(n)
    return string.format('%.0f', n)
end

local clock = call('TIME')
local NOW = text(clock[1] * 1000000 + clock[2])
