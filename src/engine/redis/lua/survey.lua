-- All that there is to see of locks: of each {type, ms left, what it holds, counter of tokens, records, queue, permits that are out, their
-- holds' ms left, time}; see view.h. KEYS: 4 of each, as everywhere. ARGV: one if who waits is not asked for.
-- Locks that were found by a counter of tokens come as arguments and not as keys, since a user may have no right to some of them: those are
-- passed over. The answer about them, and about what nobody holds, is 0.
-- Each call costs about a microsecond, and each part of an answer a tenth. So what is said of the usual mutex ends with the counter, and
-- its records are left where they lie, among what it holds; and whether anybody waits is asked about all at once.
local LIST, FOUND = KEYS[1] and KEYS or ARGV, not KEYS[1]

local function read_who()
    local kind = call('TYPE', WHO).ok
    if kind == 'hash' then
        return call('HGETALL', WHO)
    end
    local owner, record
    if kind == 'string' then
        owner, record = owner_and_record()
    end
    return {owner, record and with_token(record)}
end

local function read_holds(content)
    local holds = {}
    for i = 1, #content, 2 do
        holds[#holds + 1] = call('PTTL', BESIDE .. content[i] .. ':rwlock_timeout:1')
    end
    return holds
end

local function read_queue()
    return WAITED and call('ZRANGE', QUEUE, 0, 4999) or {}
end

local function survey_hash(content)
    local recorded, rw
    for i = 1, #content, 2 do
        recorded = recorded or string.byte(content[i]) == 64 -- '@': a record
        rw = rw or content[i] == 'mode'
    end
    if FOUND and RECORDED and not recorded then
        return 0
    end
    local left, last = redis.call('PTTL', LOCK), recorded and call('GET', TOKEN) or ''
    if recorded and not rw and not WAITED then
        return {'hash', left, content, last}
    end
    local who = (rw or not recorded) and read_who() or {}
    return {'hash', left, content, last, who, read_queue(), {}, rw and read_holds(content) or {}, NOW}
end

local function survey()
    local content = redis.pcall('HGETALL', LOCK)
    if content[1] then
        return survey_hash(content)
    elseif FOUND and (RECORDED or redis.pcall('EXISTS', LOCK) ~= 1) then
        return 0
    end
    local kind = call('TYPE', LOCK).ok
    content = kind == 'string' and {call('GET', LOCK)} or {}
    local out = call('TYPE', BESIDE .. 'timeout').ok == 'zset' and call('ZRANGE', BESIDE .. 'timeout', 0, 4999, 'WITHSCORES') or {}
    return {kind, call('PTTL', LOCK), content, '', read_who(), read_queue(), out, {}, NOW}
end

local queues, answer = {}, {}
for i = 3, #LIST, 4 do
    queues[#queues + 1] = LIST[i]
end
WAITED = (FOUND or not ARGV[1]) and redis.pcall('EXISTS', unpack(queues)) ~= 0
for i = 1, #queues do
    LOCK, TOKEN, QUEUE, WHO = LIST[i * 4 - 3], LIST[i * 4 - 2], LIST[i * 4 - 1], LIST[i * 4]
    BESIDE = string.find(LOCK, '{', 1, true) and LOCK .. ':' or '{' .. LOCK .. '}:'
    answer[i] = survey()
end
return answer
