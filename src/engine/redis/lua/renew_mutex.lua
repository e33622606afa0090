-- -1: with a field `mode` a RReadWriteLock of Redisson's has entered beside it.
local function renew(lock, owner, lease)
    if redis.pcall('HEXISTS', lock, owner) ~= 1 then
        return 0
    end
    return redis.call('HEXISTS', lock, 'mode') == 1 and -1 or redis.call('PEXPIRE', lock, lease)
end
