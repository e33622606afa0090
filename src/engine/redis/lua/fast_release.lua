-- The common cases: it is held, and nobody waits; or somebody does, and hears. What is different (the dead in the queue, a lost counter, a
-- foreign program's turn, a key that is still there) is left to what follows. The server writes first to the client to which it published
-- last: so the grant is published after the hint to the one behind. Who waits is not told before the script ends, so each instruction
-- counts: patterns and formats are dear.
local DROPPED, TURN_DUE = vacate(ARGV[1]), false
local there = DROPPED and redis.call('EXISTS', KEYS[1], KEYS[3])
local queue = there == 1 and redis.call('ZRANGE', KEYS[3], '0', '1', 'WITHSCORES') or {}
if there == 0 or queue[1] then
    local head, next = queue[1], queue[3]
    local find, sub, channel = string.find, string.sub, ARGV[4]
    local heard = not head and channel ~= '' and wake_foreigners(channel) > 0
    local clock = (head or heard) and redis.call('TIME')
    local due = clock and clock[2] % 2 == 0 and (clock[2] % 16 == 0 or redis.call('EXISTS', 'pawl:met' .. sub(KEYS[3], 11)) == 1)
    if not head then
        if heard and due then
            redis.call('SET', 'pawl:turn' .. sub(KEYS[3], 11), '1', 'PX', '5')
        end
        return 1
    end
    TURN_DUE = due and channel ~= '' and foreigners_wait(channel)
    local space, want = find(head, ' ', 38, true), math.floor(queue[2] % 1 * 1048576 + 1.5)
    local usual = not TURN_DUE and sub(head, space, space + 4) == ' x 1 '
    local count = want == 1 and '1' or tostring(want)
    local first = usual and redis.call('INCRBY', KEYS[2], count) - want + 1
    if first and (first < tonumber(ARGV[3]) or want > 1 and first + want - 1 > clock[1] * 1000000 + clock[2]) then
        redis.call('DECRBY', KEYS[2], count)
    elseif first then
        local line = find(ARGV[2], '\n', 1, true)
        local claim, inbox = sub(ARGV[2], 1, line - 1), sub(ARGV[2], line + 1, find(ARGV[2], '\n', line + 1, true) - 1)
        if next then
            redis.call('PUBLISH', inbox .. sub(next, 1, 36), 'h ' .. sub(next, 38, find(next, ' ', 38, true)) .. claim)
        end
        -- The number is longer than %d takes, and %.0f is twice as dear.
        local token, now = string.format('%d%07d', first / 1e7, first % 1e7), clock[1] .. sub('00000' .. clock[2], -6)
        local message = 'g ' .. sub(head, 38, space) .. token .. ' ' .. count .. ' ' .. now .. ' ' .. claim
        if next and string.byte(head, 38) == 43 then
            message = message .. ' 1'
        end
        if redis.call('PUBLISH', inbox .. sub(head, 1, 36), message) > 0 then
            local record = sub(head, (find(head, ' ', space + 5, true)))
            occupy(sub(head, 1, space - 1), claim, '0 ' .. count .. ' x 1 ' .. sub(now, 1, -4) .. record)
            redis.call('ZREM', KEYS[3], head)
            return 1
        end
    end
end
