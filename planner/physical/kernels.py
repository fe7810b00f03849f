"""Which kernel runs a window, and what it looks at of the rows' order."""

from __future__ import annotations

from enum import Enum
from functools import singledispatch

from sqlglot import exp

from sqlstream.planner.firing import AfterProcessingTime, AfterWatermark
from sqlstream.planner.functions.kinds import spark_name
from sqlstream.planner.nodes import (
    AssignWindows,
    CountWindow,
    Cumulate,
    Hop,
    Lookup,
    Node,
    ProcessTable,
    RowMeasured,
    Session,
    Tumble,
    UserWindow,
    WindowAggregate,
)
from sqlstream.udfs.lookup.options import Order

ORDERED = frozenset({"first", "first_value", "last", "last_value", "any_value", "collect_list", "array_agg", "listagg",
                     "string_agg", "mode"})  # fmt: skip
"""Aggregates that see the order of rows."""


class Kind(Enum):
    """The kernels of windows."""

    PANES = "panes that windows share"
    COUNTED = "rows counted per key"
    ROW_MEASURED = "rows in order of time"
    SESSIONS = "sessions, one state each"
    CUT_SESSIONS = "sessions cut in order of time"
    GENERAL = "window by window"


def kind_of(node: AssignWindows | WindowAggregate) -> Kind:
    match node.window:
        case CountWindow():
            return Kind.COUNTED
        case RowMeasured():
            return Kind.ROW_MEASURED
        case Session() as session if is_cut(session):
            return Kind.CUT_SESSIONS
        case Session() if isinstance(node, WindowAggregate) and _fires_once(node):
            return Kind.SESSIONS
        case Tumble() | Hop() | Cumulate() if isinstance(node, WindowAggregate) and _shares_panes(node):
            return Kind.PANES
    return Kind.GENERAL


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


@singledispatch
def sees_arrival(node: Node) -> bool:
    """True where the results of an operator with state show in which order rows arrived; sources then tell it."""
    return True


@sees_arrival.register
def _(node: Lookup) -> bool:
    return node.options.order is Order.ORDERED


@sees_arrival.register
def _(node: WindowAggregate) -> bool:
    if kind_of(node) in (Kind.COUNTED, Kind.ROW_MEASURED, Kind.CUT_SESSIONS):
        return True
    calls = [call for item in node.aggregates for call in item.expression.find_all(exp.Func)]
    ordered = any(sees_order(item.expression) for item in node.aggregates)
    return ordered or any(spark_name(call) in _ARRIVAL for call in calls) or not _fires_by_time(node)


_ARRIVAL = frozenset({"max_by", "min_by", "collect_set", "approx_percentile", "percentile_approx"})
"""Aggregates that see the order of rows where these tie, repeat or are summed up in sketches."""


def _fires_by_time(node: WindowAggregate) -> bool:
    return _fires_once(node) and not isinstance(node.window, UserWindow)


# --- the exchange ---------------------------------------------------------------------------------------------


@singledispatch
def keys_of(node: Node) -> tuple[str, ...]:
    """What the exchange of an operator with state parts rows by; none: all rows go to one key group."""
    return ()


@keys_of.register
def _(node: WindowAggregate) -> tuple[str, ...]:
    return (*node.keys, GROUPING_SET) if node.grouping_sets is not None else node.keys


@keys_of.register
def _(node: AssignWindows) -> tuple[str, ...]:
    return node.partition_by


@keys_of.register
def _(node: ProcessTable) -> tuple[str, ...]:
    return tuple(key.name for key in node.keys)


@keys_of.register
def _(node: Lookup) -> tuple[str, ...]:
    """Rows in order wait for each other, whatever their keys."""
    return () if node.options.order is Order.ORDERED else tuple(key.name for key in node.keys)


GROUPING_SET = "grouping set"
"""Stands among the keys of an exchange for the grouping set that a row was copied for."""
