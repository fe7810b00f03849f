"""Tables of databases as tasks read them: files with the rows that were there, and files of messages of the server's
log with the changes that followed, as rows with their kinds. What is the same of all servers is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import ConnectorError, ExecutionError, repeating
from sqlstream.types import DataType
from sqlstream.udfs.bad_records import BAD_ROW

CANNOT_READ = "SS562"
CHANGED_TABLE = repeating("SS622")
EMPTIED = repeating("SS624")
NO_FILE = "SS625"

PLACES = pa.schema(
    [
        ("content", pa.string()),
        ("path", pa.string()),
        ("begin", pa.int64()),
        ("first", pa.int64()),
        ("until", pa.int64()),
        ("relations", pa.list_(pa.binary())),
        ("snapshots", pa.string()),
    ]
)
"""What a task reads, in order: ``content`` is ROWS for a file of rows, whose longest one has ``begin`` bytes, or
CHANGES for the messages from number ``first`` to before ``until`` of a file, which begin at byte ``begin``;
``relations``: the messages of the log that describe the table, or its partitions, there. ``snapshots``: which snapshots
hold changes already, as JSON of ``SnapshotPart.to_json``.
"""

PLACES_DDL = (
    "content STRING, path STRING, begin BIGINT, first BIGINT, until BIGINT, relations ARRAY<BINARY>, snapshots STRING"
)
ROWS, CHANGES = "rows", "changes"

CHANGES_FOLDER = "changes"
"""The folder of files with rows and changes, in the folder of a job."""

KINDS = "kind"
"""The column with the kind of each row: +I, -U, +U or -D."""

METADATA = {
    "database_name": "STRING",
    "schema_name": "STRING",
    "table_name": "STRING",
    "op_ts": "TIMESTAMP",
}
"""Types of the METADATA columns, by key, as in Flink."""

INDEX = ".index"
"""Behind the name of a file of messages: the file with the length of each, as unsigned numbers of 4 bytes."""

_AT_ONCE, _BYTES_AT_ONCE = 50_000, 8 << 20
"""Of messages. One of MySQL's log has hundreds of rows, each of which takes far more memory than its bytes in the log.
"""


@dataclass(frozen=True)
class KeyColumn:
    """A column of the table's key. ``cast``: the SQL that turns a text into a value which compares as the column."""

    name: str
    cast: str


@dataclass(frozen=True)
class ChangedColumn:
    """A column that is read. ``name``: in the result; ``stored``: in the database, where it has the type ``type``, of
    the number ``type_number``.
    """

    name: str
    declared: DataType
    stored: str
    type: str
    type_number: int


def lsn_text(lsn: int) -> str:
    """A place in the log (LSN) as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """Returns a place in the log (LSN) from PostgreSQL's spelling. Places of other logs are spelled alike: the number
    of the file and the byte in it.
    """
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


@dataclass(frozen=True)
class SnapshotPart:
    """Rows of the table that were read in one snapshot: those whose key is up to ``until``, from where the part before
    ends; None: to the end of the table.
    """

    snapshot: str
    until: tuple[str, ...] | None = None

    def to_json(self) -> list[Any]:
        return [self.snapshot, None if self.until is None else list(self.until)]

    @staticmethod
    def of_json(value: Sequence[Any]) -> SnapshotPart:
        return SnapshotPart(value[0], None if value[1] is None else tuple(value[1]))


@dataclass(frozen=True)
class ChangedTable:
    """A table of a database and what is read of it.

    * ``name``: in SQL, for messages; ``database``, ``schema``, ``table``: where it is.
    * ``keys``: the columns of its key there.
    * ``with_before``: updates have -U, for which the log must have old rows.
    * ``follows``: columns that the log lacks are NULL, and types may change; else that is an error.
    * ``skips_truncate``: TRUNCATE is ignored; else it is an error.
    * ``metadata``: names of the result with keys of METADATA.
    * ``connection``: what a connection is made with, for comparisons of keys and for values now.
    * ``asks``: values that the log lacks because they did not change are those of the row now; else that is an error.
    """

    name: str
    database: str
    schema: str
    table: str
    columns: tuple[ChangedColumn, ...]
    keys: tuple[KeyColumn, ...]
    with_before: bool = False
    follows: bool = False
    skips_truncate: bool = False
    metadata: tuple[tuple[str, str], ...] = ()
    connection: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    asks: bool = False

    @property
    def shown(self) -> str:
        return f"{self.schema}.{self.table}"

    @cached_property
    def result(self) -> pa.Schema:
        own = [(c.name, c.declared.to_arrow()) for c in self.columns]
        more = [(name, DataType(METADATA[key]).to_arrow()) for name, key in self.metadata]
        return pa.schema([*own, *more, (KINDS, pa.string())])


@dataclass(frozen=True)
class RowsOfChanges(ABC):
    """Reads what the places of one task say, as rows of ``ChangedTable.result``."""

    table: ChangedTable

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, in the order of the places.

        ConnectorError SS622 to SS625 where the log cannot be read as the table is declared, ExecutionError SS402 for a
        value that does not fit its column.
        """
        for batch in places:
            for place in batch.to_pylist():
                try:
                    yield from self.copied(place) if place["content"] == ROWS else self.changes(place)
                except FileNotFoundError:
                    message = f'file "{place["path"]}" with rows of table "{self.table.name}" is gone'
                    hint = (
                        "All machines of a cluster must see the checkpoint directory; nothing may remove files there."
                    )
                    raise ConnectorError(NO_FILE, message, hint=hint) from None

    @abstractmethod
    def copied(self, place: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The rows of a file of ROWS."""

    @abstractmethod
    def changes(self, place: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The rows that CHANGES give."""

    @abstractmethod
    def values_of(self, column: ChangedColumn, texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
        """The values of a column by how the server prints them, and which of the texts are none of its type."""

    def values(self, column: ChangedColumn, texts: pa.Array) -> pa.Array:
        """The values of a column. ExecutionError SS402 for a text that is none of its type."""
        values, misfits = self.values_of(column, texts)
        if misfits.any():
            text = texts[int(np.flatnonzero(misfits)[0])].as_py()
            message = (
                f'column "{column.stored}" of table "{self.table.name}" is "{text[:100]}", which is no '
                f"{column.declared}"
            )
            raise ExecutionError(BAD_ROW, message, hint="Declare the column with a larger type, or as STRING.")
        return values.cast(column.declared.to_arrow())

    def batch(self, columns: Sequence[pa.Array], times: np.ndarray, kinds: pa.StringArray) -> pa.RecordBatch:
        """Rows of the result. ``times``: microseconds since 1970, of when they changed."""
        constant = {
            "database_name": self.table.database, "schema_name": self.table.schema, "table_name": self.table.table,
        }  # fmt: skip
        moments = pa.array(times, pa.int64()).cast(DataType("TIMESTAMP").to_arrow())
        more = [moments if key == "op_ts" else pa.repeat(constant[key], len(kinds)) for _, key in self.table.metadata]
        return pa.RecordBatch.from_arrays([*columns, *more, kinds], schema=self.table.result)


def seen_by_parts(seen: np.ndarray, part_of: Callable[[], np.ndarray]) -> np.ndarray:
    """Which changes are in the snapshot that has read their row. ``seen``: for each snapshot, which changes it holds;
    ``part_of``: which part each row is in. Only a server knows that, which is asked where snapshots differ.
    """
    count = seen.shape[1]
    if len(seen) == 1 or not count or bool((seen == seen[0]).all()):
        first: np.ndarray = seen[0]
        return first
    chosen: np.ndarray = seen[np.minimum(part_of(), len(seen) - 1), np.arange(count)]
    return chosen


def windows(path: str, begin: int, first: int, until: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The messages of a file, some at a time, so that a transaction of any size takes the same memory: their bytes, and
    where in these each begins. FileNotFoundError where the file is not whole.
    """
    with Path(path).open("rb") as content, Path(path + INDEX).open("rb") as index:
        index.seek(4 * first)
        content.seek(begin)
        left = until - first
        while left:
            lengths = np.frombuffer(index.read(4 * min(left, _AT_ONCE)), np.uint32).astype(np.int64)
            if not len(lengths):
                raise FileNotFoundError(path)
            ends = np.cumsum(lengths)
            count = max(1, int(np.searchsorted(ends, _BYTES_AT_ONCE, "right")))
            if count < len(lengths):
                index.seek(4 * (count - len(lengths)), 1)
                ends = ends[:count]
            data = content.read(int(ends[-1]))
            if len(data) < ends[-1]:
                raise FileNotFoundError(path)
            left -= len(ends)
            yield np.frombuffer(data, np.uint8), np.concatenate(([0], ends[:-1]))
