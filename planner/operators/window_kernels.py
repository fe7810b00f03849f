"""What runs of windows with aggregates: which kernel, what it looks at of the rows' order, and what Spark's own
operators can do."""

from __future__ import annotations

from enum import Enum

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.firing import DEFAULT_FIRING, AfterProcessingTime, AfterWatermark
from sqlstream.planner.functions.kinds import spark_name
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


def is_cut(session: Session) -> bool:
    """True for sessions that may end before their gap."""
    return (session.max_duration_ms, session.start_when, session.end_when) != (None, None, None)


def sees_order(expression: exp.Expression) -> bool:
    """True where the result of an aggregate call shows in which order rows arrived, and for functions of users."""
    calls = [node for node in expression.find_all(exp.Func) if spark_name(node) in ORDERED]
    return bool(calls) or expression.find(exp.Anonymous) is not None


def sees_ties(expression: exp.Expression) -> bool:
    """True where the result of an aggregate call shows in which order rows arrived that tie or repeat."""
    return any(spark_name(call) in _ARRIVAL for call in expression.find_all(exp.Func))


_ARRIVAL = frozenset({"max_by", "min_by", "collect_set", "approx_percentile", "percentile_approx"})
"""Aggregates that see the order of rows where these tie, repeat or are summed up in sketches."""


# --- the exchange ---------------------------------------------------------------------------------------------

GROUPING_SET = "grouping set"
"""Stands among the keys of an exchange for the grouping set that a row was copied for."""
