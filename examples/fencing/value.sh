#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The value beside a lock, which takes nothing from a holder whose turn was over: its server knows who holds.
#
#     pawl run fencing -- value.sh fencing TEXT
#
# Says that it holds, works until a line comes from standard input, and writes TEXT beside LOCK, for the pawl run around it. Exit status 1:
# refused, since that does not hold it any more.
set -eu

lock=$1 text=$2
echo "holds $PAWL_TOKEN"
read -r _ # the work
if printf '%s\n' "$text" | pawl value set "$lock"; then
    echo written
else
    echo refused
    exit 1
fi
