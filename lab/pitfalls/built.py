# SPDX-License-Identifier: Apache-2.0
"""The package pawl of this build: `from built import pawl`."""

import os
import sys

BUILD = os.environ.get("BUILD_DIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build")
sys.path.insert(0, os.path.join(BUILD, "python"))
try:
    import pawl  # noqa: F401
except ImportError:
    print("1..0 # SKIP the package pawl is not built: there are no headers of Python (Debian: python3-dev)")
    sys.exit(0)
