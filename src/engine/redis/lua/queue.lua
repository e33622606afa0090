-- The queue: a member per claim that waits, `OWNER MODE PERMITS SINCE RECORD`; its score is the ticket, and behind the point how many
-- tokens more than one it could use (in 2^-20): so that both come with one call, and mostly as a whole number.
local function owner_of(member)
    return string.match(member, '^%S+')
end

local function terms_of(member, score)
    local mode, permits, record = string.match(member, '^%S+ (%a) (%d+) %d+ (.*)$')
    return mode, permits, math.floor(score % 1 * 1048576 + 1.5), record
end

-- Who waits tells those that are in its way and hear.
local function recall()
    for _, owner in ipairs(holders()) do
        if hears(owner) then
            tell(owner, 'w')
        end
    end
end

-- Is it held, and may all who hold it be idle?
local function is_kept()
    local all = holders()
    for _, owner in ipairs(all) do
        if not keeps(owner) then
            return false
        end
    end
    return #all > 0
end

-- The same of another kind of lock that is here: those who keep it are told.
local function recall_kind()
    local fields, all = redis.pcall('HKEYS', LOCK), {}
    for _, field in ipairs(fields) do
        local owner = string.match(field, '^@?([%x-]+:%+%d+)')
        if field ~= 'mode' and not (owner and keeps(owner)) then
            return false
        end
        all[owner or ''] = owner
    end
    for _, owner in pairs(all) do
        tell(owner, 'w')
    end
    return next(all) ~= nil
end

-- Hand what is free to the first in the queue, and the next, as long as there is room: this is the order of grants. fast_release.lua has
-- the same choice once more for the common release of a mutex, and fast_queue.lua the ticket of enqueue(): change them together. The token
-- is taken first: if the server may not write, the script ends there, and nobody was told of a grant. Where PUBLISH reaches no subscriber
-- the waiter is dead, and dropped. The one who is first afterwards is told so, how long it may take, and whether a program that is not pawl
-- holds it: its timer is the one that is always set, and it listens where such programs tell of a release. Who hears is told with its grant
-- whether others wait behind it; a reader after all of them, since readers behind it may be granted, too.
local function hand_on()
    local granted, readers, at, batch = 0, {}, 1, call('ZRANGE', QUEUE, 0, 1, 'WITHSCORES')
    for _ = 1, 1000 do
        local head = batch[at]
        if not head and at > 1 then
            batch, at = call('ZRANGE', QUEUE, 0, 9, 'WITHSCORES'), 1
            head = batch[1]
        end
        if not head then
            break
        end
        local owner, mode, permits, want, record = owner_of(head), terms_of(head, batch[at + 1])
        if not fits(mode, permits) then
            if tell(owner, 'h', left() .. (foreign() and ' 1' or ' 0')) > 0 then
                break
            end
        else
            local first, given = take_tokens(want)
            local behind = mode == 'x' and hears(owner) and call('ZCARD', QUEUE) > 1 and ' 1' or ''
            if tell(owner, 'g', first .. ' ' .. given .. ' ' .. text(NOW) .. ' ' .. CLAIM_MS .. behind) > 0 then
                local since = text(NOW / 1000)
                record = first .. ' ' .. given .. ' ' .. mode .. ' ' .. permits .. ' ' .. since .. ' ' .. record
                admit(owner, mode, permits, CLAIM_MS, record)
                granted = granted + 1
                readers[#readers + 1] = mode == 's' and hears(owner) and owner or nil
            end
        end
        call('ZREM', QUEUE, head)
        at = at + 2
    end
    if readers[1] and call('EXISTS', QUEUE) == 1 then
        for _, owner in ipairs(readers) do
            tell(owner, 'w')
        end
    end
    return granted
end

-- Programs that are not pawl have a turn of 5 ms now and then, if they listen: else the lock would never look free to them, or a pawl that
-- comes back at once would always be there first. By the clock's last digits it is one release in 16; and where such a program was seen to
-- hold it in the last seconds (MET), and so does more than listen, every other release: then none waits three times as long as among its
-- kind.
local function turn_due()
    return CHANNEL ~= '' and NOW % 2 == 0 and (NOW % 16 == 0 or call('EXISTS', MET) == 1)
end

-- The head of the queue is told to ask again when it is over.
local function open_turn(due)
    local head = due and others_wait() and call('ZRANGE', QUEUE, 0, 0)[1]
    if not head then
        return false
    end
    call('SET', TURN, '1', 'PX', '5')
    tell(owner_of(head), 'h', 5)
    return true
end

-- Something was let go.
local function pass_on(due)
    if open_turn(due) then
        announce()
    elseif hand_on() == 0 and announce() > 0 and due and call('EXISTS', QUEUE) == 0 then
        call('SET', TURN, '1', 'PX', '5')
    end
end
