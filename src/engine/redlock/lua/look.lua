-- A voter's lock, for operators. Its ballot (acquire.lua) outlives the hold: it is believed only where the lock's value is its owner.
local function owner_and_record()
    local tokens, owner, terms = string.match(call('GET', WHO) or '', '^%d+ (%d+ %d+) (%S+) (.*)$')
    return owner, owner and tokens .. ' ' .. terms
end

local function record_of(owner)
    local holder, record = owner_and_record()
    return holder == owner and redis.pcall('GET', LOCK) == owner and record
end

local function put_record(owner, record)
    local tokens, terms = string.match(record, '^(%d+ %d+) (.*)$')
    call('SET', WHO, string.sub(call('GET', WHO), 1, 17) .. tokens .. ' ' .. owner .. ' ' .. terms)
end

local function drop(owner)
    return redis.pcall('GET', LOCK) == owner and call('DEL', LOCK) > 0
end

-- A voter hands nothing on, so it need not know who holds.
local function look()
end

local function pass_on()
end

local function turn_due()
end
