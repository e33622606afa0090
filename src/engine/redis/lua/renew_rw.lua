-- A reader's own time is that of its hold key; one that has run out is not revived, even while other readers keep the hash.
local function renew(lock, owner, lease, beside)
    local hold = beside .. owner .. ':rwlock_timeout:1'
    if redis.pcall('HEXISTS', lock, owner .. ':write') ~= 1 then
        if redis.pcall('HEXISTS', lock, owner) ~= 1 or redis.call('PEXPIRE', hold, lease) == 0 then
            return 0
        end
    end
    local left = redis.call('PTTL', lock)
    if left ~= -1 and left < tonumber(lease) then
        redis.call('PEXPIRE', lock, lease)
    end
    return 1
end
