local started = redis.call('TIME')
local started_ms = started[1] * 1000 + started[2] / 1000

-- ZADD answers whether it has changed something.
local function renew(_, who, owner, lease, beside, permits)
    local ends = string.format('%.0f', started_ms + lease)
    for i = 1, permits do
        local permit = owner .. ':' .. i
        if redis.pcall('ZADD', beside, 'XX', 'CH', ends, permit) ~= 1 then
            if not redis.call('ZSCORE', beside, permit) then
                return 0
            end
            -- With no memory left a script may add only after it has taken something away.
            redis.call('ZREM', beside, permit)
            redis.call('ZADD', beside, ends, permit)
        end
    end
    prolong_records(who, lease)
    return is_broken(redis.pcall('HGET', who, owner)) and -2 or 1
end
