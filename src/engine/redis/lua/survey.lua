-- All that there is to see of one lock: {type, ms left, what it holds, records, queue, permits that are out, their holds' ms left, time}
local kind = call('TYPE', LOCK).ok
local content = {}
if kind == 'hash' then
    content = call('HGETALL', LOCK)
elseif kind == 'string' then
    content = {call('GET', LOCK)}
end
local who = {}
local who_kind = call('TYPE', WHO).ok
if who_kind == 'hash' then
    who = call('HGETALL', WHO)
elseif who_kind == 'string' then
    who = {string.match(call('GET', WHO), '^(%S+) (.*)$')}
end
local out = call('TYPE', BESIDE).ok == 'zset' and call('ZRANGE', BESIDE, 0, 4999, 'WITHSCORES') or {}
local holds = {}
if kind == 'hash' then
    for i = 1, #content, 2 do
        holds[#holds + 1] = call('PTTL', ARGV[6] .. content[i] .. ':rwlock_timeout:1')
    end
end
return {kind, call('PTTL', LOCK), content, who, call('ZRANGE', QUEUE, 0, 4999), out, holds, text(NOW)}
