-- More tokens for a holder whose process enters it again and again; only such as follow those that it has. ARGV: 4 how many, 5 the first
-- that would follow. The answer: so many were added; 0: none. The first of all is written down, since the counter does not tell it any
-- more.
local first, had, rest = string.match(look() == 'mine' and record_of(OWNER) or '', '^(%d+) (%d+)( x 1 .*)$')
if not first then
    return 0
end
local next, more = take_tokens(ARGV[4])
if next ~= ARGV[5] then -- the counter was lost, and goes on from the time
    more = 0
end
first = first == '0' and text(ARGV[5] - had) or first
put_record(OWNER, first .. ' ' .. text(had + more) .. rest)
return more
