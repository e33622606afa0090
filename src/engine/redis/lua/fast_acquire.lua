-- The common case, before anything is defined that it does not need: nobody holds, nobody waits, it is not the turn of foreign programs,
-- and the counter has neither been lost nor does it outrun the time (see take_tokens). The answer is one number, the last of the tokens.
-- The record is written as it came; its token is what the counter says.
local WANT = ARGV[6] or '1'
if redis.call('EXISTS', KEYS[1], KEYS[3], 'pawl:turn' .. string.sub(KEYS[3], 11)) == 0 then
    local clock, last = ARGV[6] and redis.call('TIME'), redis.call('INCRBY', KEYS[2], WANT)
    if last - WANT + 1 >= tonumber(ARGV[3]) and (not clock or last <= clock[1] * 1000000 + clock[2]) then
        occupy(ARGV[1], ARGV[4], ARGV[5])
        return last
    end
    redis.call('DECRBY', KEYS[2], WANT)
end
