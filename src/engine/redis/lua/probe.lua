-- PROBE: what would acquire find? 'free', 'mine', 'held', 'kind' or 'limit'; and whether all who are in the way may be idle: then they are
-- told. Nothing is taken; but what is free is handed to those who wait, and the dead among them are passed over, as by acquire.
if PROBE then
    local seen = look()
    if seen ~= 'open' then
        return seen, seen == 'kind' and recall_kind()
    end
    local first = call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
    local head, turn = first[1], call('PTTL', TURN) > 0
    if head and fits(terms_of(head, first[2])) and not turn then
        recover()
        look()
        head = call('ZRANGE', QUEUE, 0, 0)[1]
    end
    if not head and not turn and fits(string.match(ARGV[5], '^0 %d+ (%a) (%d+) ')) then
        return 'free'
    end
    local kept = not head and is_kept()
    if kept then
        recall()
    end
    return 'held', kept
end
