-- The second most common case: another pawl holds, and this one is new in the queue. Numbers are written as text: one that is given to a
-- command as a number costs as much as the command.
local holder = string.sub(ARGV[2], -1) == '0' and sole_holder()
if holder and holder ~= ARGV[1] and #holder > 37 and string.sub(holder, 15, 15) == '8' and string.sub(holder, 37, 37) == ':' then
    local last = redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')[2]
    local ticket = string.format(WANT == '1' and '%d' or '%.17g', math.floor(last or 0) + 1 + (WANT - 1) / 1048576)
    if redis.call('ZADD', KEYS[3], 'NX', ticket, ARGV[1] .. string.sub(ARGV[5], #WANT + 3)) == 1 then
        local place = last and redis.call('ZCARD', KEYS[3]) - 1 or redis.call('PEXPIRE', KEYS[3], '120000') - 1
        if not last and string.byte(holder, 38) == 43 then -- it hears: see recall() in queue.lua
            local inbox = string.match(ARGV[2], '\n(.-)\n')
            redis.call('PUBLISH', inbox .. string.sub(holder, 1, 36), 'w ' .. string.sub(holder, 38))
        end
        local clock = redis.call('TIME')
        return {0, redis.call('PTTL', KEYS[1]), place, clock[1] * 1000000 + clock[2], 0}
    end
end
