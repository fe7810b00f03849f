"""``print``: rows on standard output as Flink prints them, ``+I[1, a]``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import Connector, Environment
from sqlstream.connectors.formats import quoted
from sqlstream.errors import UnsupportedError
from sqlstream.options import BOOLEAN, NAME, Option
from sqlstream.planner.catalog import Table
from sqlstream.spark import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PRINTS_ELSEWHERE = "SS346"


def write(environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
    from pyspark.sql import functions as F  # noqa: N812

    if is_connect(environment.spark):
        message = f'table "{table.name}" would print on the server of Spark Connect, not here'
        raise UnsupportedError(PRINTS_ELSEWHERE, message, hint="Run the query by itself: its rows come to you.")
    values = CONNECTOR.values(table)
    prefix = f"{values['print-identifier']}> " if values["print-identifier"] else ""
    standard_error = values["standard-error"]
    texts = [F.coalesce(F.col(quoted(c)).cast("string"), F.lit("null")) for c in rows.columns]
    lines = rows.select(F.concat(F.lit(f"{prefix}+I["), F.concat_ws(", ", *texts), F.lit("]")).alias("line"))

    def show(batch: DataFrame, epoch: int) -> None:
        stream = sys.stderr if standard_error else sys.stdout
        stream.writelines(f"{row.line}\n" for row in batch.collect())
        stream.flush()

    return lines.writeStream.foreachBatch(show)


CONNECTOR = Connector(
    name="print",
    doc="Prints each row with its kind, such as +I[1, a], where the driver runs.",
    options=(
        Option("print-identifier", NAME, "A text before each row, followed by >.", source=False, sink=True),
        Option("standard-error", BOOLEAN, "Print on standard error.", "false", source=False, sink=True),
    ),
    write=write,
)
