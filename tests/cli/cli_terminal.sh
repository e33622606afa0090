#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command on a terminal. Python has the terminals; this is its place among the tests.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
env -u PAWL_URL TMPDIR="$scratch" python3 "$(dirname "$0")/cli_terminal.py"
