-- One vote. Free, or its owner's already: take it, with a token above all that this server knows of and not below ARGV[3] (0: the
-- server's time). Else, unless it was a try (TRY is 1), write down who waits.
--   {1, first token, how many, server time}       {0, ms left or -1, 0, server time}       {-1}: something that is no lock is here
local LOCK, TOKEN, WAIT, WHO = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
local OWNER, LEASE, WANT, WISH, TRY = ARGV[1], ARGV[2], ARGV[6], ARGV[7], ARGV[8]
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local holder = redis.pcall('GET', LOCK)
local member = OWNER .. ' ' .. WISH

if not holder or holder == OWNER then
    local first = ARGV[3]
    if first == '0' then
        first = string.format('%.0f', now)
    end
    local old = call('GET', TOKEN)
    if old and tonumber(old) >= tonumber(first) then
        first = string.format('%.0f', old + 1)
    end
    call('SET', TOKEN, string.format('%.0f', first + WANT - 1))
    call('SET', LOCK, OWNER, 'PX', LEASE)
    now = string.format('%.0f', now)
    local record = string.match(WISH, '^x 1 %d+ (.*)$')
    call('SET', WHO, OWNER .. ' ' .. first .. ' ' .. WANT .. ' x 1 ' .. string.sub(now, 1, -4) .. ' ' .. record, 'PX', LEASE)
    if TRY == '2' then
        call('ZREM', WAIT, member)
    end
    return {1, first, WANT, now}
end
if type(holder) == 'table' and call('TYPE', LOCK).ok ~= 'hash' then
    return {-1}
end
if TRY ~= '1' then
    local ms = now / 1000
    call('ZREMRANGEBYSCORE', WAIT, '-inf', string.format('%.0f', ms - 10000)) -- those that have died
    call('ZADD', WAIT, string.format('%.0f', ms), member)
    call('PEXPIRE', WAIT, 15000)
end
return {0, call('PTTL', LOCK), 0, string.format('%.0f', now)}
