-- The common case, before anything is defined that it does not need: nobody holds, nobody waits, and the counter has not been lost. The
-- answer is one number, the last of the tokens.
if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
    local last = redis.call('INCRBY', KEYS[2], ARGV[6])
    local first = last - ARGV[6] + 1
    if first >= tonumber(ARGV[3]) then
        occupy(ARGV[1], ARGV[2])
        local digits = string.format('%d%07d', first / 1e7, first % 1e7) -- half as dear as %.0f
        redis.call('SET', KEYS[5], ARGV[1] .. ' ' .. digits .. ' ' .. ARGV[6] .. ' ' .. ARGV[7], 'PX', ARGV[2])
        return last
    end
end
