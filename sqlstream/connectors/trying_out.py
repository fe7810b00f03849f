"""Connectors for trying things out: the sinks ``blackhole`` and ``print``, the sources ``rate`` and ``socket``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import WRONG_COLUMN, BatchWriter, ChangelogSink, Source, StreamSink
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import (
    CSV_OPTIONS,
    JSON_OPTIONS,
    PLANNED_FORMATS,
    REFUSED_OF_FORMATS,
    check_format,
    quoted,
)
from sqlstream.connectors.stored_tables import TruncatableTable
from sqlstream.errors import Diagnostic, Span, UnsupportedError
from sqlstream.options import BOOLEAN, DURATION, NAME, Option, integer, one_of
from sqlstream.planner.binder.inserts import PARTITIONS_OPTION
from sqlstream.planner.catalog import ALL_KINDS, UPSERT, RowKind, Table
from sqlstream.spark.running import is_connect
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Blackhole(ChangelogSink, StreamSink, TruncatableTable):
    """A sink that discards all rows: it writes to Spark's sink ``noop``."""

    name = "blackhole"
    doc = "A sink that computes every row and keeps none."
    discards_rows = True
    options = (Option(PARTITIONS_OPTION, NAME, "Columns that INSERT … PARTITION may name.", source=False, sink=True),)

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        """Updates need no previous rows with a PRIMARY KEY, so that no state is kept for them, as in Flink."""
        return UPSERT if table.primary_key else ALL_KINDS

    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.format("noop")

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        return lambda batch, _: batch.write.format("noop").mode("overwrite").save()

    def truncate(self, directory: Path, table: Table) -> None:
        """Does nothing, as the table stores no rows."""


# --- print ----------------------------------------------------------------------------------------------------


PRINTS_ELSEWHERE = "SS346"


class Print(ChangelogSink):
    """A sink that prints rows in the driver process. Raises UnsupportedError SS346 with Spark Connect, whose driver is
    elsewhere.
    """

    name = "print"
    doc = "Prints each row with its kind, such as +I[1, a], where the driver runs."
    options = (
        Option("print-identifier", NAME, "A text before each row, followed by >.", source=False, sink=True),
        Option("standard-error", BOOLEAN, "Print on standard error.", "false", source=False, sink=True),
    )

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        if is_connect(environment.spark):
            message = f'table "{table.name}" would print on the server of Spark Connect, not here'
            raise UnsupportedError(PRINTS_ELSEWHERE, message, hint="Run the query by itself: its rows come to you.")
        values = self.values(table)
        prefix = f"{values['print-identifier']}> " if values["print-identifier"] else ""
        standard_error = values["standard-error"]

        def show(batch: DataFrame, number: int) -> None:
            lines = batch.select(on_spark.rows.line_of(batch).alias("line"))
            stream = sys.stderr if standard_error else sys.stdout
            stream.writelines(f"{prefix}{row.line}\n" for row in lines.collect())
            stream.flush()

        return show


# --- rate -----------------------------------------------------------------------------------------------------


_COLUMNS = {"timestamp": DataType("TIMESTAMP"), "value": DataType("BIGINT")}


class Rate(Source):
    """A source that reads Spark's source ``rate``, which generates rows."""

    name = "rate"
    doc = "Spark's generator: the columns timestamp TIMESTAMP (when the row is due) and value BIGINT (0, 1, 2, …)."
    options = (
        Option("rows-per-second", integer(1), "How many rows a second brings.", "1"),
        Option("ramp-up-time", DURATION, "How long it takes to reach that rate, in whole seconds.", "0 s"),
    )

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        for column in table.physical_columns:
            if _COLUMNS.get(column.name.lower()) != column.type:
                message = f'connector "rate" has no column "{column.name}" of type {column.type.ddl()}'
                yield Diagnostic(WRONG_COLUMN, message, hint="Its columns are timestamp TIMESTAMP and value BIGINT.")

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        values = self.values(table)
        reader = environment.spark.readStream.format("rate")
        reader = reader.option("rowsPerSecond", values["rows-per-second"])
        rows = reader.option("rampUpTime", f"{values['ramp-up-time'] // 1000}s").load()
        return rows.selectExpr(*(f"{quoted(name.lower())} AS {quoted(name)}" for name in columns))

    def out_of_order_ms(self, table: Table, column: str) -> int | None:
        return 0 if column.lower() == "timestamp" else None


# --- socket ---------------------------------------------------------------------------------------------------


class Socket(Source):
    """A source that reads Spark's source ``socket``, lines of text from a TCP server."""

    name = "socket"
    refused = REFUSED_OF_FORMATS
    doc = "Lines of text that a TCP server sends (try nc -lk 9999); without recovery, for trying things out."
    options = (
        Option("hostname", NAME, "The server.", required=True),
        Option("port", integer(1, 65535), "Its port.", required=True),
        Option(
            "format",
            one_of("csv", "json", "raw", planned=PLANNED_FORMATS),
            "How a line is read: csv, json or raw (the line as one STRING).",
            required=True,
        ),
        *(option for option in (*CSV_OPTIONS, *JSON_OPTIONS) if option.source),
    )

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        return check_format(table, spans, of_lines=True)

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        values = self.values(table)
        reader = environment.spark.readStream.format("socket")
        lines = reader.option("host", values["hostname"]).option("port", values["port"]).load()
        return on_spark.records.decode(lines, "value", table, columns, values, of_lines=True)
