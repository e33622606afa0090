#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl web: its requests, honest and hostile; Python has the sockets, and this is its place among the tests.
exec python3 "$(dirname "$0")/cli_web.py"
