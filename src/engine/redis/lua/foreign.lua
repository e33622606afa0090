-- Those who wait for a mutex and are not pawl: Redisson's, who listen on its channel; and its FairLocks, which have a queue of their own,
-- and of which only the first may enter: it listens on a channel of its own. A user without the right to read that queue has none there.
local function first_of_fair(channel)
    local head = redis.pcall('LINDEX', 'redisson_lock_queue' .. string.sub(channel, 23), '0')
    return type(head) == 'string' and channel .. ':' .. head
end

-- Tell them that it is free. How many have heard it?
local function wake_foreigners(channel)
    local heard, fair = redis.call('PUBLISH', channel, '0'), first_of_fair(channel)
    return fair and heard + redis.call('PUBLISH', fair, '0') or heard
end

local function foreigners_wait(channel)
    if redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
        return true
    end
    local fair = first_of_fair(channel)
    return fair and redis.call('PUBSUB', 'NUMSUB', fair)[2] > 0
end
