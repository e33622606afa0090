-- Leave, whatever one was: the holder, in the queue, or neither. 1: held, and not any more. 0: did not hold. DROPPED: the fast path has
-- taken the holder out.
if DROPPED or drop(OWNER) then
    pass_on(DROPPED and TURN_DUE or not DROPPED and NOW % 16 == 0)
    return 1
end
if call('ZREM', QUEUE, OWNER .. ' ' .. EXTRA) == 1 then
    local first = call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
    look()
    if first[1] and fits(wish_of(first[1], first[2])) then
        hand_on()
    end
end
return 0
