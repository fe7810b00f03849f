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


@chained.register
def _(node: WindowAggregate, rows_wait: bool) -> Link | str:
    below = node.input
    while isinstance(below, Project):
        below = below.input
    if not isinstance(below, WindowAggregate):
        return f"its rows do not come from windows with aggregates, but from {type(below).__name__}"
    reason = _refused(node, below) or ("rows of the query may wait in state" if rows_wait else None)
    if reason is not None:
        return reason
    fields = dict(_traced(node))
    if None in fields.values():
        return "what it reads is computed from the results below"
    return _linked(node, below, {name: source for name, source in fields.items() if source is not None})


def _linked(node: WindowAggregate, below: WindowAggregate, fields: dict[str, str]) -> Link | str:
    keys = [fields[key] for key in node.keys]
    if set(keys) != set(below.keys) or len(keys) != len(below.keys):
        return "its keys are not those of the windows below"
    types = {f.name: f.type.name for f in below.schema}
    if not all(types[key] in HASHED for key in keys):
        return "its keys are of types that only Spark can hash"
    if not {fields[name] for name in _times(node)} <= {below.columns.start, below.columns.end, below.columns.time}:
        return "its time is not that of the windows below"
    return Link(below, tuple(fields.items()))


def _refused(node: WindowAggregate, below: WindowAggregate) -> str | None:
    """What of the nodes themselves keeps them apart."""
    clock = uses_processing_time(node) or uses_processing_time(below) or (node.window and node.time is None)
    window = node.window
    cut = isinstance(window, Session) and window != Session(window.gap_ms)
    plain = window is None or isinstance(window, AlignedWindow | CountWindow) or _has_fixed_gap(window)
    if clock:
        return "one of the two needs processing time"
    if node.grouping_sets is not None or below.grouping_sets is not None:
        return "GROUPING SETS have keys of their own"
    if changelog_mode(below) != APPEND_ONLY:
        return "the windows below withdraw results"
    if window is not None and (cut or not plain):
        return f"{kind_of_window(window)} reads more than the time of rows"
    if replace(node.firing, late=LateData()) != DEFAULT_FIRING:
        return "its trigger or eviction reads rows"
    return None if all(_reads_a_column(item.expression) for item in node.aggregates) else "it computes what it reads"


def _has_fixed_gap(window: object) -> bool:
    return isinstance(window, Session) and isinstance(window.gap_ms, int)


def _reads_a_column(call: exp.Expression) -> bool:
    """True for calls that read one column as it is, or only count rows."""
    arguments = list(call.iter_expressions())
    counts = isinstance(call, exp.Count) and isinstance(call.this, exp.Star | exp.Literal)
    return isinstance(call, _CALLS) and len(arguments) == 1 and (counts or isinstance(call.this, exp.Column))


# --- what is read ---------------------------------------------------------------------------------------------


def _times(node: WindowAggregate) -> tuple[str, ...]:
    if node.window is None:
        return node.columns.start, node.columns.end
    return (node.time,) if node.time is not None else ()


def _read(node: WindowAggregate) -> Iterator[str]:
    yield from (*node.keys, *_times(node))
    for item in node.aggregates:
        yield from (column.name for column in item.expression.find_all(exp.Column))
    if node.firing.late.action is LateAction.TO:
        yield from (field.name for field in late_fields(node))


def _traced(node: WindowAggregate) -> Iterator[tuple[str, str | None]]:
    """The fields that the node reads, with their names below the projections; None for what these compute."""
    for field in dict.fromkeys(_read(node)):
        source = below_projections(node.input, field)
        yield field, None if source is None else source[1]
