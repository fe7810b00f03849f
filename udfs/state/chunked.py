"""Tables by number, such as the panes of time windows. Appending reads nothing but the small index."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import NO_WATERMARK, StateKey, Store

MOST_CHUNKS = 16
"""An entry of more chunks is merged into one when it is read, but for those that are large."""

MOST_BYTES = 32 << 20
"""A value of the store with rows of a bucket or a pane has hardly more bytes, if it is not that of a single row."""


class Extent(NamedTuple):
    """The stored size of an entry: the number of its chunks, of its rows, and of those that were written first."""

    chunks: int
    rows: int
    base: int


_NONE = Extent(0, 0, 0)


class ChunkedState:
    """Stores tables of one schema by int64 id. Each entry consists of chunks, one for each ``append``.

    An instance serves one call of a kernel: it reads the index once, reads each entry once, and writes everything in
    ``flush``. Until then its own reads see what was appended and replaced.
    """

    def __init__(self, store: Store, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema.remove_metadata()
        self._store = store
        self._index: dict[int, Extent] | None = None
        self._mark = self._stored_mark = NO_WATERMARK
        self._tables: dict[int, pa.Table] = {}
        self._appended: dict[int, list[pa.Table]] = {}
        self._replaced: set[int] = set()

    def append(self, number: int, rows: pa.Table) -> None:
        """Adds rows at the end of the entry with the id ``number``."""
        if rows.num_rows:
            self._appended.setdefault(int(number), []).append(self._checked(rows))

    def read(self, ids: Sequence[int] | np.ndarray) -> dict[int, pa.Table]:
        """The tables of these ids; an empty table where there is no entry."""
        asked = [int(number) for number in ids]
        self._fetch([number for number in asked if number not in self._tables])
        return {number: self._table(number) for number in asked}

    def replace(self, number: int, rows: pa.Table | None) -> None:
        """Replaces the table of the id ``number``. None, or a table without rows, drops the entry."""
        number = int(number)
        self._tables[number] = self._empty() if rows is None else self._checked(rows)
        self._appended.pop(number, None)
        self._replaced.add(number)

    def ids(self) -> np.ndarray:
        """The ids of all entries, sorted."""
        chunk_ids = {number for number in self._entries() if number not in self._replaced} | self._appended.keys()
        chunk_ids |= {number for number in self._replaced if self._tables[number].num_rows}
        return np.array(sorted(chunk_ids), np.int64)

    def rows(self, number: int) -> int:
        """The number of rows of the entry with the id ``number``, from the index."""
        replaced = number in self._replaced
        stored = self._tables[number].num_rows if replaced else self._entries().get(number, _NONE).rows
        return int(stored + sum(rows.num_rows for rows in self._appended.get(number, ())))

    def extent(self, number: int) -> Extent:
        """The stored size of the entry with the id ``number``, without changes since the last ``flush``."""
        return self._entries().get(number, _NONE)

    @property
    def mark(self) -> int:
        """An integer that the kernel may store with the entries, for instance a time; NO_WATERMARK if none was set, and
        after all entries were dropped.
        """
        self._entries()
        return self._mark

    @mark.setter
    def mark(self, mark: int) -> None:
        self._entries()
        self._mark = mark

    def flush(self) -> None:
        """Writes all changes in one call of the store, if there are any."""
        self._merge_fragments()
        changes: dict[StateKey, bytes | None] = {}
        for number in self._replaced:
            changes |= self._rewritten(number)
        for number, parts in self._appended.items():
            changes |= self._extended(number, pa.concat_tables(parts))
        self._replaced.clear()
        self._appended.clear()
        if changes or (self._mark != self._stored_mark and self._entries()):
            self._store.put({**changes, self._index_key: self._index_bytes()})
            self._stored_mark = self._mark

    # --- index ------------------------------------------------------------------------------------------------

    @property
    def _index_key(self) -> StateKey:
        return self.name, 0

    def _entries(self) -> dict[int, Extent]:
        if self._index is None:
            (data,) = self._store.get([self._index_key])
            self._index = {} if data is None else self._index_of(data)
        return self._index

    def _index_of(self, data: bytes) -> dict[int, Extent]:
        header, *entries = np.frombuffer(data, np.int64).reshape(-1, 4).tolist()
        check_fingerprint(header[0], self.schema, self.name)
        self._mark = self._stored_mark = header[1]
        return {number: Extent(*extent) for number, *extent in entries}

    def _index_bytes(self) -> bytes | None:
        entries = [(number, *extent) for number, extent in self._entries().items()]
        header = (fingerprint(self.schema), self._mark, 0, 0)
        return np.array([header, *entries], np.int64).tobytes() if entries else None

    # --- entries ----------------------------------------------------------------------------------------------

    def _fetch(self, ids: Sequence[int]) -> None:
        keys = {number: chunk_keys(self.name, number, self._entries().get(number, _NONE).chunks) for number in ids}
        wanted = [key for of_id in keys.values() for key in of_id]
        entries = dict(zip(wanted, self._store.get(wanted), strict=True)) if wanted else {}
        for number, of_id in keys.items():
            batches = [decode(entries[key], self.schema) for key in of_id]
            self._tables[number] = pa.Table.from_batches(batches, self.schema)

    def _table(self, number: int) -> pa.Table:
        parts = self._appended.get(number)
        return pa.concat_tables([self._tables[number], *parts]) if parts else self._tables[number]

    def _merge_fragments(self) -> None:
        """Entries that were read, and have many chunks, are written as one."""
        for number in self._tables:
            chunks = self._entries().get(number, _NONE).chunks
            if number in self._replaced or chunks <= MOST_CHUNKS:
                continue
            table = self._table(number)
            if chunks > MOST_CHUNKS + table.nbytes // MOST_BYTES:
                self.replace(number, table)

    def _rewritten(self, number: int) -> dict[StateKey, bytes | None]:
        rows = self._tables[number]
        old = self._entries().pop(number, _NONE).chunks
        if rows.num_rows == 0:
            return dict.fromkeys(chunk_keys(self.name, number, old))
        chunks = encoded(whole(rows))
        self._entries()[number] = Extent(len(chunks), rows.num_rows, rows.num_rows)
        return {
            **dict(zip(chunk_keys(self.name, number, len(chunks)), chunks, strict=True)),
            **dict.fromkeys(chunk_keys(self.name, number, old, len(chunks))),
        }

    def _extended(self, number: int, rows: pa.Table) -> dict[StateKey, bytes | None]:
        old = self._entries().get(number, _NONE)
        chunks = encoded(whole(rows))
        count = old.chunks + len(chunks)
        self._entries()[number] = Extent(count, old.rows + rows.num_rows, old.base or rows.num_rows)
        if number in self._tables:
            self._tables[number] = pa.concat_tables([self._tables[number], rows])
        return dict(zip(chunk_keys(self.name, number, count, old.chunks), chunks, strict=True))

    def _empty(self) -> pa.Table:
        return self.schema.empty_table()

    def _checked(self, rows: pa.Table) -> pa.Table:
        if not rows.schema.equals(self.schema):
            raise TypeError(f'rows of state "{self.name}" must be of {self.schema}, not {rows.schema}')
        return rows.replace_schema_metadata(None)


# --- serialized rows: Arrow record batch messages without the schema ------------------------------------------


class StateSchemaError(RuntimeError):
    """Raised when the stored state has other columns than the query that continues from it needs."""


def whole(rows: pa.Table) -> pa.RecordBatch:
    """The rows as one batch, whose slices share its memory."""
    batches = rows.combine_chunks().to_batches()
    assert len(batches) <= 1, "more than 2 GiB of text or lists in one entry of state"
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


def divided(rows: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    """Rows that have ``size`` bytes as batches of equal length, each of which has about MOST_BYTES at most."""
    step = max(1, -(-rows.num_rows // max(1, -(-size // MOST_BYTES))))
    return [rows.slice(begin, step) for begin in range(0, rows.num_rows, step)] or [rows]


def encoded(rows: pa.RecordBatch) -> list[bytes]:
    """Rows as values of the store: one, or more where they are large."""
    value = encode(rows)
    if (size := len(value)) <= MOST_BYTES:
        return [value]
    del value  # before as much is made again
    return [*map(encode, divided(rows, size))]


def encode(rows: pa.RecordBatch) -> bytes:
    """Rows as an Arrow record batch message without the schema."""
    data: bytes = rows.serialize().to_pybytes()
    return data


def decode(entry: bytes | memoryview | None, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of an entry; they share memory with the bytes."""
    assert entry is not None, "the index names an entry that the store does not have"
    return pa.ipc.read_record_batch(pa.py_buffer(entry), schema)


def fingerprint(schema: pa.Schema) -> int:
    """A 63-bit hash of the names and types of a schema's columns."""
    text = "\n".join(f"{column.name} {column.type}" for column in schema)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def check_fingerprint(stored: int, schema: pa.Schema, name: str) -> None:
    """Raises StateSchemaError if the ``stored`` fingerprint is not that of the schema. ``name``: the part of the state,
    for the message.
    """
    if stored != fingerprint(schema):
        columns = ", ".join(f"{column.name} {column.type}" for column in schema)
        raise StateSchemaError(f'stored state "{name}" has other columns than the query, which has {columns}')


def chunk_key(name: str, number: int, chunk: int) -> StateKey:
    """The state key of the chunk with index ``chunk`` of the entry with the id ``number``."""
    return f"{name}/{chunk}", number


def chunk_keys(name: str, number: int, count: int, start: int = 0) -> list[StateKey]:
    """The state keys of the chunks ``start`` to ``count`` (exclusive) of the entry with the id ``number``."""
    return [chunk_key(name, number, chunk) for chunk in range(start, count)]
