"""Which windows run in one call with the windows below them: those over their rows, on the same keys.

Between the two nothing computes: what the upper operator reads are columns of the lower one as they are, so its rows
need neither Catalyst nor another exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.firing import DEFAULT_FIRING, LateAction, LateData
from sqlstream.planner.naming import below_projections
from sqlstream.planner.nodes import Project
from sqlstream.planner.operators.window_aggregate import WindowAggregate, late_fields
from sqlstream.planner.physical.chaining import Link, chained
from sqlstream.planner.properties import changelog_mode, uses_processing_time
from sqlstream.planner.windows import AlignedWindow, CountWindow, Session, kind_of_window

HASHED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING",
                     "BINARY", "DATE", "TIMESTAMP"})  # fmt: skip
"""Types of keys that ``udfs.key_hash.hash_of_values`` takes."""

_CALLS = (exp.Avg, exp.Count, exp.Max, exp.Min, exp.Sum)


def _has_fixed_gap(window: object) -> bool:
    return isinstance(window, Session) and isinstance(window.gap_ms, int)


def _reads_a_column(call: exp.Expression) -> bool:
    """True for calls that read one column as it is, or only count rows."""
    arguments = list(call.iter_expressions())
    counts = isinstance(call, exp.Count) and isinstance(call.this, exp.Star | exp.Literal)
    return isinstance(call, _CALLS) and len(arguments) == 1 and (counts or isinstance(call.this, exp.Column))
