"""Catalogs of the types ``jdbc``, ``duckdb`` and ``spark``: existing tables as tables of a connector.

Schemas of a database are databases of the catalog. What its information_schema says is cached for two seconds, because
planning a statement asks many times.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.catalogs.declaring import with_traits
from sqlstream.catalogs.store import Bound, Database, Entry, Kind, same_name
from sqlstream.connectors.database_tables import stored_type
from sqlstream.connectors.file_databases import NO_FILE
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.postgres.server import connected, of_url, require_psycopg
from sqlstream.connectors.secrets import resolved
from sqlstream.connectors.spark import spark_name
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.options import WRONG_VALUE
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import DataType, from_spark, parse_type
from sqlstream.udfs.lookup.sources.clients import no_package
from sqlstream.udfs.lookup.sources.file_database import connect_to_duckdb, duckdb_error, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEPT_SECONDS = 2.0
_TIMEOUT_MS = 10_000

Ask = Callable[[str, tuple[str, ...]], list[tuple[Any, ...]]]
"""Rows of a query with ``%s`` for its values."""
Open = Callable[[Mapping[str, str]], AbstractContextManager[Ask]]


@dataclass(frozen=True)
class System:
    """What a catalog of database tables must know about a database system, such as PostgreSQL.

    * ``connector``: the connector of its tables. ``open``: connects to a database, given the catalog's options.
    * ``types``: the SQL type for each type of the system; columns of other types are read as STRING.
    * ``hidden``: an SQL condition for schemas that are not shown. ``columns``: the SQL query for the columns of a
      table.
    """

    connector: str
    open: Open
    types: Mapping[str, str]
    hidden: str
    columns: str


@dataclass
class DatabaseTables:
    """A catalog ``Store`` that shows the tables of a database. ``options``: the WITH options, such as the URL, that
    each of these tables gets; ``${NAME}`` in them is not replaced.
    """

    system: System
    options: tuple[tuple[str, str], ...]
    default_database: str
    refusal: str | None = (
        "It shows the tables of a database: create them there. A TEMPORARY TABLE or VIEW may be created."
    )
    keeps_text: bool = False
    _kept: dict[tuple[str, ...], tuple[float, Any]] = field(default_factory=dict)

    def databases(self) -> list[Database]:
        return [Database(name) for (name,) in self._rows(f"{_SCHEMATA} AND {self.system.hidden} ORDER BY 1")]

    def put_database(self, database: Database) -> None:
        raise AssertionError(self.refusal)

    def drop_database(self, name: str) -> None:
        raise AssertionError(self.refusal)

    def names(self, database: str, kind: Kind) -> list[str]:
        if kind == "function":
            return []
        return [name for (name,) in self._rows(f"{_TABLES} ORDER BY 1", self._schema(database))]

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None:
        schema = self._schema(database)
        spelled = name if (names := self.names(schema, kind)) and name in names else same_name(name, names)
        return None if spelled is None else Bound(self._table(schema, spelled))

    def _schema(self, database: str) -> str:
        return same_name(database, [d.name for d in self.databases()]) or database

    def _table(self, schema: str, name: str) -> Table:
        columns = tuple(
            Column(column, self._type(kind), nullable == "YES")
            for column, kind, nullable in self._rows(self.system.columns, schema, name)
        )
        key = tuple(column for (column,) in self._rows(_KEY, schema, name))
        options = (*self.options, ("table-name", f"{_quoted(schema)}.{_quoted(name)}"))
        return with_traits(Table(name, columns, self.system.connector, options, primary_key=key))

    def _type(self, spelled: str) -> DataType:
        """Our type for a type of the database; STRING if there is none."""
        kind = stored_type(spelled)
        if kind.name.endswith("[]") and kind.name.removesuffix("[]") in self.system.types:
            return parse_type(f"ARRAY<{self.system.types[kind.name.removesuffix('[]')]}>")
        if kind.name in ("numeric", "decimal"):
            return _decimal(spelled)
        return parse_type(self.system.types.get(kind.name, "STRING"))

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        key = (query, *values)
        kept = self._kept.get(key)
        if kept is None or time.monotonic() - kept[0] > _KEPT_SECONDS:
            with self.system.open(resolved(dict(self.options))) as ask:
                kept = self._kept[key] = (time.monotonic(), ask(query, values))
        rows: list[tuple[Any, ...]] = kept[1]
        return rows

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        raise AssertionError(self.refusal)

    def remove(self, database: str, kind: Kind, name: str) -> None:
        raise AssertionError(self.refusal)

    def copy(self) -> DatabaseTables:
        return self


def _decimal(spelled: str) -> DataType:
    sizes = re.search(r"\((\d+)(?:,\s*(-?\d+))?\)", spelled)
    precision, scale = (int(sizes[1]), int(sizes[2] or 0)) if sizes is not None else (38, 18)
    return parse_type(f"DECIMAL({precision}, {scale})" if 0 <= scale <= precision <= 38 else "STRING")


def _quoted(name: str) -> str:
    return name if re.fullmatch(r'[^".]+', name) else '"' + name.replace('"', '""') + '"'


# --- queries of the information schema ------------------------------------------------------------------------

_SCHEMATA = "SELECT DISTINCT schema_name FROM information_schema.schemata WHERE TRUE"
_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
_COLUMNS = """
    SELECT column_name, data_type, is_nullable FROM information_schema.columns
    WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""
_COLUMNS_OF_POSTGRES = """
    SELECT c.column_name, format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE a.atttypid END,
                                      CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END), c.is_nullable
    FROM information_schema.columns c
    JOIN pg_attribute a ON a.attname = c.column_name
      AND a.attrelid = to_regclass(quote_ident(c.table_schema) || '.' || quote_ident(c.table_name))
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.table_schema = %s AND c.table_name = %s ORDER BY c.ordinal_position"""
_KEY = """
    SELECT k.column_name FROM information_schema.table_constraints c
    JOIN information_schema.key_column_usage k
      ON k.constraint_name = c.constraint_name AND k.table_schema = c.table_schema AND k.table_name = c.table_name
    WHERE c.constraint_type = 'PRIMARY KEY' AND c.table_schema = %s AND c.table_name = %s ORDER BY k.ordinal_position"""


@contextmanager
def _postgres(options: Mapping[str, str]) -> Iterator[Ask]:
    require_psycopg()
    try:
        parameters = {**of_url(options["url"]), "connect_timeout": str(_TIMEOUT_MS // 1000)}
    except ValueError as error:
        message = f'option "url" of a catalog cannot be used: {error}'
        raise ConnectorError(WRONG_VALUE, message, hint="Write 'jdbc:postgresql://host:5432/database'.") from None
    given = {"user": options.get("username"), "password": options.get("password")}
    parameters |= {key: value for key, value in given.items() if value is not None}
    with connected("information_schema", parameters, _TIMEOUT_MS) as server:
        yield lambda query, values: server.execute(query.encode(), values or None).fetchall()


OVER_POSTGRES = System(
    "jdbc",
    _postgres,
    {
        "boolean": "BOOLEAN",
        "smallint": "SMALLINT",
        "integer": "INT",
        "bigint": "BIGINT",
        "real": "FLOAT",
        "double precision": "DOUBLE",
        "bytea": "BINARY",
        "date": "DATE",
        "timestamp with time zone": "TIMESTAMP",
        "timestamp without time zone": "TIMESTAMP",
        "text": "STRING",
        "character varying": "STRING",
    },
    "schema_name !~ '^(pg_|information_schema$)'",
    _COLUMNS_OF_POSTGRES,
)


@contextmanager
def _duckdb(options: Mapping[str, str]) -> Iterator[Ask]:
    if find_spec("duckdb") is None:
        raise no_package("duckdb", "duckdb")
    path = options["path"]
    try:
        if not Path(path).is_file():
            raise ConnectorError(NO_FILE, f'file "{path}" of a catalog does not exist', hint="Correct the option path.")
        with closing(connect_to_duckdb(path)) as database:
            yield lambda query, values: database.execute(query.replace("%s", "?"), list(values)).fetchall()
    except duckdb_error() as error:
        message, hint = f'file "{path}" of a catalog cannot be read', "Does no process write to it?"
        raise ConnectorError(NO_FILE, message, detail=f"{first_line(error)}.", hint=hint) from None


OVER_DUCKDB = System(
    "duckdb",
    _duckdb,
    {
        "boolean": "BOOLEAN",
        "tinyint": "TINYINT",
        "smallint": "SMALLINT",
        "utinyint": "SMALLINT",
        "integer": "INT",
        "usmallint": "INT",
        "bigint": "BIGINT",
        "uinteger": "BIGINT",
        "float": "FLOAT",
        "double": "DOUBLE",
        "blob": "BINARY",
        "date": "DATE",
        "varchar": "STRING",
        "timestamp": "TIMESTAMP",
        "timestamp with time zone": "TIMESTAMP",
        "timestamp_s": "TIMESTAMP",
        "timestamp_ms": "TIMESTAMP",
    },
    "schema_name NOT IN ('information_schema', 'pg_catalog')",
    _COLUMNS,
)


# --- Spark's tables ---------------------------------------------------------------------------------------------

NO_SPARK = "SS413"


@dataclass
class SparkTables:
    """A catalog ``Store`` that shows Spark's tables and views. Spark is started when a name is first looked up."""

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
