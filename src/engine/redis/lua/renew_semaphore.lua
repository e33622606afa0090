local started = redis.call('TIME')
local started_ms = started[1] * 1000 + started[2] / 1000

local function renew(_, owner, lease, beside, permits)
    local ends = string.format('%.0f', started_ms + lease)
    for i = 1, permits do
        if not redis.call('ZSCORE', beside, owner .. ':' .. i) then
            return 0
        end
        redis.call('ZADD', beside, ends, owner .. ':' .. i)
    end
    return 1
end
