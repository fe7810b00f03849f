"""Lookups ON TIMEOUT DEFER: asked as all lookups are; rows whose time is up wait in state for their answers.

They hold the watermark for operators above, and rows behind them wait where the order of rows asks for it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.columnar.inputs import passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columns import column, quoted
from sqlstream.planner.lowering.hidden import hidden, hidden_clock
from sqlstream.planner.lowering.lookup import Asked, asked, joined, step_of
from sqlstream.planner.lowering.lookup_answers import require_array_functions
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.nodes import Node
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.operators.lookup_steps import NumberedLookup
from sqlstream.planner.physical.steps import Operator
from sqlstream.planner.properties import window_of
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.lookup.deferred import DeferredLookups

_HELD = "__held"
_CAME = "__came"


@lower_operator.register
def _(node: Lookup, step: Operator, context: Context) -> DataFrame:
    assert step.lookup is not None, step
    lookup = Asked(NumberedLookup(step.lookup, node))
    require_array_functions(node, context)
    rows = asked(context.lower(step.input), (lookup,), context, with_keys=True)
    projected = with_key_hash(_projected(rows, lookup), lookup.keys)
    kernel = DeferredLookups(step_of(lookup, context), kernel_schema(projected), _HELD)
    output = spark_schema(kernel.output, projected.schema)
    emitted = run(projected, running(step, context.plan, kernel, output), context.runtime)
    return joined(_named(emitted, lookup), (lookup,), context)


def _projected(rows: DataFrame, lookup: Asked) -> DataFrame:
    """The columns that the kernel reads, under names that its own columns cannot have, and hidden columns for the
    exchange."""
    fields = [column(f.name).alias(_field(i)) for i, f in enumerate(lookup.node.input.schema)]
    added = [column(name) for name in (*lookup.keys, *_answered(lookup), lookup.deferred) if name is not None]
    clock = [c.alias(_CAME) for c in hidden_clock(rows)]
    return rows.select(*fields, *clock, *added, held_from(lookup.node.input).alias(_HELD), *passed_on(rows))


def _named(rows: DataFrame, lookup: Asked) -> DataFrame:
    """The kernel's output under the names of the plan."""
    fields = [column(_field(i)).alias(f.name) for i, f in enumerate(lookup.node.input.schema)]
    clock = [column(_CAME).alias(CLOCK)] if _CAME in rows.columns else []
    return rows.select(*fields, *map(column, _answered(lookup)), *clock, *hidden(rows))


def _answered(lookup: Asked) -> tuple[str, ...]:
    return tuple(name for name in (lookup.answers, lookup.error) if name is not None)


def held_from(node: Node) -> Column:
    """The watermark that would pass a row, in microseconds: that of its times and windows; NULL where it has none."""
    times = [f"unix_millis(CAST({quoted(f.name)} AS TIMESTAMP))" for f in node.schema if _is_event_time(f.time)]
    window = window_of(node)
    if window is not None and window.end is not None and _is_event_time(window.domain):
        times.append(f"unix_millis(CAST({quoted(window.end)} AS TIMESTAMP)) - 1")
    return F.expr(f"array_min(array({', '.join(times)})) * 1000" if times else "CAST(NULL AS BIGINT)")


def _is_event_time(domain: TimeDomain | None) -> bool:
    return domain not in (None, TimeDomain.PROCESSING)


def _field(index: int) -> str:
    return f"__field_{index}"
