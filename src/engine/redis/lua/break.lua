-- Break a hold. ARGV[4] 0: mark it, and tell its holder; 1: free it at once. The answer: -1: does not hold; else how many were told.
local function broken(record)
    return (string.gsub(record, '^(%d+ %d+) (%a)', function(head, mode) return head .. ' ' .. string.upper(mode) end))
end

look()
if ARGV[4] == '1' then
    local told = tell(OWNER, 'b', 1)
    if not drop(OWNER) then
        return -1
    end
    look()
    pass_on(turn_due())
    return told
end
local record = record_of(OWNER)
if not record then
    return -1
end
put_record(OWNER, broken(record))
return tell(OWNER, 'b', 0)
