"""Tables that answer lookups, read whole: rows, filters, and what is told where they cannot be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.types import DataType
from sqlstream.udfs.lookup.operator import WholeTable
from sqlstream.udfs.lookup.source import Comparison, Request
from sqlstream.udfs.lookup.sources.file_database import SqliteSource
from sqlstream.udfs.lookup.sources.sql_text import StoredColumn

COLUMNS = (("id", DataType("INT")), ("name", DataType("STRING")))
ONE = [pa.record_batch({"id": pa.array([0])})]


def table(path: Path, filters: tuple[Comparison, ...] = (), name: str = "people") -> WholeTable:
    stored = tuple((column, StoredColumn(type_, column)) for column, type_ in COLUMNS)
    return WholeTable(SqliteSource("people", str(path), (name,), Request((), COLUMNS, filters), stored))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "people.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE people (id INT, name TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?)", [(n, f"p{n}") for n in range(25_000)])
    return path


def test_all_rows_come_in_batches_of_some(database: Path) -> None:
    collected = list(table(database).rows(iter(ONE)))
    assert [batch.num_rows for batch in collected] == [10_000, 10_000, 5_000]
    assert collected[0].schema == pa.schema([("id", pa.int32()), ("name", pa.string())])
    assert collected[-1].to_pylist()[-1] == {"id": 24_999, "name": "p24999"}


def test_the_source_leaves_out_what_filters_exclude(database: Path) -> None:
    filters = (Comparison("id", "IN", (7, 9)), Comparison("name", "<>", "p9"))
    (only,) = table(database, filters).rows(iter(ONE))
    assert only.to_pylist() == [{"id": 7, "name": "p7"}]


def test_no_row_asks_for_nothing(database: Path) -> None:
    assert list(table(database).rows(iter([pa.record_batch({"id": pa.array([], pa.int64())})]))) == []


def test_what_keeps_a_table_from_being_read_is_told(database: Path) -> None:
    with pytest.raises(SqlStreamError, match='SS610: table "people" cannot be read: no such table: gone'):
        list(table(database, name="gone").rows(iter(ONE)))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("INSERT INTO people VALUES ('many', NULL)")
    with pytest.raises(SqlStreamError, match="SS610"):
        list(table(database).rows(iter(ONE)))
