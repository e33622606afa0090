-- -1: with a field `mode` a RReadWriteLock of Redisson's has entered beside it. The key has two fields, and is read as a whole: that costs
-- less than to ask for one after the other.
local function renew(lock, _, owner, lease)
    local all, content = redis.pcall('HGETALL', lock), {}
    for i = 1, #all, 2 do
        content[all[i]] = all[i + 1]
    end
    if not content[owner] then
        return 0
    elseif content.mode then
        return -1
    end
    redis.call('PEXPIRE', lock, lease)
    return is_broken(content['@' .. owner]) and -2 or 1
end
