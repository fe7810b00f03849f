"""Queries without state that tasks compute over columns: Spark lists the files, and takes the rows of the result."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.planner.bad_rows import required_columns
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.lowering.bad_rows import null_text, with_letters
from sqlstream.planner.lowering.columnar.inputs import METRIC, ROWS, file_rows, from_table, places_of
from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.functions import bound_calls
from sqlstream.planner.lowering.hidden_columns import column, hidden_results, quoted
from sqlstream.planner.lowering.time import null_time, time_name
from sqlstream.planner.physical.column_queries import Selection
from sqlstream.planner.physical.steps import Read
from sqlstream.types import BIGINT, from_arrow
from sqlstream.udfs.assigners.assigner import NULL_EVENT_TIME
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.column_rows import ROWS_BAD, ROWS_GIVEN, ROWS_READ, ColumnRows
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.files.records import RequiredValue
from sqlstream.udfs.files.splits import FromFile
from sqlstream.udfs.messages import BAD_TYPE
from sqlstream.udfs.spark.batches import rows_of

DISCARDED_METRIC, DISCARDED_ROWS = "discarded", "rows"
"""The metric of a query whose sink keeps no rows: the number of rows of its result."""


def lower_column_query(query: Selection, read_step: Read, context: Context, *, discards: bool) -> DataFrame:
    """Builds the DataFrame of a query that tasks compute, with a metric that counts the rows that they have read.
    ``discards``: it has no rows, because the sink keeps none.
    """
    scan, table, tolerates = query.scan, query.scan.table, query.scan.on_error.tolerates
    read_step = replace(read_step, node=scan)  # which reads the required columns, too
    columns = {c.name: _tolerant(c) if tolerates else from_table(c, table) for c in query.columns}
    clock = [(CLOCK, pa.int64())] if query.reads_clock else []
    read = pa.schema([*((name, source.type) for name, source in columns.items()), *clock])
    with_bad = read.append(pa.field(BAD, BAD_TYPE)) if tolerates else read
    checked = [c for c in required_columns(table) if c.name in query.required]
    checked.sort(key=lambda c: c.time is not TimeDomain.EVENT)  # whose errors are said before others
    required = tuple(_required(c, table) for c in checked)
    reader = file_rows(read_step, with_bad, columns, context, letters=query.has_letters, required=required)
    counts = (ROWS_READ, ROWS_GIVEN, *([ROWS_BAD] if tolerates else []))
    given = [*((name, kind) for name, _, kind in query.fields), *((name, BIGINT) for name in counts)]
    given += [(BAD, from_arrow(BAD_TYPE))] if query.has_letters else []
    schema = pa.schema([(name, kind.to_arrow()) for name, kind in given])
    sources, steps = tuple(source for _, source, _ in query.fields), bound_calls(query.steps, context.runtime)
    work = ColumnRows(reader, schema, sources, steps, discards)
    ddl = ", ".join(f"{quoted(name)} {kind.ddl()}" for name, kind in given)
    rows = places_of(read_step, context, clock=query.reads_clock).rows.mapInArrow(rows_of(work), ddl)
    if read_step.shared is None:
        rows = rows.observe(f"{METRIC}/0/0/{quote(table.name, safe='')}", F.sum(ROWS_READ).alias(ROWS))
    if discards:
        rows = rows.observe(f"{DISCARDED_METRIC}/", F.sum(ROWS_GIVEN).alias(DISCARDED_ROWS))
    if tolerates:
        context.counted.first(table.name)
        rows = rows.observe(context.counted.metric, F.coalesce(F.sum(ROWS_BAD), F.lit(0)).alias(ROWS))
    rows = rows.where(column(ROWS_READ).isNull())
    if query.has_letters:
        rows = with_letters(rows, table, scan.on_error)
    return rows.select(*(column(name) for name, _, _ in query.fields), *hidden_results(rows))


def taken_rows(read: Read, context: Context) -> DataFrame:
    """Builds the DataFrame of the rows that Spark takes from those that tasks read for several steps, and check."""
    table = read.node.table
    columns = {c.name: from_table(c, table) for c in table.columns if c.name in read.node.columns}
    reader = file_rows(read, pa.schema([(name, c.type) for name, c in columns.items()]), columns, context)
    ddl = ", ".join(f"{quoted(c.name)} {c.type.ddl()}" for c in table.columns if c.name in columns)
    return places_of(read, context).rows.mapInArrow(rows_of(reader), ddl)


def _tolerant(column: TableColumn) -> FromFile:
    """A column that is read as it is, because bad rows do not fail the job."""
    return FromFile(column.name, column.type.to_arrow())


def _required(column: TableColumn, table: Table) -> RequiredValue:
    """How tasks find the rows of a table that are bad because a column has no value."""
    if column.time is not TimeDomain.EVENT:
        return RequiredValue(column.name, null_text(table, column.name))
    name = time_name(column.name, table.name)
    return RequiredValue(column.name, f"{NULL_EVENT_TIME}: {null_time(name)}", name)
