"""Tables of lakes that we write and others read, that others write and we read, and that both write in turns.

Each writer does the same steps, and each reader must find the same rows. ``pytest -s`` prints who was tried with whom.
Spark's own connectors of lakes and DuckDB's extensions are those of older versions, so these run in environments of
their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.lakes.iceberg_columns import catalog_of
from sqlstream.connectors.lakes.versions import LakeSettings
from sqlstream.planner.catalog import Table
from sqlstream.types import parse_type
from tests.sqlstream.connectors import test_delta_sink as of_delta
from tests.sqlstream.connectors import test_iceberg as of_iceberg
from tests.sqlstream.connectors.lakes import batches_of, together
from tests.sqlstream.connectors.other_engines import OtherEngine
from tests.versions import Unavailable

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")
pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")

DUCKDB = "1.5.5"
"""The newest version whose extensions are packages of Python."""

Row = tuple[Any, ...]
Tried = dict[tuple[str, str, str, str], str]


@dataclass(frozen=True)
class Operation:
    """``columns`` as in the tests of sinks; rows that lack the last ones are of a time before these were added. Steps
    append, upsert by ``id``, delete by ``id``, or add the last column.
    """

    columns: str
    steps: tuple[tuple[str, Sequence[Row]], ...]
    expected: Sequence[Row]
    partition_by: str = ""


OPERATIONS = {
    "append": Operation(
        "id BIGINT; v STRING",
        (("append", [(1, "a"), (2, None)]), ("append", [(3, "")]), ("append", [(4, "é☃"), (5, "a")])),
        [(1, "a"), (2, None), (3, ""), (4, "é☃"), (5, "a")],
    ),
    "upsert": Operation(
        "id BIGINT; v STRING",
        (
            ("append", [(1, "a"), (2, "b"), (3, "c")]),
            ("upsert", [(2, "B"), (4, "d")]),
            ("upsert", [(1, None), (4, "D")]),
            ("append", [(5, "e")]),
        ),
        [(1, None), (2, "B"), (3, "c"), (4, "D"), (5, "e")],
    ),
    "partitions": Operation(
        "id BIGINT; v STRING; p STRING",
        (
            ("append", [(1, "a", "x"), (2, "b", None), (3, "c", "a/b=c %")]),
            ("append", [(4, "d", "x"), (5, "e", None)]),
            ("upsert", [(1, "A", "y"), (3, "C", "a/b=c %"), (6, "f", None)]),
            ("delete", [(2, "b", None), (4, "d", "x")]),
        ),
        [(1, "A", "y"), (3, "C", "a/b=c %"), (5, "e", None), (6, "f", None)],
        partition_by="p",
    ),
    "evolution": Operation(
        "id BIGINT; v STRING; w DOUBLE",
        (
            ("append", [(1, "a"), (2, "b")]),
            ("add column", [(3, "c", 1.5)]),
            ("upsert", [(1, "A", 2.5)]),
            ("append", [(4, "d", None)]),
        ),
        [(1, "A", 2.5), (2, "b", None), (3, "c", 1.5), (4, "d", None)],
    ),
    "deletes": Operation(
        "id BIGINT; v STRING",
        (
            ("append", [(number, "a") for number in range(10)]),
            ("delete", [(3, "a"), (99, "a")]),
            ("delete", [(4, "a")]),
            ("upsert", [(3, "again")]),
        ),
        [(number, "again" if number == 3 else "a") for number in range(10) if number != 4],
    ),
}
KINDS = {"upsert": "+U", "delete": "-D"}


def arrow(columns: str, rows: Sequence[Row]) -> pa.Table:
    """Rows as the columns that they have."""
    declared = [column.split(" ") for column in columns.split("; ")][: len(rows[0])]
    kinds = [parse_type(kind).to_arrow() for _, kind in declared]
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in declared])


def steps_of_spark(
    table: str, kind: str, columns: str, rows: Sequence[Row], create: str, partition_by: str
) -> Iterator[str]:
    """The statements of one step. ``create``: how a table is made."""
    declared = [column.split(" ") for column in columns.split("; ")]
    names = ", ".join(name for name, _ in declared)
    literals = [
        ", ".join(
            f"CAST({literal(value)} AS {type_}) AS {name}" for value, (name, type_) in zip(row, declared, strict=True)
        )
        for row in rows
    ]
    source = " UNION ALL ".join(f"SELECT {row}" for row in literals)
    if kind == "upsert":
        merge = f"MERGE INTO {table} AS t USING ({source}) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        yield f"{merge}WHEN NOT MATCHED THEN INSERT *"
    elif kind == "delete":
        yield f"DELETE FROM {table} WHERE id IN ({', '.join(str(row[0]) for row in rows)})"
    else:
        parts = f" PARTITIONED BY ({partition_by})" if partition_by else ""
        listed = ", ".join(" ".join(column) for column in declared)
        yield f"CREATE TABLE IF NOT EXISTS {table} ({listed}) {create.format(parts)}"
        if kind == "add column":
            yield f"ALTER TABLE {table} ADD COLUMNS ({' '.join(declared[-1])})"
        yield f"INSERT INTO {table} ({names}) {source}"


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else str(value)


class DeltaLake:
    pyspark, packages = "4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0"

    def __init__(self, folder: Path, engines: Engines) -> None:
        self.path, self.engines = folder / "t", engines

    def ours(self, kind: str, columns: str, rows: Sequence[Row], run: str, partition_by: str) -> None:
        to = of_delta.writer_of(self._declared(kind, columns, partition_by), run)
        if kind in KINDS:
            of_delta.upsert(to, 0, *((*row, KINDS[kind]) for row in rows))
        else:
            of_delta.append(to, 0, *rows)

    def _declared(self, kind: str, columns: str, partition_by: str) -> Table:
        evolution = {"sink__schema_evolution": "add-columns"} if kind == "add column" else {}
        more = {"partition_by": partition_by} if partition_by else {}
        return of_delta.table(self.path, columns, ["id"] if kind in KINDS else [], **evolution, **more)

    def library(self, kind: str, columns: str, rows: Sequence[Row], run: str, partition_by: str) -> None:
        own = arrow(columns, rows)
        if kind == "upsert":
            merge = deltalake.DeltaTable(self.path).merge(own, "t.id = s.id", "s", "t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
        elif kind == "delete":
            deltalake.DeltaTable(self.path).delete(f"id IN ({', '.join(str(row[0]) for row in rows)})")
        else:
            more = {"schema_mode": "merge"} if kind == "add column" else {}
            parts = [partition_by] if partition_by else None
            deltalake.write_deltalake(self.path, own, mode="append", partition_by=parts, **more)

    def by_spark(self, kind: str, columns: str, rows: Sequence[Row], run: str, partition_by: str) -> None:
        table = f"delta.`{self.path}`"
        self._spark({}, [*steps_of_spark(table, kind, columns, rows, "USING delta{}", partition_by)])

    def read_by_spark(self, columns: str) -> list[Row]:
        return self._spark({}, [], f"SELECT * FROM delta.`{self.path}`")

    def _spark(self, *request: Any) -> list[Row]:
        return self.engines.spark(self.pyspark, self.packages).run(*request)

    def read_by_ours(self, columns: str) -> list[Row]:
        return together(batches_of(LakeSettings("delta", "t", str(self.path), columns=_pairs(columns))))

    def read_by_library(self, columns: str) -> list[Row]:
        return [tuple(row.values()) for row in deltalake.DeltaTable(self.path).to_pyarrow_table().to_pylist()]

    def read_by_duckdb(self, columns: str) -> list[Row]:
        return self.engines.duckdb().run({}, [], f"SELECT * FROM delta_scan('{self.path}')")


class IcebergLake:
    pyspark = "4.1.4"
    packages = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.50.3.0"

    def __init__(self, folder: Path, engines: Engines) -> None:
        self.engines = engines
        self.of_spark = {
            "spark.sql.catalog.default": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.default.type": "jdbc",
            "spark.sql.catalog.default.uri": f"jdbc:sqlite:{folder}/catalog.db",
            "spark.sql.catalog.default.jdbc.schema-version": "V1",
            "spark.sql.catalog.default.warehouse": f"file://{folder}",
        }
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        catalog_of(self.catalog).create_namespace("db")

    def ours(self, kind: str, columns: str, rows: Sequence[Row], run: str, partition_by: str) -> None:
        evolution = {"sink__schema_evolution": "add-columns"} if kind == "add column" else {}
        more = {"partition_by": partition_by} if partition_by else {}
        keys = ["id"] if kind in KINDS else []
        to = of_iceberg.writer_of(of_iceberg.declared(self.catalog, columns, keys, **evolution, **more), run)
        if kind in KINDS:
            of_iceberg.upsert(to, 0, *((*row, KINDS[kind]) for row in rows))
        else:
            of_iceberg.append(to, 0, *rows)

    def library(self, kind: str, columns: str, rows: Sequence[Row], run: str, partition_by: str) -> None:
        own, catalog = arrow(columns, rows), catalog_of(self.catalog)
        if not catalog.table_exists("db.t"):
            made = catalog.create_table("db.t", own.schema)
            if partition_by:
                with made.update_spec() as spec:
                    spec.add_identity(partition_by)
        table = catalog.load_table("db.t")
        if kind == "upsert":
            table.upsert(own, join_cols=["id"])
        elif kind == "delete":
            table.delete(reduce(lambda one, other: f"{one} or {other}", [f"id = {row[0]}" for row in rows]))
        else:
            if kind == "add column":
                with table.update_schema() as update:
                    update.union_by_name(own.schema)
            table.append(own)

    def by_spark(self, kind: str, columns: str, rows: Sequence[Row], run: str, partition_by: str) -> None:
        """Deletes rows by their positions, which is not what it does by itself."""
        modes = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "merge"))
        create = f"USING iceberg{{}} TBLPROPERTIES ({modes})"
        self._spark([*steps_of_spark("`default`.db.t", kind, columns, rows, create, partition_by)])

    def read_by_spark(self, columns: str) -> list[Row]:
        return self._spark([], "SELECT * FROM `default`.db.t")

    def _spark(self, *request: Any) -> list[Row]:
        return self.engines.spark(self.pyspark, self.packages).run(self.of_spark, *request)

    def read_by_ours(self, columns: str) -> list[Row]:
        return together(batches_of(LakeSettings("iceberg", "t", "db.t", self.catalog, _pairs(columns))))

    def read_by_library(self, columns: str) -> list[Row]:
        table = catalog_of(self.catalog).load_table("db.t").scan().to_arrow()
        return [tuple(row.values()) for row in table.to_pylist()]

    def read_by_duckdb(self, columns: str) -> list[Row]:
        location = catalog_of(self.catalog).load_table("db.t").metadata_location
        return self.engines.duckdb().run({}, [], f"SELECT * FROM iceberg_scan('{location}')")


Lake = DeltaLake | IcebergLake
LAKES: dict[str, type[Lake]] = {"delta": DeltaLake, "iceberg": IcebergLake}
LONG = "both, the library first"
WRITERS = {"ours": ("ours",), "the library": ("library",), "both in turns": ("ours", "library"),
           LONG: ("library", "ours")}  # fmt: skip
WITH_SPARK = {"Spark": ("by_spark",), "ours and Spark in turns": ("ours", "by_spark"),
              "Spark and ours in turns": ("by_spark", "ours")}  # fmt: skip
READERS = {"ours": "read_by_ours", "the library": "read_by_library", "DuckDB": "read_by_duckdb",
           "Spark": "read_by_spark"}  # fmt: skip


def _pairs(columns: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, kind) for name, kind in (column.split(" ") for column in columns.split("; ")))


def written(lake: Lake, operation: Operation, writers: Sequence[str]) -> None:
    for number, (kind, rows) in enumerate(operation.steps):
        columns = "; ".join(operation.columns.split("; ")[: len(rows[0])])
        write = getattr(lake, writers[number % len(writers)])
        write(kind, columns, rows, f"run{number}", operation.partition_by)


class Engines:
    """Other engines, started when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[str, OtherEngine | Unavailable] = {}

    def spark(self, pyspark: str, packages: str) -> OtherEngine:
        return self._engine("spark", packages, f"pyspark=={pyspark}")

    def duckdb(self) -> OtherEngine:
        extensions = [f"duckdb-extension-{name}=={DUCKDB}" for name in ("avro", "delta", "iceberg")]
        return self._engine("duckdb", "avro,delta,iceberg", f"duckdb=={DUCKDB}", *extensions)

    def _engine(self, engine: str, packages: str, *wanted: str) -> OtherEngine:
        known = self._started.get(packages)
        if known is None:
            try:
                known = OtherEngine(engine, packages, wanted, self._folder / f"log{len(self._started)}")
            except Unavailable as reason:
                known = reason
            self._started[packages] = known
        if isinstance(known, OtherEngine):
            return known
        raise known

    def close(self) -> None:
        for engine in self._started.values():
            if isinstance(engine, OtherEngine):
                engine.close()


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    opened = Engines(tmp_path_factory.mktemp("engines"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def tried() -> Iterator[Tried]:
    """What came out by lake, operation, writer and reader, which is printed in the end."""
    found: Tried = {}
    yield found
    for lake, operation in dict.fromkeys(key[:2] for key in found):
        own = {key[2:]: result for key, result in found.items() if key[:2] == (lake, operation)}
        print(f"\n{lake}, {operation}: written by / read by  {'  '.join(READERS)}")
        for writer in dict.fromkeys(writer for writer, _ in own):
            print(f"  {writer:24}", "  ".join(f"{own.get((writer, reader), '-'):11}" for reader in READERS))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("writer", ["ours", "the library", "both in turns", pytest.param(LONG, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", LAKES)
def test_all_readers_find_what_all_writers_write(
    tmp_path: Path, engines: Engines, kind: str, writer: str, operation: str, tried: Tried
) -> None:
    lake = LAKES[kind](tmp_path, engines)
    written(lake, OPERATIONS[operation], WRITERS[writer])
    require_same(lake, (kind, operation, writer), ("ours", "the library"), tried)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("writer", [*WRITERS, *WITH_SPARK])
@pytest.mark.parametrize("kind", LAKES)
def test_spark_and_duckdb_find_what_all_write_and_all_find_what_spark_writes(
    tmp_path: Path, engines: Engines, kind: str, writer: str, operation: str, tried: Tried
) -> None:
    lake = LAKES[kind](tmp_path, engines)
    try:
        written(lake, OPERATIONS[operation], (WRITERS | WITH_SPARK)[writer])
    except Unavailable as reason:
        pytest.skip(str(reason))
    require_same(lake, (kind, operation, writer), READERS, tried)


def require_same(lake: Lake, what: tuple[str, str, str], readers: Iterable[str], tried: Tried) -> None:
    """``what``: lake, operation and writer."""
    own, wrong = OPERATIONS[what[1]], []
    for reader in readers:
        try:
            found = sorted(getattr(lake, READERS[reader])(own.columns), key=repr)
        except Unavailable:
            tried[*what, reader] = "not there"
            continue
        except Exception as error:
            tried[*what, reader] = "an error"
            wrong.append((reader, str(error)))
            continue
        same = found == sorted(own.expected, key=repr)
        tried[*what, reader] = "the same" if same else "differs"
        if not same:
            wrong.append((reader, repr(found)))
    assert not wrong
