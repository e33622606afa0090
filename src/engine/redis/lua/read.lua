-- What write.lua wrote to KEYS[1]: {server time, token, version, time, bytes}; without the bytes: there are none; {0}: there are more than
-- ARGV[1].
local clock, bytes = redis.call('TIME'), redis.call('HGET', KEYS[1], 'value')
if bytes and #bytes > tonumber(ARGV[1]) then
    return {0}
end
local answer = {string.format('%.0f', clock[1] * 1000000 + clock[2])}
for _, field in ipairs({'token', 'version', 'time'}) do
    answer[#answer + 1] = redis.call('HGET', KEYS[1], field) or '0'
end
answer[5] = bytes or nil
return answer
