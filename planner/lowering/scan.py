"""Tables: rows of the connector without the bad ones, filtered by what the planner pushed down."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.bad_rows import columns_to_read, required_columns
from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.lowering.bad_rows import Letter, bad_column, parted
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.conditions import where_all
from sqlstream.planner.lowering.event_times import time_error, time_name
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.lowering.required import lacks, with_required
from sqlstream.planner.lowering.tolerant_calls import with_calls
from sqlstream.planner.nodes import Scan
from sqlstream.planner.physical.steps import Read


@lower_node.register
def _(node: Scan, step: Read, context: Context) -> DataFrame:
    rows = _tolerant(step, context) if node.on_error.tolerates else _strict(step, context)
    if not context.functions.tolerates:
        return where_all(rows, node.predicates, context) if node.predicates else rows
    for predicate in node.predicates:
        rows, conditions = with_calls(rows, [predicate], context)
        rows = where_all(rows, conditions, context)
    return rows.select(*map(column, node.columns), *hidden(rows)) if node.predicates else rows


def _strict(step: Read, context: Context) -> DataFrame:
    rows = context.runtime.read(step.node, in_order=step.in_order)
    return with_required(rows, step.node.table, step.node.columns)


def _tolerant(step: Read, context: Context) -> DataFrame:
    node = step.node
    read = columns_to_read(node.table, node.columns, node.on_error)
    rows = context.runtime.read(replace(node, columns=read), in_order=step.in_order)
    first = context.counted.first(node.table.name)
    parts = parted(rows, _letter(node.table, read, rows), node.on_error, context.counted.metric if first else None)
    return parts.select(*map(column, node.columns), *hidden(parts))


def _letter(table: Table, read: tuple[str, ...], rows: DataFrame) -> Letter:
    record, error, location = (bad_column(rows, member) for member in ("record", "error", "place"))
    named = [column(c.name) for c in table.physical_columns if c.name in read]
    values = F.to_json(F.struct(*named), {"ignoreNullFields": "false"}).cast("BINARY") if named else F.lit(None)
    return Letter(
        table.name,
        values if record is None else F.coalesce(record, values),
        F.coalesce(*([] if error is None else [error]), *_missing(table), F.lit(None).cast("STRING")),
        F.lit(None) if location is None else location,
    )


def _missing(table: Table) -> list[Column]:
    """An error for each event time that is out of range, and for each column, or field of one, that must not be NULL
    and is."""
    times = [c for c in required_columns(table) if c.time is TimeDomain.EVENT]
    return [
        *(F.expr(time_error(time_name(c.name, table.name), c.name)) for c in times),
        *(F.when(condition, F.lit(text)) for condition, text in lacks(table)),
    ]
