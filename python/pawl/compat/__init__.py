# SPDX-License-Identifier: Apache-2.0
"""pawl behind the interfaces of other packages, for programs that move over."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import filelock

if TYPE_CHECKING:
    from . import redis

__all__ = ["filelock", "redis"]


def __getattr__(name: str) -> Any:
    """`pawl.compat.redis` needs redis-py: it is loaded when it is first named."""
    if name == "redis":
        return importlib.import_module(".redis", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
