-- Which of these locks does anybody hold? See held.lua.
local result = {}
for i = 1, #ARGV do
    result[i] = redis.pcall('EXISTS', ARGV[i]) == 1 and 1 or 0
end
return result
