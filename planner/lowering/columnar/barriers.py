"""ALIGN BARRIERS: one kernel over the rows of all channels, in the order in which they came."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.inputs import clock_of, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.lookups import held_from
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columns import column, quoted
from sqlstream.planner.lowering.hidden import hidden, hidden_clock, passes_by
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.barriers import AlignBarriers
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.barriers.alignment import MarkKind
from sqlstream.udfs.barriers.kernel import ALIGNED, CHANNEL, ID, KIND, Barriers
from sqlstream.udfs.exchange import CLOCK

_TIME = "__held_time"
_CAME = "__came"


@lower_operator.register
def _(node: AlignBarriers, step: Operator, context: Context) -> DataFrame:
    projected = with_key_hash(_projected(node, context.lower(step.input), context), ())
    above = step.stateful_above
    kernel = Barriers(
        kernel_schema(projected),
        node.channels,
        exactly_once=not node.at_least_once,
        timeout=None if node.timeout_ms is None else node.timeout_ms * 1000,
        most_held=node.most_held,
        time=_TIME,
        emits_barriers=above is not None and above.fires_on_barriers,
    )
    output = spark_schema(kernel.output, projected.schema)
    return _named(run(projected, running(step, context.plan, kernel, output), context.runtime), node)


def _projected(node: AlignBarriers, rows: DataFrame, context: Context) -> DataFrame:
    """The columns that the kernel reads, under names that its own columns cannot have, and hidden columns for the
    exchange."""
    fields = [column(f.name).alias(_field(i)) for i, f in enumerate(node.input.schema)]
    came = [c.alias(_CAME) for c in hidden_clock(rows)]
    clock = [F.expr(clock_of(rows)).alias(CLOCK)] if node.timeout_ms is not None else []
    marks = {
        KIND: _kind(node, rows, context),
        CHANNEL: F.expr(f"CAST({context.sql(node.channel, rows)} AS STRING)"),
        ID: F.expr(_number(context.sql(node.id, rows), node.output.type.name)),
    }
    passing = passes_by(rows)
    if passing is not None:
        marks = {name: F.when(~passing, value) for name, value in marks.items()}
    own = [value.alias(name) for name, value in marks.items()]
    return rows.select(*fields, *came, *clock, *own, held_from(node.input).alias(_TIME), *passed_on(rows))


def _kind(node: AlignBarriers, rows: DataFrame, context: Context) -> Column:
    conditions = ((node.marker, MarkKind.MARKER), (node.cancel_when, MarkKind.CANCEL), (node.end_when, MarkKind.END))
    cases = [f"WHEN {context.sql(when, rows)} THEN {kind.value}" for when, kind in conditions if when is not None]
    return F.expr(f"CASE {' '.join(cases)} ELSE {MarkKind.ROW.value} END")


def _number(text: str, kind: str) -> str:
    """SQL text: an id as BIGINT, in the order of its type."""
    return _TO_NUMBER.get(kind, "CAST({} AS BIGINT)").format(text)


def _of_number(text: str, kind: str) -> str:
    return _FROM_NUMBER.get(kind, f"CAST({{}} AS {kind})").format(text)


_TO_NUMBER = {
    "DATE": "CAST(unix_date({}) AS BIGINT)",
    "TIMESTAMP": "unix_micros({})",
}
_FROM_NUMBER = {
    "DATE": "date_from_unix_date(CAST({} AS INT))",
    "TIMESTAMP": "timestamp_micros({})",
}


def _named(rows: DataFrame, node: AlignBarriers) -> DataFrame:
    """The kernel's output under the names of the plan."""
    fields = [column(_field(i)).alias(f.name) for i, f in enumerate(node.input.schema)]
    barrier = F.expr(_of_number(quoted(ALIGNED), node.output.type.name)).alias(node.output.name)
    clock = [column(_CAME).alias(CLOCK)] if _CAME in rows.columns else []
    return rows.select(*fields, barrier, *clock, *hidden(rows))


def _field(index: int) -> str:
    return f"__field_{index}"
