"""``print``: rows on standard output as Flink prints them, ``+I[1, a]``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import BatchWriter, ChangelogSink, Environment
from sqlstream.connectors.formats import quoted
from sqlstream.errors import UnsupportedError
from sqlstream.options import BOOLEAN, NAME, Option
from sqlstream.planner.catalog import Table
from sqlstream.spark.running import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


PRINTS_ELSEWHERE = "SS346"


class Print(ChangelogSink):
    """Prints on the driver. UnsupportedError SS346 through Spark Connect, where the driver is elsewhere."""

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
            lines = [f"{prefix}{row.line}\n" for row in batch.select(_line(batch).alias("line")).collect()]
            stream = sys.stderr if standard_error else sys.stdout
            stream.writelines(lines)
            stream.flush()

        return show


def _line(rows: DataFrame) -> Column:
    """A row with its kind, as text."""
    from pyspark.sql import functions as F

    from sqlstream.udfs.kernel import ROW_KIND

    kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit("+I")
    names = [name for name in rows.columns if name != ROW_KIND]
    texts = [F.coalesce(F.col(quoted(name)).cast("string"), F.lit("null")) for name in names]
    return F.concat(kind, F.lit("["), F.concat_ws(", ", *texts), F.lit("]"))
