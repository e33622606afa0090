-- Who hears (hears() in common.lua) is told with each renewal whether others wait: pawls in the queue, or foreign programs. In a cluster
-- the queue may be on its way to another node: then nothing is said of it.
local renew_only = renew

local function is_wanted(lock)
    local rest = string.find(lock, '{', 1, true) and ':' .. lock or ':{' .. lock .. '}'
    return redis.pcall('EXISTS', 'pawl:queue' .. rest) == 1 or aliens_wait(rest)
end

local function renew(lock, who, owner, lease, beside, permits)
    local result = renew_only(lock, who, owner, lease, beside, permits)
    return result == 1 and string.byte(owner, 38) == 43 and is_wanted(lock) and 2 or result
end
