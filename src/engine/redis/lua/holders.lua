-- For kinds that several may hold. WHO is a hash here: a record per holder.
local function record_holder(owner, record, ttl)
    if type(redis.pcall('HSET', WHO, owner, record)) == 'table' then
        call('DEL', WHO) -- the record of a mutex that had this name and died
        call('HSET', WHO, owner, record)
    end
    if call('PTTL', WHO) < tonumber(ttl) then
        call('PEXPIRE', WHO, ttl)
    end
end

local function record_of(owner)
    local record = redis.pcall('HGET', WHO, owner)
    return type(record) == 'string' and record
end

local function put_record(owner, record)
    call('HSET', WHO, owner, record)
end

local function entered()
    return false
end

local function others_wait()
    return call('PUBSUB', 'NUMSUB', CHANNEL)[2] > 0
end
