"""``rate``: Spark's generator of a clock and a counter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import WRONG_COLUMN, Environment, Source
from sqlstream.connectors.formats import quoted
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import DURATION, Option, integer
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = {"timestamp": DataType("TIMESTAMP"), "value": DataType("BIGINT")}


class Rate(Source):
    """Reads Spark's source ``rate``."""

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
