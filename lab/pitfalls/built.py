# SPDX-License-Identifier: Apache-2.0
"""The package pawl of this build: `from built import pawl`."""

import os
import sys

BUILD = os.environ.get("BUILD_DIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build")
sys.path.insert(0, os.path.join(BUILD, "python"))
try:
    import pawl  # noqa: F401
except ImportError:
    why = "the package pawl is not built: there are no headers of Python (Debian: python3-dev)"
    if {"--tap", "--check"} & set(sys.argv):  # a test is skipped; who wants to see something is told
        print(f"1..0 # SKIP {why}")
        sys.exit(0)
    sys.exit(f"lab: {why}")
