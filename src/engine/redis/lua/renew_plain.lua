local function renew(lock, owner, lease)
    return redis.pcall('GET', lock) == owner and redis.call('PEXPIRE', lock, lease) or 0
end
