-- One vote: KEYS lock, counter, those that wait, record; ARGV owner, lease, the least that the token may be (0: the server's time), how
-- many tokens, what it wants, and how it asks (0: it would wait; 1: it only tries; 2: it is among those that wait). Free, or its owner's
-- already: take it, with tokens above all that this server knows of. Else write down who waits.
--   the last token, or {1, first token, how many, server time}: taken
--   {0, ms left or -1, 0, server time}: held       {-1}: something that is no lock is here
-- A majority of servers does this before anybody is granted a lock, often on few cores: so the way through has as few calls as can be.
local LOCK, TOKEN, WAIT, WHO = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OWNER, LEASE, FLOOR, WANT, WISH, ASKS = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local call = redis.call

local function text(n)
    return string.format('%.0f', n)
end

local function server_time()
    local clock = call('TIME')
    return clock[1] * 1000000 + clock[2]
end

local holder
local taken = call('SET', LOCK, OWNER, 'NX', 'PX', LEASE)
if not taken then
    holder = redis.pcall('GET', LOCK)
    taken = holder == OWNER and call('PEXPIRE', LOCK, LEASE)
end
if taken then
    local now = (FLOOR == '0' or ASKS == '2') and server_time()
    local first = FLOOR == '0' and text(now) or FLOOR
    local old = call('GET', TOKEN)
    if old and tonumber(old) >= tonumber(first) then
        first = text(old + 1)
    end
    if ASKS == '2' then
        call('ZREM', WAIT, OWNER .. ' ' .. WISH)
        WISH = string.gsub(WISH, '^x 1 %d+', 'x 1 ' .. text(math.floor(now / 1000))) -- it holds since now
    end
    call('SET', TOKEN, WANT == '1' and first or text(first + WANT - 1))
    call('SET', WHO, OWNER .. ' ' .. first .. ' ' .. WANT .. ' ' .. WISH, 'PX', LEASE)
    return now and {1, first, WANT, text(now)} or first + WANT - 1
end
if type(holder) == 'table' and call('TYPE', LOCK).ok ~= 'hash' then
    return {-1}
end
local now = server_time()
if ASKS ~= '1' then
    local ms = math.floor(now / 1000)
    call('ZREMRANGEBYSCORE', WAIT, '-inf', text(ms - 10000)) -- those that have died
    call('ZADD', WAIT, text(ms), OWNER .. ' ' .. WISH)
    call('PEXPIRE', WAIT, 15000)
end
return {0, call('PTTL', LOCK), 0, text(now)}
