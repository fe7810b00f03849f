"""The sinks of a job: the tables of INSERT and of side outputs, how they are written, and which changes they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from sqlstream.connectors import BatchWriter, Environment, UpsertSink, installed, row_kinds_taken, sink_connector
from sqlstream.connectors.connector import INSERTS_ONLY
from sqlstream.connectors.formats import quoted
from sqlstream.errors import Diagnostic, Span
from sqlstream.planner.catalog import APPEND_ONLY, Column, RowKind, Table
from sqlstream.planner.changes import is_upsert, producer_of, rejected_kinds
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.planner.properties import changelog_text
from sqlstream.settings import UPSERT_MATERIALIZE
from sqlstream.table_uses import side_tables

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Turns:
    """A lock for one writer of a job at a time: Spark may repeat a micro-batch while a stopped query still writes it.

    Through Spark Connect each start of a query writes in a process of its own, so a copy is a new lock.
    """

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        return Turns, ()


class TableSink:
    """Writes the rows of a job into a table. A second call, which flushes, continues the job."""

    def __init__(self, environment: Environment, table: Table, plan: Node) -> None:
        self._environment = environment
        self._table = table
        self._plan = plan
        self._turns = Turns()

    def __call__(self, rows: DataFrame) -> DataStreamWriter:
        side = SideSinks(self._environment, self._plan, self._turns)
        target = sink_connector(self._table.connector)
        if side:
            main = checked_writer(self._environment, self._table)
            writer = rows.writeStream.foreachBatch(side.with_main(main))
        else:
            writer = target.stream(self._environment, self._table, without_nulls(rows, self._table))
        self._environment = replace(self._environment, resumed=True, anew=False, after=None)
        return writer


class SetSink:
    """Writes the rows of a statement set into its tables, one micro-batch after the other.

    A batch that failed between two tables runs again. Each table replaces the rows of the first attempt, so that all
    tables have the same epoch.
    """

    def __init__(self, environment: Environment, plan: StatementSet) -> None:
        self._environment = environment
        self._plan = plan
        self._turns = Turns()

    def __call__(self, rows: DataFrame) -> DataStreamWriter:
        tables = [(table, checked_writer(self._environment, table)) for table in self._plan.tables]
        side = SideSinks(self._environment, self._plan, self._turns)
        self._environment = replace(self._environment, resumed=True, anew=False)
        return rows.writeStream.foreachBatch(side.with_tables(self._plan, tables))


def sink_of(environment: Environment, plan: Insert | StatementSet) -> TableSink | SetSink:
    """The sink of a job that writes tables."""
    if isinstance(plan, StatementSet):
        return SetSink(environment, plan)
    return TableSink(environment, plan.table, plan)


class SideSinks:
    """The tables of the side outputs of a plan. False if there are none."""

    def __init__(self, environment: Environment, plan: Node, turns: Turns | None = None) -> None:
        self._plan = plan
        self._turns = turns or Turns()
        self._writers = [(table, checked_writer(environment, table)) for table in side_tables(plan)]

    def __bool__(self) -> bool:
        return bool(self._writers)

    def with_main(self, main: BatchWriter) -> BatchWriter:
        """A writer of micro-batches that writes side outputs to their tables and all other rows to ``main``.

        A batch is computed once, because computing it changes the state. If it runs again after a failure, each table
        replaces the rows of the first attempt.
        """
        return partial(_write_both, self._turns, self._plan, main, self._writers) if self else main

    def with_tables(self, plan: StatementSet, tables: list[tuple[Table, BatchWriter]]) -> BatchWriter:
        """A writer of the micro-batches of a statement set. ``tables``: its tables with their writers."""
        return partial(_write_both, self._turns, plan, partial(_write_tables, plan, tables), self._writers)


def _write_tables(plan: StatementSet, tables: list[tuple[Table, BatchWriter]], batch: DataFrame, number: int) -> None:
    from sqlstream.planner.lowering.outputs import rows_of

    for table, write in tables:
        write(rows_of(batch, plan, table), number)


def _write_both(
    turns: Turns, plan: Node, main: BatchWriter, side: list[tuple[Table, BatchWriter]], batch: DataFrame, number: int
) -> None:
    from sqlstream.planner.lowering.outputs import main_rows, side_rows

    with turns:
        batch.persist()
        try:
            main(main_rows(batch) if side else batch, number)
            for table, write in side:
                rows = side_rows(batch, plan, table)
                if not rows.isEmpty():  # or each micro-batch would leave a file without rows
                    write(rows, number)
        finally:
            batch.unpersist()


def checked_writer(environment: Environment, table: Table) -> BatchWriter:
    """Writes micro-batches into a table, failing with SS403 at a NULL in a column that is NOT NULL."""
    return partial(_write_checked, table, sink_connector(table.connector).batch_writer(environment, table))


def _write_checked(table: Table, write: BatchWriter, batch: DataFrame, number: int) -> None:
    write(without_nulls(batch, table), number)


def without_nulls(rows: DataFrame, table: Table) -> DataFrame:
    """The rows, with their kinds where they have some, failing with SS403 at a NULL in a column that is NOT NULL."""
    from pyspark.sql import functions as F

    from sqlstream.planner.lowering.bad_rows import inner_lacks, null_text
    from sqlstream.udfs.kernel import ROW_KIND

    kind = [F.col(ROW_KIND)] if ROW_KIND in rows.columns else []
    whole = F.expr(f"{ROW_KIND} IS DISTINCT FROM '-D'")  # a deleted row may be its key alone

    def checked(column: Column) -> SparkColumn:
        value = result = F.col(quoted(column.name))
        paths = [(condition, path) for condition, path in inner_lacks(column)]
        paths += [] if column.nullable else [(value.isNull(), column.name)]
        for lack, path in paths:
            condition = whole & lack if kind and column.name not in table.primary_key else lack
            result = F.when(condition, F.raise_error(F.lit(null_text(table, path)))).otherwise(result)
        return result.alias(column.name) if paths else value

    return rows.select(*(checked(c) for c in table.physical_columns), *kind)


# --- changes that a sink takes ----------------------------------------------------------------------------------

NO_KEY = "SS286"
COLLIDING = "SS667"


def refused_changes(plan: Insert, span: Span | None, *, collide: bool = True) -> Iterable[Diagnostic]:
    """Changes of the query that its table refuses.

    SS510 for row kinds that it does not take, SS286 for updates without a PRIMARY KEY, SS667 where updated rows may
    collide on the PRIMARY KEY and must not (``collide`` is False).
    """
    table = plan.table
    for _, kinds in rejected_kinds(plan):
        maker = producer_of(plan.input, kinds)
        takes = "inserted rows only" if plan.takes == APPEND_ONLY else f"rows of the kinds {changelog_text(plan.takes)}"
        message = f'table "{table.name}" takes {takes}, and the query updates its results'
        detail = f"Rows of the kinds {changelog_text(kinds)} come from {maker.producer_name}."
        yield Diagnostic(INSERTS_ONLY, message, span, detail=detail, hint=_hint(plan, maker.append_only_hint))
        return
    if plan.changelog_mode != APPEND_ONLY and is_upsert(table) and not table.primary_key:
        message = f'table "{table.name}" takes updates without -U, and has no PRIMARY KEY that says of which rows'
        yield Diagnostic(NO_KEY, message, span, hint="Declare PRIMARY KEY (…) NOT ENFORCED: a key of the query.")

    if not collide and may_collide(plan):
        key = ", ".join(table.primary_key)
        message = f'rows that the query updates may collide on the PRIMARY KEY ({key}) of table "{table.name}"'
        detail = (
            "One of them may delete what another one has written: rows that were there before are not kept for that."
        )
        hint = f"Declare a PRIMARY KEY by which the query updates its rows, or SET '{UPSERT_MATERIALIZE}' = 'auto'."
        yield Diagnostic(COLLIDING, message, span, detail=detail, hint=hint)


def may_collide(plan: Insert) -> bool:
    """Whether the table replaces rows by its PRIMARY KEY, and the query updates them by a key that is no part of it.

    As Flink decides where a sink keeps rows (``upsert-materialize`` = auto): rows of different keys of the query have
    different PRIMARY KEYs where these hold one of its keys.
    """
    if plan.changelog_mode == APPEND_ONLY or not plan.table.primary_key or RowKind.UPDATE_BEFORE in plan.takes:
        return False
    columns = (column.name for column in plan.table.physical_columns)
    fields = {column: field.name for column, field in zip(columns, plan.input.schema, strict=True)}
    written = {fields[name] for name in plan.table.primary_key}
    return not any(key <= written for key in plan.input.upsert_keys)


def _hint(plan: Insert, instead: str | None) -> str:
    ways = ", or ".join(_ways(plan.table, instead))
    return f"{ways[0].upper()}{ways[1:]}."


def _ways(table: Table, instead: str | None) -> Iterator[str]:
    if instead is not None:
        yield instead
    if _would_replace(table):
        yield f'declare the PRIMARY KEY of "{table.name}", by which it replaces rows'
    else:
        upserting = [kind.name for kind in installed() if isinstance(kind, UpsertSink)]
        yield (
            "write to a table of the connector print, of memory with 'changelog-mode' = 'I,UB,UA,D', "
            f"or with a PRIMARY KEY of {', '.join(upserting)}"
        )


def _would_replace(table: Table) -> bool:
    """Whether the table would take changes if it had a PRIMARY KEY."""
    keyed = replace(table, primary_key=tuple(c.name for c in table.physical_columns[:1]))
    return RowKind.UPDATE_AFTER in row_kinds_taken(keyed) and table.changelog == APPEND_ONLY
