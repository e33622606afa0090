-- It is free, somebody waits, and nobody has handed it on: the time of one that had it is over. Hand it on now. But a host that is gone may
-- have closed no connection, and the server takes what it writes to its clients for heard: then the dead have their turns one after the
-- other, each for as long as a grant waits to be confirmed (?claim=). So the first time it is written down who waits (ROLL), and from then
-- on which clients have asked. A waiter asks every 2.5 s, and 5 ms later for each that is before it. Those whose clients have not asked
-- within SILENCE us are dead, and are removed. One that was only stopped queues again when it goes on.
local SILENCE, OLDEST = 6000000, 200

local function note_alive()
    if call('EXISTS', ROLL) == 1 then
        call('HSET', ROLL, string.sub(OWNER, 1, 36), '1')
    end
end

local function begin_roll()
    local fields = {'begun', text(NOW)}
    for _, member in ipairs(call('ZRANGE', QUEUE, 0, OLDEST - 1)) do
        fields[#fields + 1] = member
        fields[#fields + 1] = ''
    end
    call('HSET', ROLL, unpack(fields))
    call('PEXPIRE', ROLL, text(CLAIM_MS + 15000))
end

local function bury_the_silent()
    local roll = {}
    for _, field in ipairs(call('HKEYS', ROLL)) do
        roll[field] = true
    end
    for _, member in ipairs(call('ZRANGE', QUEUE, 0, OLDEST - 1)) do
        if roll[member] and not roll[string.sub(member, 1, 36)] then
            call('ZREM', QUEUE, member)
        end
    end
    call('DEL', ROLL)
end

local function recover()
    note_alive()
    local begun = call('HGET', ROLL, 'begun')
    if begun and NOW - begun >= SILENCE then
        bury_the_silent()
        begun = nil
    end
    hand_on()
    if not begun then
        begin_roll()
        note_alive()
    end
end
