"""``'type' = 'spark'``: the tables and views of Spark's own catalog, as tables of the connector ``spark``.

Spark starts when the first name in such a catalog is looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.catalogs.declaring import with_traits
from sqlstream.catalogs.store import Bound, Database, Entry, Kind, same_name
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.spark import spark_name
from sqlstream.errors import ExecutionError
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = "SS413"


@dataclass
class SparkTables:
    """Implements ``Store``."""

    start: Callable[[], SparkSession] | None
    default_database: str
    refusal: str | None = (
        "It shows Spark's tables: create them by spark.sql(…). A TEMPORARY TABLE or VIEW may be created."
    )
    keeps_text: bool = False

    @property
    def _spark(self) -> SparkSession:
        if self.start is None:
            raise ExecutionError(
                NO_SPARK, "a catalog of the type spark needs a session", hint="Open one with connect()."
            )
        return self.start()

    def databases(self) -> list[Database]:
        return [Database(str(row[0])) for row in self._spark.sql("SHOW DATABASES").collect()]

    def put_database(self, database: Database) -> None:
        raise AssertionError(self.refusal)

    def drop_database(self, name: str) -> None:
        raise AssertionError(self.refusal)

    def names(self, database: str, kind: Kind) -> list[str]:
        if kind == "function" or not self._spark.catalog.databaseExists(database):
            return []
        shown = self._spark.sql(f"SHOW TABLES IN {quoted(database)}").collect()
        return [str(row["tableName"]) for row in shown if not row["isTemporary"]]

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None:
        spelled = same_name(name, self.names(database, kind))
        if spelled is None:
            return None
        full = spark_name(database, spelled)
        columns = tuple(
            Column(field.name, from_spark(field.dataType.jsonValue()), field.nullable)
            for field in self._spark.table(f"{quoted(database)}.{quoted(spelled)}").schema
        )
        return Bound(with_traits(Table(spelled, columns, "spark", (("table-name", full),))))

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        raise AssertionError(self.refusal)

    def remove(self, database: str, kind: Kind, name: str) -> None:
        raise AssertionError(self.refusal)

    def copy(self) -> SparkTables:
        return self
