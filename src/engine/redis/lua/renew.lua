-- Renew many holds, each only if it is still its owner's: KEYS are the locks, each with its record where that is a key of its own (and in
-- a cluster a third, see renew.c); ARGV per lock its owner, the lease, what lies beside it, and the number of permits. A list with 1
-- (renewed), 2 (likewise, and others want it: renew_wanted.lua), 0 (not its owner's), -1 (not its owner's alone) or -2 (renewed, and
-- broken by an operator) for each.
-- The message of a break may be lost with a connection, or come before the grant is known: so each renewal looks. What it reads for that
-- it knows the hold by, too, so that it costs no call more.
local result, each = {}, #KEYS * 4 / #ARGV
for i = 1, #KEYS / each do
    local key, at = (i - 1) * each + 1, i * 4
    result[i] = renew(KEYS[key], each > 1 and KEYS[key + 1], ARGV[at - 3], ARGV[at - 2], ARGV[at - 1], tonumber(ARGV[at]))
end
return result
