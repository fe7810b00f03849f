"""Aggregates per key and window on Spark's streaming aggregation, emitted when the window closes.

The grouping carries a hidden copy of the window's last millisecond, marked as event time: Spark emits and drops a
group exactly when its watermark reaches that.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.collecting import with_arrival
from sqlstream.planner.lowering.columns import EVENT_TIME, column, event_time, micros
from sqlstream.planner.lowering.grouping_sets import grouping_id, in_sets, key_in_sets, set_keys
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.lowering.reduction import Reduction, reduction_of
from sqlstream.planner.lowering.windows import (
    session_columns,
    session_keys,
    window_columns,
    with_session_time,
    with_windows,
)
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical.steps import NativeState
from sqlstream.planner.windows import AlignedWindow, Session

_CLOSES = "__closes"


@lower_node.register
def _(node: WindowAggregate, step: NativeState, context: Context) -> DataFrame:
    rows = context.lower(step.input)
    if isinstance(node.window, AlignedWindow):  # Spark's aggregation assigns sessions itself
        rows = with_windows(rows, node)
    rows = _keyed(node, rows)
    sessions = isinstance(node.window, Session)
    rows = with_arrival(rows) if sessions else rows
    reductions = [reduction_of(item, i, rows, context, sessions=sessions) for i, item in enumerate(node.aggregates)]
    grouped = _with_event_time(node, rows).groupBy(*_keys(node), *_window_keys(node))
    return grouped.agg(*_partial_results(reductions)).select(*_results(node, reductions))


# --- keys -----------------------------------------------------------------------------------------------------


def _key(index: int) -> str:
    return f"__key_{index}"


def _keyed(node: WindowAggregate, rows: DataFrame) -> DataFrame:
    """The rows with the keys under names of their own: aggregates still see a key that a grouping set leaves out."""
    keys = (key_in_sets(node, key, column(key)).alias(_key(i)) for i, key in enumerate(node.keys))
    return in_sets(node, rows).select("*", *keys)


def _keys(node: WindowAggregate) -> list[Column]:
    return [*(column(_key(i)) for i in range(len(node.keys))), *map(column, set_keys(node))]


def _with_event_time(node: WindowAggregate, rows: DataFrame) -> DataFrame:
    """The rows with the hidden column that Spark compares with its watermark."""
    if isinstance(node.window, Session):
        assert node.time is not None, "sessions need a time"
        return with_session_time(rows, node.time)
    closes = F.expr(event_time(micros(node.columns.end), -1))
    return rows.select("*", closes.alias(_CLOSES, metadata=EVENT_TIME))


def _window_keys(node: WindowAggregate) -> list[Column]:
    if isinstance(node.window, Session):
        return session_keys(node.window, keyed=bool(_keys(node)))
    return [column(node.columns.start), column(node.columns.end), column(_CLOSES)]


# --- results --------------------------------------------------------------------------------------------------


def _partial_results(reductions: list[Reduction]) -> list[Column]:
    """Spark's aggregates of all reductions; a group without any still needs one."""
    partials = [F.expr(text).alias(name) for r in reductions for name, text in r.partials]
    return partials or [F.count(F.lit(1)).alias("__count")]


def _results(node: WindowAggregate, reductions: list[Reduction]) -> list[Column]:
    keys = [column(_key(i)).alias(name) for i, name in enumerate(node.keys)]
    results = [F.expr(r.result).alias(item.name) for r, item in zip(reductions, node.aggregates, strict=True)]
    return [*keys, *grouping_id(node), *_window(node), *results]


def _window(node: WindowAggregate) -> tuple[Column, Column, Column]:
    if isinstance(node.window, Session):
        return session_columns(node.columns)
    return window_columns(node.columns, micros(node.columns.start), micros(node.columns.end))
