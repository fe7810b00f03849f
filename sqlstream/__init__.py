"""Streaming SQL on Spark: Flink's and Storm's windows, triggers, timers and lookups in one SQL dialect.

Importing this package is cheap: it loads neither PySpark nor pandas and starts no JVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlstream.errors import SqlStreamError
from sqlstream.version import __version__

if TYPE_CHECKING:
    from sqlstream.session import Session, connect

__all__ = ["Session", "SqlStreamError", "__version__", "connect"]


_HOMES = {"Session": "sqlstream.session", "connect": "sqlstream.session"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
