-- The holder, if there is nothing here but a mutex of a pawl's: an owner and its record, in any order.
local function sole_holder()
    local fields = redis.pcall('HKEYS', KEYS[1])
    local one, other = fields[1], fields[2]
    if not other or fields[3] then
        return false
    end
    return '@' .. one == other and one or '@' .. other == one and other
end
