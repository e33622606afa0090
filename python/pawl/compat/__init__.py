# SPDX-License-Identifier: Apache-2.0
"""pawl behind the interfaces of other packages, for programs that move over."""

from __future__ import annotations

from . import filelock

__all__ = ["filelock"]
