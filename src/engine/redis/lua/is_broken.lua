-- Does this record say that an operator wants the hold back? break.lua writes its mode in upper case.
local function is_broken(record)
    return type(record) == 'string' and string.find(record, '^%d+ %d+ %u') ~= nil
end
