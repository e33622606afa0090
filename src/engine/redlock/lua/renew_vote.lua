local function renew(lock, _, owner, lease)
    return redis.pcall('GET', lock) == owner and redis.call('PEXPIRE', lock, lease) or 0
end
