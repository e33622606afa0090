-- Renew many holds, each only if it is still its owner's: KEYS are pairs of lock and record, ARGV the lease, and per lock its owner, what
-- lies beside it, and the number of permits. A list with 1 (renewed) or 0 (not its owner's) for each.
local result = {}
for i = 1, #KEYS / 2 do
    local lock, who, owner = KEYS[i * 2 - 1], KEYS[i * 2], ARGV[i * 3 - 1]
    result[i] = renew(lock, owner, ARGV[1], ARGV[i * 3], tonumber(ARGV[i * 3 + 1]))
    if result[i] == 1 and redis.call('PTTL', who) < tonumber(ARGV[1]) then
        redis.call('PEXPIRE', who, ARGV[1])
    end
end
return result
