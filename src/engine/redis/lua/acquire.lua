-- Acquire, or queue. Running it again is the same as running it once: who holds keeps its token, who waits keeps its place.
--   {1, first token, how many, server time, wanted, broken}   held, for LEASE; or, from the fast path, the last token
--   {0, ms left or -1, position, server time, foreign, kept, again}   queued (position -1: not queued, it was a try)
--   {-1, kept}: another kind of lock is here   {-2}: a semaphore of another limit is here
-- wanted: who hears is told whether others wait behind it. broken 1: it held before, and an operator wants that back. kept 1: all who hold
-- it may be idle, and were told that it is wanted. again 1: it was in the queue before.
-- EXTRA is `LIMIT TRY`; TRY 0: it queues; 1: not; 2: only where all who are before it may be idle.
-- ARGV: 4 the lease, 5 the record, `0 WANT MODE PERMITS SINCE WHO`, 6 WANT if it is more than 1.
local LEASE, WANT, TRY = ARGV[4], ARGV[6] or '1', string.sub(EXTRA, -1)
local TERMS = string.sub(ARGV[5], #WANT + 4)
local MODE_WANTED, PERMITS, RECORD = string.match(TERMS, '^(%a) (%d+) %d+ (.*)$')
local MEMBER = OWNER .. ' ' .. TERMS

local function wanted()
    return hears(OWNER) and call('EXISTS', QUEUE) or nil
end

local function mine()
    local record = keep(OWNER, LEASE)
    local first, want = string.match(record or '', '^([1-9]%d*) (%d+) ')
    if not first then
        first, want = take_tokens(WANT)
    end
    local broken = is_broken(record)
    return {1, first, want, text(NOW), wanted() or broken and 0 or nil, broken and 1 or nil}
end

local function enter(queued)
    local first, given = take_tokens(WANT)
    local since = text(NOW / 1000) -- holds since now, however long it waited
    admit(OWNER, MODE_WANTED, PERMITS, LEASE, table.concat({first, given, MODE_WANTED, PERMITS, since, RECORD}, ' '))
    if queued then
        call('ZREM', QUEUE, MEMBER)
        hand_on()
    end
    return {1, first, given, text(NOW), wanted()}
end

-- Returns the position, and 1 if it was there before.
local function enqueue(head)
    local part, rank = (WANT - 1) / 1048576, head and call('ZRANK', QUEUE, MEMBER)
    if not rank then
        local last = head and call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2] or 0
        call('ZADD', QUEUE, math.floor(last) + 1 + part, MEMBER)
        if head then
            return call('ZCARD', QUEUE) - 1
        end
        call('PEXPIRE', QUEUE, 120000)
        return 0
    elseif WANT ~= '1' then
        call('ZADD', QUEUE, 'XX', math.floor(call('ZSCORE', QUEUE, MEMBER)) + part, MEMBER)
    end
    call('PEXPIRE', QUEUE, 120000)
    return rank, 1
end

local function wait(head, ms)
    local alien = foreign()
    if alien and CHANNEL ~= '' then
        call('SET', MET, '1', 'PX', '10000')
    end
    if head then
        note_alive()
    end
    local kept = TRY ~= '0' and (not head or head == MEMBER) and is_kept()
    local place, again = -1, nil
    if TRY == '0' or TRY == '2' and kept then
        place, again = enqueue(head)
    end
    if place == 0 or kept then
        recall()
    end
    return {0, ms, place, text(NOW), alien and 1 or 0, kept and 1 or again and 0, again}
end

local seen = look()
if seen == 'mine' then
    return mine()
elseif seen == 'kind' then
    return {-1, recall_kind() and 1 or nil}
elseif seen == 'limit' then
    return {-2}
end
local first = call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
local head = first[1]
if not head then
    if not fits(MODE_WANTED, PERMITS) then
        return wait(nil, left())
    end
    local turn = call('PTTL', TURN)
    return turn > 0 and wait(nil, turn) or enter(false)
end
local mode, permits = terms_of(head, first[2])
if fits(mode, permits) then
    local turn = call('PTTL', TURN)
    if turn > 0 then
        return wait(head, turn)
    end
    if head == MEMBER then
        return enter(true)
    end
    recover()
    if look() == 'mine' then
        return mine()
    end
    head = call('ZRANGE', QUEUE, 0, 0)[1]
    if not head and fits(MODE_WANTED, PERMITS) then
        return enter(false)
    end
end
return wait(head, left())
