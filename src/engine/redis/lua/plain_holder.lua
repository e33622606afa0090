-- The holder, if there is nothing here but a mutex: its name is the value.
local function sole_holder()
    local value = redis.pcall('GET', KEYS[1])
    return type(value) == 'string' and value
end
