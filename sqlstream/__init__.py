"""Streaming SQL on Spark: Flink's and Storm's windows, triggers, timers and lookups in one SQL dialect.

Importing this package is cheap: it loads neither PySpark nor pandas and starts no JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlstream.errors import SqlStreamError
from sqlstream.version import __version__

if TYPE_CHECKING:
    from sqlstream.session import Session, connect

__all__ = ["Session", "SqlStreamError", "__version__", "connect"]


def __getattr__(name: str) -> Any:
    if name in ("Session", "connect"):
        from sqlstream import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
