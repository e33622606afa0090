-- The record lies beside it: `OWNER RECORD`.
local function renew(lock, who, owner, lease)
    if redis.pcall('GET', lock) ~= owner then
        return 0
    end
    local record = redis.pcall('GET', who)
    local named, rest = string.match(type(record) == 'string' and record or '', '^(%S+) (.*)$')
    redis.call('PEXPIRE', lock, lease)
    redis.call('PEXPIRE', who, lease)
    return named == owner and is_broken(rest) and -2 or 1
end
