-- Renew many holds, each only if it is still its owner's: KEYS are pairs of lock and record, ARGV per lock its owner, the lease, what lies
-- beside it, and the number of permits. A list with 1 (renewed) or 0 (not its owner's) for each.
local result = {}
for i = 1, #KEYS / 2 do
    local lock, who, at = KEYS[i * 2 - 1], KEYS[i * 2], i * 4
    local lease = ARGV[at - 2]
    result[i] = renew(lock, ARGV[at - 3], lease, ARGV[at - 1], tonumber(ARGV[at]))
    if result[i] == 1 and redis.call('PTTL', who) < tonumber(lease) then
        redis.call('PEXPIRE', who, lease)
    end
end
return result
