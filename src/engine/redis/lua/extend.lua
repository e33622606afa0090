-- More tokens for a holder whose process hands the lock on inside, if nobody else wants it; only such as follow those that it has. ARGV: 4
-- how many, 5 the channel, 6 the first that would follow. The answer: so many were added; 0: none. The first of all is written down, since
-- the counter does not tell it any more; and who goes on is shown to hold since now.
if look() ~= 'mine' or call('EXISTS', QUEUE) == 1 or CHANNEL ~= '' and others_wait() then
    return 0
end
local first, had, since, who = string.match(record_of(OWNER) or '', '^(%d+) (%d+) x 1 (%d+) (.*)$')
if not first then
    return 0
end
local next, more = take_tokens(ARGV[4])
if next == ARGV[6] then
    since = text(NOW / 1000)
else -- the counter was lost, and goes on from the time
    more = 0
end
first = first == '0' and text(ARGV[6] - had) or first
put_record(OWNER, table.concat({first, text(had + more), 'x 1', since, who}, ' '))
return more
