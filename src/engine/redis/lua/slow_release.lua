local DROPPED = false
