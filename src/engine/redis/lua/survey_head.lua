-- For a look at several locks: these are each lock's in turn. So what is said of a lock is made once and not for every lock.
local LOCK, TOKEN, QUEUE, WHO, BESIDE, HOLDS
local call = redis.call

local function text(n)
    return string.format('%.0f', n)
end

local clock = call('TIME')
local NOW = text(clock[1] * 1000000 + clock[2])
