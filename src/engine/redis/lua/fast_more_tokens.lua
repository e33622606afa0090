-- The common case: it is a mutex, and its counter has neither been lost nor does it outrun the time.
local record = redis.pcall('HGET', KEYS[1], '@' .. ARGV[1])
local first, had, rest = string.match(type(record) == 'string' and record or '', '^(%d+) (%d+)( x 1 .*)$')
if first and redis.call('HEXISTS', KEYS[1], 'mode') == 0 then
    local clock, last = redis.call('TIME'), redis.call('INCRBY', KEYS[2], ARGV[4])
    local next, now = last - ARGV[4] + 1, clock[1] * 1000000 + clock[2]
    if next == tonumber(ARGV[5]) and next >= tonumber(ARGV[3]) and last <= now then
        first = first == '0' and string.format('%.0f', next - had) or first
        redis.call('HSET', KEYS[1], '@' .. ARGV[1], string.format('%s %d%s', first, had + ARGV[4], rest))
        return last - next + 1
    end
    redis.call('DECRBY', KEYS[2], ARGV[4])
end
