-- Break a hold. ARGV[6] 0: mark it, and tell its holder; 1: free it at once. The answer: -1: does not hold; else how many were told.
local function broken(record)
    return (string.gsub(record, '^(%d+ %d+) (%a)', function(head, mode) return head .. ' ' .. string.upper(mode) end))
end

look()
if ARGV[6] == '1' then
    local told = tell(OWNER, 'b', 1)
    if not drop(OWNER) then
        return -1
    end
    look()
    pass_on(NOW % 16 == 0)
    return told
end
local kind = call('TYPE', WHO).ok
if kind == 'string' then
    local holder, record = string.match(call('GET', WHO), '^(%S+) (.*)$')
    if holder ~= OWNER then
        return -1
    end
    call('SET', WHO, holder .. ' ' .. broken(record), 'KEEPTTL')
else
    local record = kind == 'hash' and call('HGET', WHO, OWNER)
    if not record then
        return -1
    end
    call('HSET', WHO, OWNER, broken(record))
end
return tell(OWNER, 'b', 0)
