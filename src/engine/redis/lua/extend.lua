-- More tokens for a holder whose process hands the lock on inside, if nobody else wants it; only such as follow those that it has. ARGV: 4
-- how many, 5 the channel, 6 the first that would follow. The answer: so many were added; 0: none.
if look() ~= 'mine' or call('EXISTS', QUEUE) == 1 or CHANNEL ~= '' and call('PUBSUB', 'NUMSUB', CHANNEL)[2] > 0 then
    return 0
end
local record = record_of(OWNER)
local first, had, rest = string.match(record and with_token(record) or '', '^(%d+) (%d+) (x .*)$')
if not first then
    return 0
end
local next, more = take_tokens(ARGV[4])
if next ~= ARGV[6] then -- the counter was lost, and goes on from the time
    more = 0
end
put_record(OWNER, table.concat({first, text(had + more), rest}, ' '))
return more
