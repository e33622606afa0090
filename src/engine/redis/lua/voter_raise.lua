-- Renew a vote, and let no later holder have a token of it: KEYS lock, counter, record; ARGV owner, lease, token, how many. Only where the
-- owner still holds: else the counter would say nothing about who comes later (docs/redlock.md).
--   {1, token, how many} or {0}
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
    return {0}
end
local last = ARGV[3] + ARGV[4] - 1
if tonumber(redis.call('GET', KEYS[2]) or 0) < last then
    redis.call('SET', KEYS[2], string.format('%.0f', last))
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local record = redis.call('GET', KEYS[3])
if record then
    record = string.gsub(record, '^(%S+) %d+ %d+', function(owner) return owner .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] end)
    redis.call('SET', KEYS[3], record, 'PX', ARGV[2])
end
return {1, ARGV[3], ARGV[4]}
