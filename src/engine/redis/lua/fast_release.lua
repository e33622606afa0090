-- The common cases: it is held, and nobody waits; or somebody does, and hears. What is different (the dead in the queue, a lost counter, a
-- foreign program's turn) is left to what follows. The server writes to the client that was told last first: so the grant comes after
-- the hint to the one behind.
local DROPPED, TURN_DUE = vacate(ARGV[1]), false
if DROPPED then
    local queue = redis.call('ZRANGE', KEYS[3], '0', '1', 'WITHSCORES')
    if not queue[1] then
        if ARGV[4] ~= '' then
            redis.call('PUBLISH', ARGV[4], '0')
        end
        return 1
    end
    local clock, owner, record = redis.call('TIME'), string.match(queue[1], '^(%S+) x 1 %d+ (.*)$')
    local now, want = clock[1] * 1000000 + clock[2], math.floor(queue[2] % 1 * 1048576 + 0.5)
    local count = want == 1 and '1' or tostring(want)
    TURN_DUE = now % 16 == 0
    local first = owner and not TURN_DUE and redis.call('INCRBY', KEYS[2], count) - want + 1
    if first and (first < tonumber(ARGV[3]) or want > 1 and first + want - 1 > now) then
        redis.call('DECRBY', KEYS[2], count)
    elseif first then
        local claim, inbox = string.match(ARGV[2], '^(%d+)\n(.-)\n')
        if queue[3] then
            redis.call('PUBLISH', inbox .. string.sub(queue[3], 1, 36), 'h ' .. string.match(queue[3], '^%d+ ', 38) .. claim)
        end
        -- The numbers are longer than %d takes, and %.0f is twice as dear.
        local grant = string.format('%d%07d %s %d%07d', first / 1e7, first % 1e7, count, now / 1e7, now % 1e7)
        local message = 'g ' .. string.sub(owner, 38) .. ' ' .. grant .. ' ' .. claim
        if redis.call('PUBLISH', inbox .. string.sub(owner, 1, 36), message) > 0 then
            occupy(owner, claim, '0 ' .. count .. ' x 1 ' .. string.sub(grant, -16, -4) .. ' ' .. record)
            redis.call('ZREM', KEYS[3], queue[1])
            return 1
        end
    end
end
