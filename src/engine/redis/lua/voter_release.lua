-- Take a vote back, whatever it was. 1: held, and not any more. 0: did not hold.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1], KEYS[5])
    return 1
end
redis.call('ZREM', KEYS[3], ARGV[6])
return 0
