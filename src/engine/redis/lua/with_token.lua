-- The record of a mutex's holder leaves its first token 0 where it was written in the common case: then it is what the counter says, which
-- nobody moves while the mutex is held, but the holder, who writes it down then (more_tokens.lua).
local function with_token(record)
    local want, rest = string.match(record, '^0 (%d+)( .*)$')
    local last = want and call('GET', TOKEN)
    return last and text(last - want + 1) .. ' ' .. want .. rest or record
end
