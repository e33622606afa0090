-- Common to all scripts about one lock: its keys, the arguments, the clock and the tokens.
-- A script is [fast] + common + one kind (mutex, plain, rw, semaphore) + queue + one operation. A kind defines:
--   look()                        reads who holds: 'open', 'mine', 'kind' (another kind of lock is here) or 'limit'
--   fits(mode, permits)           is there room, looking at holders only?
--   admit(owner, mode, permits, ttl, record)  make it a holder; `record` says who it is
--   drop(owner)                   is it a holder? then not any more
--   keep(owner, ttl)              a holder asks again: set its time anew; returns its record, if there is one
--   announce()                    tell waiters that are not pawl that something is free
--   left()                        ms until a holder may end by itself; -1: never
--   foreign()                     is a holder not a pawl?
-- Every call costs about a microsecond of the server's only thread: so there are as few as can be.
local LOCK, TOKEN, QUEUE, TURN, WHO = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local OWNER, LEASE, CLAIM, INBOX, CHANNEL, BESIDE = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local call = redis.call
local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]

local function text(n)
    return string.format('%.0f', n)
end

-- A holder's token range: above all earlier ones, also where the counter was lost or rolled back.
local function take_tokens(want)
    local first = NOW
    local old = tonumber(call('GETSET', TOKEN, text(NOW + want - 1)) or 0)
    if old >= first then
        first = old + 1
        call('SET', TOKEN, text(old + want))
    end
    return text(first)
end

-- Our clients' UUIDs are of version 8; those of Redisson are of version 4.
local function is_ours(owner)
    return #owner > 37 and string.sub(owner, 15, 15) == '8' and string.sub(owner, 37, 37) == ':'
end

-- A message to one claim of one client. 0: nobody listens there.
local function tell(owner, verb, rest)
    return call('PUBLISH', INBOX .. string.sub(owner, 1, 36), verb .. ' ' .. string.sub(owner, 38) .. ' ' .. rest)
end
