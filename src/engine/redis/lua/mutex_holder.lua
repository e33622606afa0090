local function sole_holder()
    local fields = redis.pcall('HKEYS', KEYS[1])
    local holder = fields[1]
    if fields[2] and string.sub(holder, 1, 1) == '@' then
        holder = fields[2]
    end
    return #fields <= 2 and holder
end
