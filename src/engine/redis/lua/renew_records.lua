-- Of kinds that several may hold: their records are one hash.
local function prolong_records(who, lease)
    if redis.call('PTTL', who) < tonumber(lease) then
        redis.call('PEXPIRE', who, lease)
    end
end
