"""Tables: rows of the connector without the bad ones, filtered by what the planner pushed down."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.bad_rows import columns_to_read
from sqlstream.planner.catalog import Table
from sqlstream.planner.lowering.bad_rows import Letter, bad_column, parted, require_passage
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import hidden, passes_by
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.lowering.required import lacks, with_required
from sqlstream.planner.lowering.tolerant_calls import with_calls
from sqlstream.planner.nodes import Scan


@lower_node.register
def _(node: Scan, context: Context) -> DataFrame:
    rows = _tolerant(node, context) if node.on_error.tolerates else _strict(node, context)
    for predicate in node.predicates:
        rows, (found,) = with_calls(rows, [predicate], context)
        condition, passing = context.column(found, rows), passes_by(rows)
        rows = rows.where(condition if passing is None else passing | condition)
    if context.functions.tolerates and node.predicates:
        rows = rows.select(*map(column, node.columns), *hidden(rows))
    return rows


def _read(node: Scan, context: Context) -> DataFrame:
    return context.runtime.read(node, in_order=context.in_order)


def _strict(node: Scan, context: Context) -> DataFrame:
    return with_required(_read(node, context), node.table, node.columns)


def _tolerant(node: Scan, context: Context) -> DataFrame:
    require_passage(node.on_error, context.below_native_state)
    read = columns_to_read(node.table, node.columns, node.on_error)
    rows = _read(replace(node, columns=read), context)
    first = context.counted.first(node.table.name)
    parts = parted(rows, _letter(node.table, read, rows), node.on_error, context.counted.metric if first else None)
    return parts.select(*map(column, node.columns), *hidden(parts))


def _letter(table: Table, read: tuple[str, ...], rows: DataFrame) -> Letter:
    record, error, place = (bad_column(rows, member) for member in ("record", "error", "place"))
    named = [column(c.name) for c in table.physical_columns if c.name in read]
    values = F.to_json(F.struct(*named), {"ignoreNullFields": "false"}).cast("BINARY") if named else F.lit(None)
    return Letter(
        table.name,
        values if record is None else F.coalesce(record, values),
        F.coalesce(*([] if error is None else [error]), *_missing(table), F.lit(None).cast("STRING")),
        F.lit(None) if place is None else place,
    )


def _missing(table: Table) -> list[Column]:
    """An error for each column, or field of one, that must not be NULL and is."""
    return [F.when(condition, F.lit(text)) for condition, text in lacks(table)]
