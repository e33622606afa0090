-- Write what lies beside a lock, in the name of the hold that has it alone: decided here, by no clock of the writer's. KEYS: 1 the lock,
-- 2 the hash that is written, 3 the lock's counter of tokens, and 4 its records, but for the owner of a mutex in Redisson's layout.
-- ARGV: 1 the owner of the hold, or '': the one who has the token; 2 the token; 3 the writer, or '': the owner itself; 4 the number of
-- this write of its; 5 the bytes, or nothing: delete.
-- The answer: {1, version, server time}, or as a text the version that is both; {2}: it was carried out before, and others may have written
-- since; {0}: no such hold; {-1}: it was broken; {-2}: this is no lock that one can hold alone.
-- `by` is `OWNER NUMBER VERSION`: the hold, its own last write, and the version of the last one; and a line `WRITER NUMBER` for each other
-- writer under it. By its number a write is known that was carried out: sent again it does nothing; and one that comes late, over a
-- connection that was cut, when its writer has written again, counts as overwritten.
-- An owner may hold for a second time: its lease ended, and acquire was on its way once more. By its token a write of the first hold is
-- known then, and refused.
-- The common case is one request that should cost little more than a bare SET in a script: it has few words, and few calls.
local call, VALUE, NUMBER = redis.call, KEYS[2], ARGV[4]
local by, clock = call('HGET', VALUE, 'by'), call('TIME')
local NOW = clock[1] .. (#clock[2] == 6 and clock[2] or string.sub('00000' .. clock[2], -6))

-- The first token of a record, and how many. A first token 0: it is what the counter says (common.lua).
local function tokens_of(record)
    local first, count = string.match(record or '', '^(%d+) (%d+) ')
    return first == '0' and (call('GET', KEYS[3]) or 0) - count + 1 or tonumber(first), count
end

-- The common case: a mutex of a pawl's, and nobody has written in its name.
local record = ARGV[5] and redis.pcall('HGET', KEYS[1], '@' .. ARGV[1])
local last, number, version
if by then
    last, number, version = string.match(by, '^(%S+) (%d+) (%d+)$')
end
if type(record) == 'string' and string.find(record, '^%d+ %d+ x') and call('HLEN', KEYS[1]) == 2
    and ARGV[2] - tokens_of(record) >= 0 and (not by or last and NOW - version > 0 and (last ~= ARGV[1] or NUMBER - number > 0)) then
    call('HSET', VALUE, 'by', ARGV[1] .. ' ' .. NUMBER .. ' ' .. NOW, 'value', ARGV[5], 'token', ARGV[2], 'version', NOW, 'time', NOW)
    return NOW
end

local LOCK, WHO, OTHERS_MOST = KEYS[1], KEYS[4], 16
local TOKEN, WRITER = tonumber(ARGV[2]), ARGV[3] ~= '' and ARGV[3] or ARGV[1]
NUMBER = tonumber(NUMBER)
by, version = by or '', tonumber(call('HGET', VALUE, 'version') or '') or 0
for writer, number in string.gmatch(by, '(%S+) (%d+)') do
    if writer == WRITER and tonumber(number) >= NUMBER then
        return {2}
    end
end

-- A read-write lock's fields: its writer's owner, and its record.
local function sole_writer(mode, field)
    local owner = mode == 'write' and string.match(field or '', '^(.*):write$') or false
    return owner, owner and WHO and call('HGET', WHO, owner)
end

-- The owner of the only hold and its record, if there is one; nil: no lock of this kind is here.
local function holder()
    local kind = call('TYPE', LOCK).ok
    if kind == 'none' then
        return false
    elseif kind == 'string' then
        local owner = call('GET', LOCK)
        if string.match(owner, '^%d%d?%d?%d?%d?%d?%d?$') then -- a semaphore's counter
            return nil
        end
        local named, record = string.match(WHO and call('GET', WHO) or '', '^(%S+) (.*)$')
        return owner, named == owner and record
    elseif kind ~= 'hash' then
        return nil
    end
    local mode, owner, record
    local all = call('HGETALL', LOCK)
    for i = 1, #all, 2 do
        if all[i] == 'mode' then
            mode = all[i + 1]
        elseif string.sub(all[i], 1, 1) == '@' then
            record = all[i + 1]
        else
            owner = all[i]
        end
    end
    if not mode then
        return owner or false, record
    elseif record then -- a RReadWriteLock has entered beside a mutex
        return false
    end
    return sole_writer(mode, owner)
end

-- By token: of the holds that had one claim in turn the latest that has written is the first that may write.
local function stands(owner, record)
    local first, count = tokens_of(record)
    if ARGV[1] ~= '' then
        return ARGV[1] == owner and TOKEN >= (first or 0)
    end
    local written = tonumber(call('HGET', VALUE, 'token') or '') or 0
    return first and TOKEN >= first and TOKEN < first + count and not (written > TOKEN and written < first + count)
end

local owner
owner, record = holder()
if owner == nil then
    return {-2}
elseif not owner or not stands(owner, record) then
    return {0}
elseif record and string.match(record, '^%d+ %d+ %u') then
    return {-1}
end

local own, others = WRITER == owner and NUMBER or 0, {}
if WRITER ~= owner then
    others[1] = WRITER .. ' ' .. ARGV[4]
end
if string.sub(by, 1, #owner + 1) == owner .. ' ' then
    for writer, number in string.gmatch(by, '(%S+) (%d+)') do
        if writer == owner then
            own = math.max(own, number)
        elseif writer ~= WRITER and #others < OTHERS_MOST then
            others[#others + 1] = writer .. ' ' .. number
        end
    end
end
local new = string.format('%.0f', math.max(version + 1, NOW))
table.insert(others, 1, owner .. ' ' .. own .. ' ' .. new)
if not ARGV[5] then
    call('HDEL', VALUE, 'value')
end
call(unpack({'HSET', VALUE, 'token', ARGV[2], 'version', new, 'time', NOW, 'by', table.concat(others, '\n'), ARGV[5] and 'value', ARGV[5]}))
return {1, new, NOW}
