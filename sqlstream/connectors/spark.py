"""``spark``: tables and views of Spark's own catalog, read to their end and appended to."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import BatchWriter, Sink, Source, columns_of
from sqlstream.connectors.database_tables import TABLE_NAME
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import quoted
from sqlstream.options import Option
from sqlstream.planner.catalog import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH = "sqlstream.epoch."


def spark_name(database: str, name: str) -> str:
    """Returns the option value ``table-name`` that refers to a table in Spark's catalog."""
    return ".".join(
        part if re.fullmatch(r"\w+", part) else '"' + part.replace('"', '""') + '"' for part in (database, name)
    )


def _identifier(table: Table) -> str:
    parts = SparkTable().values(table)["table-name"]
    return ".".join(quoted(part) for part in parts)


def _append(name: str, key: str, batch: DataFrame, number: int) -> None:
    """Appends the rows unless the table has them: the number of the last batch is one of its properties."""
    spark = batch.sparkSession
    properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    if int(properties.get(key, "-1")) >= number:
        return
    batch.write.insertInto(name)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{key}' = '{number}')")


class SparkTable(Source, Sink):
    """Tables of Spark's catalog, which are read and appended to with Spark's table API."""

    name = "spark"
    doc = (
        "Tables of Spark's own catalog, read as they are when the query starts, and appended to, batch by batch. A "
        "batch that is repeated because the process died right behind it may be there twice."
    )
    options = (
        Option("table-name", TABLE_NAME, "The table, with its database: default.orders.", required=True, sink=True),
    )

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        rows = on_spark.rows.read_spark_table(environment, table, _identifier(table))
        return rows.selectExpr(
            *(f"CAST({quoted(c.name)} AS {c.type.ddl()}) AS {quoted(c.name)}" for c in columns_of(table, columns))
        )

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        return partial(_append, _identifier(table), f"{_EPOCH}{environment.job}.{environment.run}")

    def location(self, table: Table) -> str | None:
        return table.option("table-name")

    def bounded(self, table: Table) -> bool:
        return True
