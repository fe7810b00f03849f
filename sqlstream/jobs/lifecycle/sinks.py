"""The sinks of a job: the tables of INSERT and of side outputs, how they are written, and which changes they take."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from threading import Lock

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sqlstream.connectors import BatchWriter, Environment, sink_connector
from sqlstream.connectors.formats import quoted
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.lowering.bad_rows import inner_lacks, null_text
from sqlstream.planner.lowering.outputs import main_rows, rows_of, side_rows
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.plans import side_tables
from sqlstream.udfs.kernel import ROW_KIND


class Turns:
    """A lock for the writers of a job. Spark may repeat a micro-batch while a stopped query still writes it; only one
    of them writes at a time.

    Through Spark Connect each start of a query writes in a process of its own, so a pickled copy is a new lock.
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
    """Writes the rows of a job into a table. The job may start several queries of Spark, for instance one more to flush
    windows; they all continue the same sequence of micro-batches.
    """

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
    """Writes the rows of a statement set into its tables, for each micro-batch one table after another.

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
    """Writes the side outputs of a plan to their tables. It is false as a condition if the plan has none."""

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
        """The writer of micro-batches of a statement set. ``tables`` are pairs of a table and its writer."""
        return partial(_write_both, self._turns, plan, partial(_write_tables, plan, tables), self._writers)


def _write_tables(plan: StatementSet, tables: list[tuple[Table, BatchWriter]], batch: DataFrame, number: int) -> None:
    for table, write in tables:
        write(rows_of(batch, plan, table), number)


def _write_both(
    turns: Turns, plan: Node, main: BatchWriter, side: list[tuple[Table, BatchWriter]], batch: DataFrame, number: int
) -> None:
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
    """A writer of micro-batches into a table that fails with SS403 at a NULL in a NOT NULL column."""
    return partial(_write_checked, table, sink_connector(table.connector).batch_writer(environment, table))


def _write_checked(table: Table, write: BatchWriter, batch: DataFrame, number: int) -> None:
    write(without_nulls(batch, table), number)


def without_nulls(rows: DataFrame, table: Table) -> DataFrame:
    """The rows, with ROW_KIND if they have it, and a check: evaluating them fails with SS403 at a NULL in a NOT NULL
    column of the table.
    """
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
