-- Leave, as the holder, from the queue, or as neither. 1: held, and not any more. 0: did not hold, or not alone. DROPPED: the
-- fast path has taken the holder out.
if DROPPED or drop(OWNER) then
    local alone = not entered()
    pass_on(TURN_DUE or not DROPPED and turn_due())
    return alone and 1 or 0
end
-- The waiter that is first now is told so: it alone is sure to hear when the lock is let go. And who comes to let go of what has expired
-- hands on what is free: those who wait may have been told of a longer time, before the hold had its limit.
local MEMBER = OWNER .. ' ' .. EXTRA
local rank = call('ZRANK', QUEUE, MEMBER)
if rank then
    call('ZREM', QUEUE, MEMBER)
end
local first = call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
if first[1] and look() ~= 'kind' and (rank == 0 or fits(terms_of(first[1], first[2]))) then
    hand_on()
end
return 0
