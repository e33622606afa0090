#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl web in a real browser; Python has the sockets, and this is its place among the tests.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
env -u PAWL_URL TMPDIR="$scratch" python3 "$(dirname "$0")/cli_web_page.py"
