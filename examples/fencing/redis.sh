#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A hash in Redis that takes nothing from a holder whose turn was over: a field has the token of the hold that wrote it.
#
#     pawl run -u redis://host fencing -- redis.sh URL KEY TEXT
#
# Says that it holds, works until a line comes from standard input, and writes TEXT to the hash KEY of the Redis at URL. Exit status 1:
# refused, since a later holder has written meanwhile.
set -eu

# A token has up to 63 bits, and a number of Lua 53: so they are compared as texts. The longer one is the higher.
script="
    local seen, mine = redis.call('HGET', KEYS[1], 'token') or '0', ARGV[1]
    if #seen > #mine or (#seen == #mine and seen > mine) then
        return 'refused'
    end
    redis.call('HSET', KEYS[1], 'token', mine, 'value', ARGV[2])
    return 'written'"

echo "holds $PAWL_TOKEN"
read -r _ # the work
answer=$(redis-cli -u "$1" --raw EVAL "$script" 1 "$2" "$PAWL_TOKEN" "$3")
echo "$answer"
[ "$answer" = written ]
