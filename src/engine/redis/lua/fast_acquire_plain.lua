-- The common case, before anything is defined that it does not need: nobody holds, nobody waits.
if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
    local clock = redis.call('TIME')
    local now, want = clock[1] * 1000000 + clock[2], ARGV[10]
    local first, old = now, redis.call('GETSET', KEYS[2], string.format('%.0f', now + want - 1))
    if old and tonumber(old) >= first then
        first = old + 1
        redis.call('SET', KEYS[2], string.format('%.0f', old + want))
    end
    first, now = string.format('%.0f', first), string.format('%.0f', now)
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    local record = ARGV[1] .. ' ' .. first .. ' ' .. want .. ' x 1 ' .. string.sub(now, 1, -4) .. ' ' .. ARGV[13]
    redis.call('SET', KEYS[5], record, 'PX', ARGV[2])
    return {1, first, want, now}
end
