-- Renew a vote, and let no later holder have a token of it: KEYS lock, ballot; ARGV owner, lease, token, how many. Only where the owner
-- still holds: else the counter would say nothing about who comes later (docs/redlock.md).
--   {1, token, how many, broken} or {0}; broken 1: an operator wants it back
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
    return {0}
end
local ballot = redis.call('GET', KEYS[2]) or ''
local last = math.max(string.match(ballot, '^%d+') or 0, ARGV[3] + ARGV[4] - 1)
local who = string.match(ballot, '^%d+ %d+ %d+ (.*)$') or ARGV[1]
redis.call('SET', KEYS[2], string.format('%016.0f %016.0f %s %s', last, ARGV[3], ARGV[4], who))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local voted = string.match(who, '^(%S+) %u')
return {1, ARGV[3], ARGV[4], voted == ARGV[1] and 1 or nil}
