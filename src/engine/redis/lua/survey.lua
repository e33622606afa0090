-- All that there is to see of locks: of each {type, ms left, what it holds, records, queue, permits that are out, their holds' ms left,
-- time}. KEYS: 4 of each, as everywhere. ARGV: 2 of each: a semaphore's sorted set; what hold keys begin with; and one
-- more if who waits is not asked for.
-- Of a mutex, the most common, no more is read than it can have.
local function read_hash()
    local content, who, rw = {}, {}, false
    local all = call('HGETALL', LOCK)
    for i = 1, #all, 2 do
        local field, value = all[i], all[i + 1]
        if string.byte(field) == 64 then -- '@': a record
            who[#who + 1], who[#who + 2] = string.sub(field, 2), with_token(value)
        else
            rw = rw or field == 'mode'
            content[#content + 1], content[#content + 2] = field, value
        end
    end
    return content, who, rw
end

local function read_who(who)
    local kind = call('TYPE', WHO).ok
    if kind == 'hash' then
        return call('HGETALL', WHO)
    elseif kind == 'string' then
        local owner, record = owner_and_record()
        return {owner, record and with_token(record)}
    end
    return who
end

local function read_holds(content)
    local holds = {}
    for i = 1, #content, 2 do
        holds[#holds + 1] = call('PTTL', HOLDS .. content[i] .. ':rwlock_timeout:1')
    end
    return holds
end

local function survey()
    local kind, content, who, rw, out, holds = call('TYPE', LOCK).ok, {}, {}, false, {}, {}
    if kind == 'hash' then
        content, who, rw = read_hash()
        holds = rw and read_holds(content) or holds
    else
        content = kind == 'string' and {call('GET', LOCK)} or content
        out = call('TYPE', BESIDE).ok == 'zset' and call('ZRANGE', BESIDE, 0, 4999, 'WITHSCORES') or out
    end
    if rw or #who == 0 then
        who = read_who(who)
    end
    local queue = ARGV[#KEYS / 2 + 1] and {} or call('ZRANGE', QUEUE, 0, 4999) or {}
    return {kind, call('PTTL', LOCK), content, who, queue, out, holds, NOW}
end

local answer = {}
for i = 1, #KEYS / 4 do
    LOCK, TOKEN, QUEUE, WHO = KEYS[i * 4 - 3], KEYS[i * 4 - 2], KEYS[i * 4 - 1], KEYS[i * 4]
    BESIDE, HOLDS = ARGV[i * 2 - 1], ARGV[i * 2]
    answer[i] = survey()
end
return answer
