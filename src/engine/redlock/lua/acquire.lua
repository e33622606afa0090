-- One vote: KEYS lock, ballot; ARGV owner, lease, what the ballot is to be, and how it asks if not in the usual way (1: it only tries;
-- 2: it is among those that wait; 3: it lines up behind those, if there are any). Free, or its owner's already: take it, with tokens above
-- all that this server knows of. Else write down who waits.
--   1: taken, with the tokens that it proposed         {1, first token, how many, server time}: taken, with these
--   {0, ms left or less than 0, how many others wait, server time}: not taken        {-1}: something that is no lock is here
-- The ballot stays when the lock is let go: `LAST FIRST COUNT OWNER TERMS`. LAST is the counter of the tokens; the rest says who took the
-- lock last, with which of them. LAST and FIRST have 16 digits, so that they compare as they are. A FIRST of 0 asks for the server's time.
-- A majority of servers does this before anybody is granted a lock, often on few cores: so the way through has as few calls, arguments
-- and numbers made of text as can be.
local WAIT = ARGV[4] == '3' and string.gsub(KEYS[2], '^pawl:vote', 'pawl:wait')
local taken = not (WAIT and redis.call('EXISTS', WAIT) == 1) and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
local old = taken and redis.call('GETSET', KEYS[2], ARGV[3])
if old and not ARGV[4] and string.sub(old, 1, 16) < string.sub(ARGV[3], 18, 33) then
    return 1
end

local LOCK, BALLOT, OWNER, LEASE, ASKS = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[4]
WAIT = string.gsub(BALLOT, '^pawl:vote', 'pawl:wait')
local FIRST, COUNT, TERMS = string.match(ARGV[3], '^%d+ (%d+) (%d+) %S+ (.*)$')
local call = redis.call
local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]

local function text(n)
    return string.format('%.0f', n)
end

local function take(counter)
    local first = FIRST + 0 > 0 and FIRST + 0 or NOW
    if counter >= first then
        first = counter + 1
    end
    if ASKS == '2' then
        call('ZREM', WAIT, OWNER .. ' ' .. TERMS)
        TERMS = string.gsub(TERMS, '^x 1 %d+', 'x 1 ' .. text(math.floor(NOW / 1000))) -- it holds since now
    end
    call('SET', BALLOT, string.format('%016.0f %016.0f %s %s %s', first + COUNT - 1, first, COUNT, OWNER, TERMS))
    return {1, text(first), COUNT, text(NOW)}
end

local holder = taken and OWNER or redis.pcall('GET', LOCK)
if holder == OWNER then
    if not taken then
        call('PEXPIRE', LOCK, LEASE)
        old = call('GET', BALLOT)
        local voted, mode = string.match(old or '', '^%d+ %d+ %d+ (%S+) (%u)')
        TERMS = voted == OWNER and mode .. string.sub(TERMS, 2) or TERMS -- an operator wants it back, and that stays so
    end
    return take(tonumber(string.match(old or '', '^%d+') or 0))
end
if type(holder) == 'table' and call('TYPE', LOCK).ok ~= 'hash' then
    return {-1}
end
if ASKS == '1' then
    return {0, call('PTTL', LOCK), 0, text(NOW)}
end
local ms = math.floor(NOW / 1000)
call('ZREMRANGEBYSCORE', WAIT, '-inf', text(ms - 10000)) -- those that have died
call('ZADD', WAIT, text(ms), OWNER .. ' ' .. TERMS)
call('PEXPIRE', WAIT, 15000)
return {0, call('PTTL', LOCK), call('ZCARD', WAIT) - 1, text(NOW)}
