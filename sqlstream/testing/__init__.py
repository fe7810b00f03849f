"""Deterministic tests of streaming SQL: ``StreamTest``, golden files (a pytest plugin) and case files.

``ProcessFunctionHarness`` tests a process function without Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlstream.testing.process_functions import ProcessFunctionHarness
    from sqlstream.testing.stream_test import StreamTest

__all__ = ["ProcessFunctionHarness", "StreamTest"]


# The pytest plugin is in this package and loads in every project that has it installed: keep that cheap.
_HOMES = {
    "ProcessFunctionHarness": "sqlstream.testing.process_functions",
    "StreamTest": "sqlstream.testing.stream_test",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
