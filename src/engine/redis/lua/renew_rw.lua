-- A reader's own time is that of its hold key; one that has run out is not revived, even while other readers keep the hash. A writer is
-- alone in it. Which of them it is says the record, if it is there.
local function reads(record)
    return type(record) == 'string' and string.find(record, '^%d+ %d+ [sS]')
end

local function renew(lock, who, owner, lease, beside)
    local record, left = redis.pcall('HGET', who, owner), 0
    if reads(record) or redis.pcall('HEXISTS', lock, owner .. ':write') ~= 1 then
        local hold = beside .. owner .. ':rwlock_timeout:1'
        if redis.pcall('HEXISTS', lock, owner) ~= 1 or redis.call('PEXPIRE', hold, lease) == 0 then
            return 0
        end
        left = redis.call('PTTL', lock)
    end
    if left ~= -1 and left < tonumber(lease) then
        redis.call('PEXPIRE', lock, lease)
    end
    prolong_records(who, lease)
    return is_broken(record) and -2 or 1
end
