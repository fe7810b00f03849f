"""What is worth knowing about windows before they run."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.planner.explain.advice import Remark, Topic, remarks
from sqlstream.planner.explain.first_result import first_result
from sqlstream.planner.explain.window_text import window_text
from sqlstream.planner.firing import Trigger
from sqlstream.planner.functions.kinds import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.properties import keeps_rows, keeps_state, watermark_delay_ms, window_of
from sqlstream.planner.windows import Cumulate, Hop

_ARRIVAL = frozenset({"collect_list", "array_agg", "listagg", "string_agg"})
_MANY_PANES = 100


def _order_of_arrival(call: exp.Expr) -> str | None:
    inner = call
    while isinstance(inner, AGGREGATE_WRAPPERS):
        inner = inner.this
    name = spark_name(inner) if isinstance(inner, exp.Func) else None
    return name if name in _ARRIVAL else None
