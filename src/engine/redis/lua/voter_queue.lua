-- A voter hands nothing on.
local function pass_on()
end
