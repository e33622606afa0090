-- Renew many holds, each only if it is still its owner's: KEYS are the locks, each with its record where that is a key of its own (and in
-- a cluster a third, see renew.c); ARGV per lock its owner, the lease, what lies beside it, and the number of permits. A list with 1
-- (renewed), 2 (likewise, and others want it: renew_wanted.lua), 0 (not its owner's) or -1 (not its owner's alone) for each.
local result, each = {}, #KEYS * 4 / #ARGV
for i = 1, #KEYS / each do
    local lock, who, at = KEYS[(i - 1) * each + 1], each > 1 and KEYS[(i - 1) * each + 2], i * 4
    local lease = ARGV[at - 2]
    result[i] = renew(lock, ARGV[at - 3], lease, ARGV[at - 1], tonumber(ARGV[at]))
    if who and result[i] > 0 and redis.call('PTTL', who) < tonumber(lease) then
        redis.call('PEXPIRE', who, lease)
    end
end
return result
