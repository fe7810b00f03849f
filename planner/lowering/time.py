"""Time attributes: watermarks, the clock of processing time, and the control rows that drive both.

Rows unite with the control rows of their table below ``withWatermark`` and part from them right above, by a column
that is not deterministic: Catalyst would push any other filter below the union and prune the control rows away.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from sqlstream.errors import repeating
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import columns_of, substituted
from sqlstream.planner.fields import field_of
from sqlstream.planner.lowering.context import Context, RequiredTime
from sqlstream.planner.lowering.hidden_columns import (
    AFTER_ALL_MS,
    END_OF_INPUT_MS,
    EPOCH_SHIFT_MS,
    column,
    hidden,
    hidden_clock,
    lifting_time,
    micros,
    quoted,
    string,
)
from sqlstream.planner.nodes import AssignTime, Project, Scan
from sqlstream.planner.physical.steps import Mark, WatermarkSource
from sqlstream.udfs.event_times import EARLIEST, HINT, LATEST, OUT_OF_RANGE, out_of_range
from sqlstream.udfs.exchange import LATE_TABLE
from sqlstream.udfs.lifts import LIFT

# --- checks of event times as SQL text: they must not be NULL or out of the range that kernels can compute -------


NULL_EVENT_TIME = repeating("SS401")

_VALUE = "{value}"


def time_of(node: AssignTime) -> str:
    """The name of a time attribute with that of its table, as error messages show it."""
    return time_name(node.column, node.table)


def time_name(column: str, table: str) -> str:
    """The name of the time attribute ``column`` of ``table``, as error messages show it."""
    return f'event time "{column}" of table "{table}"'


def null_time(name: str) -> str:
    """The message of error SS401 for the time attribute ``name`` (as ``time_name`` gives it)."""
    return f"{name} is NULL"


def time_error(name: str, column: str) -> str:
    """SQL text of the message with which an invalid time in ``column`` is reported; its value is NULL for a valid time.
    ``name`` is the name in the message.
    """
    return (
        f"CASE WHEN {quoted(column)} IS NULL THEN {_null(name)} WHEN {_beyond(column)} THEN {_range(name, column)} END"
    )


def required_time(name: str, column: str, failure: str, otherwise: str, passing: str | None = None) -> str:
    """SQL text of a CASE: ``otherwise`` for valid times, ``failure`` for invalid ones, and NULL for rows for which the
    condition ``passing`` is true.

    In ``failure``, ``{error}`` stands for the call that fails with SS401 or SS430.
    """
    passes = f"WHEN {passing} THEN NULL " if passing else ""
    null = failure.format(error=f"raise_error({_null(name)})")
    hinted = f"CONCAT({_range(name, column)}, {string(chr(10) + 'HINT: ' + HINT)})"
    beyond = failure.format(error=f"raise_error({hinted})")
    return (
        f"CASE {passes}WHEN {quoted(column)} IS NULL THEN {null} WHEN {_beyond(column)} THEN {beyond} "
        f"ELSE {otherwise} END"
    )


def _null(name: str) -> str:
    return string(f"{NULL_EVENT_TIME}: {null_time(name)}")


def _beyond(column: str) -> str:
    return f"{micros(column)} NOT BETWEEN {EARLIEST}L AND {LATEST}L"


def _range(name: str, column: str) -> str:
    before, after = out_of_range(name, _VALUE).split(_VALUE)
    return f"CONCAT({string(f'{OUT_OF_RANGE}: {before}')}, {micros(column)}, {string(after)})"


WATERMARK_METRIC = "watermark"
"""What the names of metrics that hold the watermark of one source begin with; the table's name ends them."""

EVENT_TIME = "__event_time"
"""The column that Spark reads a watermark from, shifted."""
_CONTROL = "__control"
_LIVE = "__live"


def lower_assign_time(node: AssignTime, step: Mark, context: Context) -> DataFrame:
    """Builds the DataFrame of a table's rows with a time attribute and, where operators need one, a watermark, which
    control rows also advance.
    """
    is_awaited = step.watermark_source in (WatermarkSource.BY_ROWS, WatermarkSource.BY_BLOBS)
    below = context.requiring(_required(node)) if is_awaited and node.domain is TimeDomain.EVENT else context
    rows = _with_time_column(node, below.lower(step.input))
    rows = _with_watermark(step, rows, context) if step.watermark_source is WatermarkSource.BY_ROWS else rows
    if LIFT in rows.columns and step.watermark_source is not WatermarkSource.BY_BLOBS:
        rows = rows.drop(LIFT)
    return rows if node.follows is None else rows.drop(node.follows)


def _with_time_column(node: AssignTime, rows: DataFrame) -> DataFrame:
    if node.domain is TimeDomain.EVENT:
        return rows
    clock = next(iter(hidden_clock(rows)), F.current_timestamp())
    return rows.select(*(column(f.name) for f in node.input.schema), clock.alias(node.column), *hidden(rows))


def _required(node: AssignTime) -> RequiredTime | None:
    """The event time, for the scan to check, which knows where each row was read. None where more than projections are
    between: then the check above the operators there names no place.
    """
    below = node.input
    time: exp.Expression = field_of(node.column)
    while isinstance(below, Project | AssignTime):
        if isinstance(below, Project):
            time = substituted(time, {item.name: item.expression for item in below.items})
        below = below.input
    if not isinstance(below, Scan) or not columns_of(time) <= set(below.columns):
        return None
    return RequiredTime(time_of(node), time)


def _with_watermark(step: Mark, rows: DataFrame, context: Context) -> DataFrame:
    node = step.node
    from_rows = context.runtime.event_time_from_rows(node.table)
    passing = f"{LATE_TABLE} IS NOT NULL" if LATE_TABLE in rows.columns else None
    lifting = _event_time(node, from_rows, passing, lifted=LIFT in rows.columns)
    data = rows.select("*", lifting.alias(EVENT_TIME), F.lit(False).alias(_CONTROL))
    # Spark looks for new data from left to right: it never sees a control row without the rows written before it.
    united = observed(_control_rows(node, rows, context).union(data), node, step.metric)
    if context.plan.engine.is_of_spark and node.sub_millisecond:
        # Spark's windows close a millisecond before their end, while rows with finer times may still come.
        united = united.withColumn(EVENT_TIME, F.expr(f"{EVENT_TIME} - INTERVAL '0.001' SECOND"))
    united = context.runtime.timed(united, EVENT_TIME, node.delay_ms, node.table)
    live = F.expr(f"NOT {_CONTROL} AND spark_partition_id() >= 0")
    return united.select("*", live.alias(_LIVE)).where(_LIVE).select(*(column(name) for name in rows.columns))


def observed(rows: DataFrame, node: AssignTime, metric: int | None) -> DataFrame:
    """Makes Spark report the watermark of these rows as a metric with the number ``metric``. ``rows`` must have the
    column EVENT_TIME. The rows are returned unchanged if ``metric`` is None, as in a query with only one watermark.
    """
    if metric is None:
        return rows
    reached = F.expr(f"unix_millis(max({EVENT_TIME})) - {EPOCH_SHIFT_MS + node.delay_ms}L")
    return rows.observe(f"{WATERMARK_METRIC}/{metric}/{node.table}", reached.alias("watermark_ms"))


def _event_time(node: AssignTime, from_rows: bool, passing: str | None, *, lifted: bool) -> Column:
    """NULL, which moves no watermark, where only control rows do, and in rows on their way to another table.
    ``lifted``: the source of the rows says how far they move it.
    """
    is_event = node.domain is TimeDomain.EVENT
    time = quoted(LIFT) if lifted and is_event else micros(node.follows or node.column)
    otherwise = lifting_time(time) if from_rows else "CAST(NULL AS TIMESTAMP)"
    if node.domain is not TimeDomain.EVENT:
        return F.expr(otherwise)
    return F.expr(required_time(time_of(node), node.column, "CAST({error} AS TIMESTAMP)", otherwise, passing))


def _control_rows(node: AssignTime, rows: DataFrame, context: Context) -> DataFrame:
    """Rows of NULLs whose event time lifts the watermark to exactly ``watermark_ms``, at the end beyond all windows."""
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema]
    lifted = "watermark_ms"
    if context.plan.engine.is_of_spark:
        lifted = f"IF(watermark_ms >= {END_OF_INPUT_MS}L, {AFTER_ALL_MS}L, watermark_ms)"
    instant = F.expr(f"timestamp_millis({lifted} + {EPOCH_SHIFT_MS + node.delay_ms}L)")
    control = context.runtime.control(node.table)
    return control.select(*nulls, instant.alias(EVENT_TIME), F.lit(True).alias(_CONTROL))
