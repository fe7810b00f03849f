"""DuckDB as a source of lookups. Times travel as microseconds since 1970, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlstream.types import DataType
from sqlstream.udfs.lookup.sources.file_database import FileClient, FileDatabase
from sqlstream.udfs.lookup.sources.sql_text import Dialect

if TYPE_CHECKING:
    import duckdb

_EPOCH = datetime(1970, 1, 1)


def encode(value: object, type_: DataType, stored: str) -> object:
    """A value of a declared type as a parameter of DuckDB. ValueError for a value that no row can equal."""
    if isinstance(value, datetime):
        utc = value.astimezone(UTC) if value.tzinfo is not None else value
        return (utc.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
    return value


def _time(value: object, type_: DataType) -> datetime:
    assert isinstance(value, int)
    instant = _EPOCH + timedelta(microseconds=value)
    return instant.replace(tzinfo=UTC) if type_.name == "TIMESTAMP" else instant


_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ")

DIALECT = Dialect(
    placeholder="?",
    arrays=False,
    sent={
        **{name: name for name in ("BOOLEAN", "FLOAT", "DOUBLE", "DATE")},
        **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), "BIGINT"),
        "DECIMAL": "DECIMAL({0}, {1})",
        "STRING": "VARCHAR",
        "BINARY": "BLOB",
        **dict.fromkeys(_TIMES, "BIGINT"),
    },
    read={
        ("STRING", "varchar"): "{c}",
        ("STRING", ""): "CAST({c} AS VARCHAR)",
        ("ARRAY<STRING>", "varchar[]"): "{c}",
        ("ARRAY<STRING>", ""): "CAST({c} AS VARCHAR[])",
        **{(name, ""): "epoch_us({c})" for name in _TIMES},
    },
    equal={
        ("STRING", "varchar"): "{c} = {k}",
        ("STRING", "uuid"): "{c} = TRY_CAST({k} AS UUID)",
        ("STRING", ""): "{v} = {k}",
        **{(name, ""): "{v} = {k}" for name in _TIMES},
    },
    encode=encode,
    decode=dict.fromkeys(_TIMES, _time),
)


def connect(path: str) -> duckdb.DuckDBPyConnection:
    """A read-only connection."""
    import duckdb

    return duckdb.connect(path, read_only=True)


class DuckDbSource(FileDatabase):
    """A table of a DuckDB file. No process may have the file open for writing."""

    async def open(self) -> FileClient:
        from duckdb import Error

        return self.client(DIALECT, connect, Error)
