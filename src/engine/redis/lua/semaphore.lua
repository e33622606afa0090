-- Redisson's PermitExpirableSemaphore: a counter of what is free, and a sorted set with a member per permit that is out, by the time when
-- it ends (ms). Ours are owner:1, owner:2, ...; the time is the server's. Redisson's RSemaphore is the counter alone: its permits are out
-- without a trace. So is any counter of anybody's. So a counter that is not what the limit says is never written over, unless it is what a
-- pawl has written there (PUT): then none is out.
local FREE = 0
local PUT = 'pawl:limit' .. string.sub(QUEUE, 11)

local function members(owner, permits)
    local all = {}
    for i = 1, permits do
        all[i] = owner .. ':' .. i
    end
    return all
end

-- What has expired is free again.
local function reclaim()
    local late = call('ZRANGEBYSCORE', BESIDE, '-inf', text(NOW / 1000), 'LIMIT', 0, 1000)
    for _, member in ipairs(late) do
        call('ZREM', BESIDE, member)
        call('HDEL', WHO, (string.gsub(member, ':%d+$', '')))
    end
    if #late > 0 then
        FREE = call('INCRBY', LOCK, #late)
    end
end

-- Nobody uses it: it may have another limit.
local function put_limit(counted)
    if call('ZCARD', BESIDE) > 0 or call('ZCARD', QUEUE) > 0 or counted and call('GET', PUT) ~= text(FREE) then
        return false
    end
    call('SET', LOCK, LIMIT)
    call('SET', PUT, LIMIT)
    FREE = LIMIT
    return true
end

local function look()
    local free = redis.pcall('GET', LOCK)
    if type(free) == 'table' or free and not string.match(free, '^-?%d%d?%d?%d?%d?%d?%d?$') then
        return 'kind'
    end
    FREE = tonumber(free or 0)
    reclaim()
    if LIMIT and FREE + call('ZCARD', BESIDE) ~= LIMIT and not put_limit(free) then
        return 'limit'
    end
    return call('ZSCORE', BESIDE, OWNER .. ':1') and 'mine' or 'open'
end

local function fits(_, permits)
    return FREE >= tonumber(permits)
end

local function admit(owner, _, permits, ttl, record)
    local ends = text(NOW / 1000 + ttl)
    for _, member in ipairs(members(owner, permits)) do
        call('ZADD', BESIDE, ends, member)
    end
    FREE = call('DECRBY', LOCK, permits)
    record_holder(owner, record, ttl)
end

local function keep(owner, ttl)
    local ends, i = text(NOW / 1000 + ttl), 1
    while call('ZSCORE', BESIDE, owner .. ':' .. i) do
        call('ZADD', BESIDE, ends, owner .. ':' .. i)
        i = i + 1
    end
    call('PEXPIRE', WHO, ttl)
    return call('HGET', WHO, owner)
end

local function drop(owner)
    local removed = call('ZREM', BESIDE, owner) -- a foreign one, by its own name
    while call('ZREM', BESIDE, owner .. ':' .. (removed + 1)) == 1 do
        removed = removed + 1
    end
    if removed > 0 then
        FREE = call('INCRBY', LOCK, removed)
        call('HDEL', WHO, owner)
    end
    return removed > 0
end

local function announce()
    return call('PUBLISH', CHANNEL, FREE)
end

local function left()
    local first = call('ZRANGE', BESIDE, 0, 0, 'WITHSCORES')[2]
    if not first then
        return -2
    end
    first = tonumber(first) - NOW / 1000
    return first > 1e12 and -1 or math.max(math.floor(first), 0) + 1 -- who looks has not always taken back what is late
end

-- No semaphore is kept, and none has threads that share a claim.
local function holders()
    return {}
end

local function foreign()
    for _, member in ipairs(call('ZRANGE', BESIDE, 0, 100)) do
        if not is_ours(member) then
            return true
        end
    end
    return false
end
