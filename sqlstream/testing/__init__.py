"""Deterministic tests of streaming SQL: ``StreamTest``, golden files (a pytest plugin) and case files.

``ProcessFunctionHarness`` tests a process function without Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlstream.testing.process_functions import ProcessFunctionHarness
    from sqlstream.testing.stream_test import StreamTest

__all__ = ["ProcessFunctionHarness", "StreamTest"]


def __getattr__(name: str) -> Any:
    # The pytest plugin is in this package and loads in every project that has it installed: keep that cheap.
    if name == "StreamTest":
        from sqlstream.testing.stream_test import StreamTest

        return StreamTest
    if name == "ProcessFunctionHarness":
        from sqlstream.testing.process_functions import ProcessFunctionHarness

        return ProcessFunctionHarness
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
