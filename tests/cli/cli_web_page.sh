#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl web in a real browser; Python has the sockets, and this is its place among the tests.
exec python3 "$(dirname "$0")/cli_web_page.py"
