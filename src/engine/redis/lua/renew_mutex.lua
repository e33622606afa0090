local function renew(lock, owner, lease)
    local held = redis.pcall('HEXISTS', lock, owner)
    return held == 1 and redis.call('PEXPIRE', lock, lease) or 0
end
