-- Which of these mutexes does a pawl hold? They come as arguments and not as keys: those that the user has no right to are passed over.
-- A list with 1 (held) or 0 for each.
local result = {}
for i = 1, #ARGV do
    result[i] = 0
    for _, field in ipairs(redis.pcall('HKEYS', ARGV[i])) do
        if string.sub(field, 1, 1) == '@' then
            result[i] = 1
        end
    end
end
return result
