-- It is free, somebody waits, and nobody has handed it on: the time of one that had it is over. Hand it on now, and write down to whom
-- (DOUBT), with the counter. If that time runs out in the same way, and nobody has had a token meanwhile, those never spoke: their host is
-- gone, the server does not know it yet, and takes what it writes to them for heard. Then what they wait for beside goes as well, so that a
-- dead client costs one claim, and not one for each of its threads. One that was only stopped queues again.
local function bury_the_silent()
    local owners, token = string.match(call('GET', DOUBT) or '', '^(.*) (%d+)$')
    if not owners or token ~= call('GET', TOKEN) then
        return
    end
    local silent = {}
    for owner in string.gmatch(owners, '%S+') do
        silent[string.sub(owner, 1, 36)] = not record_of(owner)
    end
    for _, member in ipairs(call('ZRANGE', QUEUE, 0, 999)) do
        if silent[string.sub(member, 1, 36)] then
            call('ZREM', QUEUE, member)
        end
    end
end

local function recover()
    bury_the_silent()
    local granted = hand_on()
    if #granted > 0 then
        call('SET', DOUBT, table.concat(granted, ' ') .. ' ' .. call('GET', TOKEN), 'PX', text(CLAIM + 10000))
    end
end
