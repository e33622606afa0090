-- The ballot says whether an operator wants the hold back (acquire.lua).
local function renew(lock, ballot, owner, lease)
    if redis.pcall('GET', lock) ~= owner then
        return 0
    end
    redis.call('PEXPIRE', lock, lease)
    local last = redis.pcall('GET', ballot)
    local voted, mode = string.match(type(last) == 'string' and last or '', '^%d+ %d+ %d+ (%S+) (%a)')
    return voted == owner and mode ~= string.lower(mode) and -2 or 1
end
