"""What runs of windows with aggregates: which kernel, what it looks at of the rows' order, and what Spark's own
operators can do."""

from __future__ import annotations

from enum import Enum

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.firing import DEFAULT_FIRING, AfterProcessingTime, AfterWatermark
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows, only_columnar_window
from sqlstream.planner.physical.clocks import told_time
from sqlstream.planner.physical.kernels import keys_of, sees_arrival
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.text import before_exchange, kernel, native_state
from sqlstream.planner.properties import changelog_mode, keeps_rows
from sqlstream.planner.windows import (
    CLOSES_AT_ONCE,
    CountWindow,
    Cumulate,
    Hop,
    RowMeasured,
    Session,
    Tumble,
    UserWindow,
)

ORDERED = frozenset({"first", "first_value", "last", "last_value", "any_value", "collect_list", "array_agg", "listagg",
                     "string_agg", "mode"})  # fmt: skip
"""Aggregates that see the order of rows."""


class WindowKernelKind(Enum):
    """The kernels of windows."""

    PANES = "panes that windows share"
    COUNTED = "rows counted per key"
    ROW_MEASURED = "rows in order of time"
    SESSIONS = "sessions, one state each"
    CUT_SESSIONS = "sessions cut in order of time"
    GENERAL = "window by window"


def kind_of(node: AssignWindows | WindowAggregate) -> WindowKernelKind:
    match node.window:
        case CountWindow():
            return WindowKernelKind.COUNTED
        case RowMeasured():
            return WindowKernelKind.ROW_MEASURED
        case Session() as session if is_cut(session):
            return WindowKernelKind.CUT_SESSIONS
        case Session() if isinstance(node, WindowAggregate) and _fires_once(node):
            return WindowKernelKind.SESSIONS
        case Tumble(size_ms=size) if size == CLOSES_AT_ONCE:  # a pane per time would be one for each row
            return WindowKernelKind.GENERAL
        case Tumble() | Hop() | Cumulate() if isinstance(node, WindowAggregate) and _shares_panes(node):
            return WindowKernelKind.PANES
    return WindowKernelKind.GENERAL


def is_cut(session: Session) -> bool:
    """True for sessions that may end before their gap."""
    return (session.max_duration_ms, session.start_when, session.end_when) != (None, None, None)


def _fires_once(node: WindowAggregate) -> bool:
    """True for one result per window, when it closes, over all its rows, and late rows never taken."""
    firing = node.firing
    by_default = firing.trigger in (None, AfterWatermark(), AfterProcessingTime()) and firing.late.allow_ms == 0
    return by_default and firing.eviction is None and node.pane is None and node.pane_index is None


def _shares_panes(node: WindowAggregate) -> bool:
    """Panes are read in order of time, so aggregates that see the order of arrival need one pane per window."""
    in_order = isinstance(node.window, Tumble) or not any(sees_order(item.expression) for item in node.aggregates)
    return in_order and _fires_once(node)


def sees_order(expression: exp.Expression) -> bool:
    """True where the result of an aggregate call shows in which order rows arrived, and for functions of users."""
    calls = [node for node in expression.find_all(exp.Func) if spark_name(node) in ORDERED]
    return bool(calls) or expression.find(exp.Anonymous) is not None


@sees_arrival.register
def _(node: WindowAggregate) -> bool:
    if kind_of(node) in (WindowKernelKind.COUNTED, WindowKernelKind.ROW_MEASURED, WindowKernelKind.CUT_SESSIONS):
        return True
    ordered = any(sees_order(item.expression) or sees_ties(item.expression) for item in node.aggregates)
    return ordered or not _fires_by_time(node)


def sees_ties(expression: exp.Expression) -> bool:
    """True where the result of an aggregate call shows in which order rows arrived that tie or repeat."""
    return any(spark_name(call) in _ARRIVAL for call in expression.find_all(exp.Func))


_ARRIVAL = frozenset({"max_by", "min_by", "collect_set", "approx_percentile", "percentile_approx"})
"""Aggregates that see the order of rows where these tie, repeat or are summed up in sketches."""


def _fires_by_time(node: WindowAggregate) -> bool:
    return _fires_once(node) and not isinstance(node.window, UserWindow)


@kernel.register(AssignWindows)
@kernel.register(WindowAggregate)
def _(node: AssignWindows | WindowAggregate) -> str:
    reason = keeps_rows(node)
    kept = f"rows kept ({reason})" if reason else "aggregates of the rows kept"
    return f"of {kind_of(node).value}, {kept}{', also when rows go' if rows_go(node) else ''}"


def rows_go(node: AssignWindows | WindowAggregate) -> bool:
    """True where some rows of the input are no inserts."""
    return changelog_mode(node.input) != APPEND_ONLY


# --- the exchange ---------------------------------------------------------------------------------------------

GROUPING_SET = "grouping set"
"""Stands among the keys of an exchange for the grouping set that a row was copied for."""


@keys_of.register
def _(node: WindowAggregate) -> tuple[str, ...]:
    return (*node.keys, GROUPING_SET) if node.grouping_sets is not None else node.keys


@before_exchange.register
def _(node: WindowAggregate) -> str | None:
    return "explode of the grouping sets" if node.grouping_sets is not None else None


@told_time.register
def _(node: WindowAggregate, port: int = 0) -> str | None:
    return node.time if node.window is not None and node.domain is not TimeDomain.PROCESSING else None


# --- Spark's own operators ------------------------------------------------------------------------------------


@only_columnar.register
def _(node: WindowAggregate) -> str | None:
    return only_columnar_window(node.window) or _clause(node) or ("a window over changes" if rows_go(node) else None)


def _clause(node: WindowAggregate) -> str | None:
    firing = node.firing
    if firing.eviction is not None:
        return "EVICT"
    if firing.late != DEFAULT_FIRING.late:
        return "LATE DATA"
    by_default = firing.trigger in (None, AfterWatermark(), AfterProcessingTime())
    if not by_default or firing.accumulation is not DEFAULT_FIRING.accumulation:
        return "TRIGGER or EMIT"
    return "window_pane()" if node.pane is not None or node.pane_index is not None else None


@native_state.register
def _(node: WindowAggregate) -> str:
    sets = f"explode of {len(node.grouping_sets)} grouping sets, " if node.grouping_sets is not None else ""
    window = "session_window" if isinstance(node.window, Session) else "window"
    keys = ", ".join([*node.keys, window])
    distinct = any(item.expression.find(exp.Distinct) for item in node.aggregates)
    collected = ", DISTINCT values kept as sets" if distinct else ""
    return f"{sets}streaming aggregation by {keys} in append mode, state in RocksDB{collected}"
