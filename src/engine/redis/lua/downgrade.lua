-- From writer to reader, without a gap. 1: done (or was done before). 0: does not hold.
local LEASE = ARGV[4]
look()
if not FIELDS[OWNER] and not FIELDS[OWNER .. ':write'] then
    return 0
end
if FIELDS[OWNER .. ':write'] then
    local ttl = call('PTTL', LOCK)
    call('HDEL', LOCK, OWNER .. ':write')
    call('HSET', LOCK, 'mode', 'read', OWNER, 1)
    call('SET', hold_key(OWNER, 1), 1, 'PX', ttl > 0 and ttl or LEASE)
    local record = redis.pcall('HGET', WHO, OWNER)
    if type(record) == 'string' then
        call('HSET', WHO, OWNER, (string.gsub(record, '^(%d+ %d+) x ', '%1 s ')))
    end
    look()
    hand_on()
    call('PUBLISH', CHANNEL, '1')
end
return 1
