local started = redis.call('TIME')
local started_ms = started[1] * 1000 + started[2] / 1000

local function renew(_, owner, lease, beside, permits)
    local ends = string.format('%.0f', started_ms + lease)
    for i = 1, permits do
        local permit = owner .. ':' .. i
        if not redis.call('ZSCORE', beside, permit) then
            return 0
        end
        -- With no memory left a script may add only after it has taken something away.
        if type(redis.pcall('ZADD', beside, ends, permit)) == 'table' then
            redis.call('ZREM', beside, permit)
            redis.call('ZADD', beside, ends, permit)
        end
    end
    return 1
end
