-- Common to all scripts about one lock: its keys, the arguments, the clock and the tokens.
-- A script is common + one kind (mutex, rw, semaphore; the latter two with holders) + queue + one operation; for a mutex a fast path comes
-- first. A kind defines:
--   look()                        reads who holds: 'open', 'mine', 'kind' (another kind of lock is here) or 'limit'
--   fits(mode, permits)           is there room, looking at holders only?
--   admit(owner, mode, permits, ttl, record)  make it a holder; `record` says who it is
--   drop(owner)                   is it a holder? then not any more
--   entered()                     after drop: has another kind of lock entered beside it? Looks anew where that can be
--   keep(owner, ttl)              a holder asks again: set its time anew; returns its record, if there is one
--   announce()                    tell waiters that are not pawl that something is free; how many have heard it?
--   others_wait()                 do such wait?
--   left()                        ms until a holder may end by itself; -1: never
--   foreign()                     is a holder not pawl?
--   holders()                     the owners that hold, as far as they may hear
--   record_of(owner)              a holder's record, if there is one; put_record(owner, record) writes it
-- Every call costs about a microsecond of the server's only thread: so there are as few as can be.
local LOCK, TOKEN, QUEUE, WHO = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local TURN, MET = 'pawl:turn' .. string.sub(QUEUE, 11), 'pawl:met' .. string.sub(QUEUE, 11)
local ROLL = 'pawl:roll' .. string.sub(QUEUE, 11)
local OWNER, FLOOR = ARGV[1], tonumber(ARGV[3])
-- What the common cases do not need is one argument: each costs as much as a call. EXTRA is the operation's own.
local CLAIM_MS, INBOX, CHANNEL, BESIDE, EXTRA = string.match(ARGV[2], '^(%d+)\n(.-)\n(.-)\n(.-)\n(.*)$')
local LIMIT = tonumber(string.match(EXTRA, '^(%d+) %d$'))
local call = redis.call
local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]

local function text(n)
    return string.format('%.0f', n)
end

-- A holder's tokens: the first, and how many; above all earlier ones. FLOOR is the server's time when the client's connection was new: a
-- counter below that was lost or rolled back since, and goes on from the time now, which is above all that was ever given. For that the
-- counter must not outrun the time: a claim that wants several gets no more than there is room for. One is always given; that takes longer
-- than a microsecond.
local function take_tokens(want)
    local last = call('INCRBY', TOKEN, want)
    local before = last - want
    if before + 1 < FLOOR and before + 1 < NOW then
        call('SET', TOKEN, text(NOW))
        return text(NOW), 1
    end
    local given = math.max(1, math.min(want, NOW - before))
    if last ~= before + given then
        call('SET', TOKEN, text(before + given))
    end
    return text(before + 1), given
end

-- Our clients' UUIDs are of version 8; those of Redisson are of version 4.
local function is_ours(owner)
    return #owner > 37 and string.sub(owner, 15, 15) == '8' and string.sub(owner, 37, 37) == ':'
end

-- A message to one claim of one client. 0: nobody listens there.
local function tell(owner, verb, rest)
    local message = verb .. ' ' .. string.sub(owner, 38) .. (rest and ' ' .. rest or '')
    return call('PUBLISH', INBOX .. string.sub(owner, 1, 36), message)
end

-- A claim that is to be told when others wait for it says so by a + before its number: +N, if its process may keep it while nobody there
-- holds it; +0N, if several threads share it. Earlier versions read these as numbers.
local function hears(owner)
    return string.byte(owner, 38) == 43
end

local function keeps(owner)
    return hears(owner) and (string.byte(owner, 39) ~= 48 or #owner == 39)
end
