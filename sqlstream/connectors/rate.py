"""``rate``: Spark's generator of a clock and a counter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import WRONG_COLUMN, Connector, Environment
from sqlstream.connectors.formats import quoted
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import DURATION, Option, integer
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = {"timestamp": DataType("TIMESTAMP"), "value": DataType("BIGINT")}


def check(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    return (_wrong(c) for c in table.physical_columns if _COLUMNS.get(c.name.lower()) != c.type)


def _wrong(column: Column) -> Diagnostic:
    message = f'connector "rate" has no column "{column.name}" of type {column.type.ddl()}'
    return Diagnostic(WRONG_COLUMN, message, hint="Its columns are timestamp TIMESTAMP and value BIGINT.")


def read(environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
    values = CONNECTOR.values(table)
    reader = environment.spark.readStream.format("rate")
    reader = reader.option("rowsPerSecond", values["rows-per-second"])
    rows = reader.option("rampUpTime", f"{values['ramp-up-time'] // 1000}s").load()
    return rows.selectExpr(*(f"{quoted(name.lower())} AS {quoted(name)}" for name in columns))


CONNECTOR = Connector(
    name="rate",
    doc="Spark's generator: the columns timestamp TIMESTAMP (when the row is due) and value BIGINT (0, 1, 2, …).",
    options=(
        Option("rows-per-second", integer(1), "How many rows a second brings.", "1"),
        Option("ramp-up-time", DURATION, "How long it takes to reach that rate, in whole seconds.", "0 s"),
    ),
    read=read,
    check=check,
)
