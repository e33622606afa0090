-- All that there is to see of one lock: {type, ms left, what it holds, records, queue, permits that are out, their holds' ms left, time}
local kind = call('TYPE', LOCK).ok
local content, who = {}, {}
if kind == 'hash' then
    local all = call('HGETALL', LOCK)
    for i = 1, #all, 2 do
        local record_owner = string.match(all[i], '^@(.*)$')
        local to = record_owner and who or content
        to[#to + 1] = record_owner or all[i]
        to[#to + 1] = record_owner and with_token(all[i + 1]) or all[i + 1]
    end
elseif kind == 'string' then
    content = {call('GET', LOCK)}
end
local who_kind = call('TYPE', WHO).ok
if who_kind == 'hash' then
    who = call('HGETALL', WHO)
elseif who_kind == 'string' then
    who = {owner_and_record()}
    who[2] = who[2] and with_token(who[2])
end
local out = call('TYPE', BESIDE).ok == 'zset' and call('ZRANGE', BESIDE, 0, 4999, 'WITHSCORES') or {}
local holds = {}
if kind == 'hash' then
    for i = 1, #content, 2 do
        holds[#holds + 1] = call('PTTL', ARGV[4] .. content[i] .. ':rwlock_timeout:1')
    end
end
return {kind, call('PTTL', LOCK), content, who, call('ZRANGE', QUEUE, 0, 4999), out, holds, text(NOW)}
