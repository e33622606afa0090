local function sole_holder()
    local value = redis.pcall('GET', KEYS[1])
    return type(value) == 'string' and value
end
