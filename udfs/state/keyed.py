"""Rows by key: one row per key or window, in buckets by hash. A batch reads and writes the buckets of its keys."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, Domain, StateKey, Store
from sqlstream.udfs.state.buckets import (
    CHUNKS,
    EVENT,
    LOW,
    NUMBER,
    PROCESSING,
    ROWS,
    Buckets,
    Piece,
    cut,
    split,
    splits,
)
from sqlstream.udfs.state.chunked import MOST_CHUNKS
from sqlstream.udfs.state.chunks import chunk_key, chunk_keys, decode, encode, whole

BUCKET_ROWS = 1024
"""A bucket of more rows splits. Fewer rows make small batches cheaper, more rows make large batches cheaper."""


class KeyedState:
    """Rows of one schema, found by KEY_HASH and by the timers in EVENT_TIMER and PROCESSING_TIMER, where it has them.

    ``by`` is the column whose ranges the buckets hold, where it is not KEY_HASH.
    An instance serves one call of a kernel. Buckets stay as they are until ``flush``, which writes the changed ones,
    splits those that overflow and joins small ones, all in one call of the store. After it nothing is loaded.
    """

    def __init__(
        self, store: Store, name: str, schema: pa.Schema, bucket_rows: int = BUCKET_ROWS, by: str = KEY_HASH
    ) -> None:
        self.name = name
        self._by = by
        self.schema = schema.remove_metadata()
        self._store = store
        self._bucket_rows = bucket_rows
        self._index: Buckets | None = None
        self._loaded: dict[int, list[pa.RecordBatch]] = {}
        self._appended: dict[int, list[pa.RecordBatch]] = {}
        self._replaced: set[int] = set()

    def load(self, hashes: np.ndarray) -> pa.Table:
        """All rows of the buckets that hold these hashes: a superset of the rows of their keys."""
        return self._load(self._buckets().holding(hashes))

    def load_all(self) -> pa.Table:
        return self._load(np.arange(len(self._buckets().index)))

    def due(self, domain: Domain, time: int) -> pa.Table:
        """All rows of the buckets that have a timer up to this time: a superset of the rows that are due."""
        return self._load(self._buckets().due(domain, time))

    def loaded(self) -> pa.Table:
        """The rows of all buckets that were loaded since the last ``flush``, as replaced and appended since."""
        return self._table(self._loaded)

    def replace(self, rows: pa.Table) -> None:
        """The new contents of all loaded buckets. Rows that are not given are gone."""
        pieces = self._cut(rows)
        assert pieces.keys() <= self._loaded.keys(), "rows of keys whose buckets are not loaded"
        nothing = Piece(whole(self.schema.empty_table()), np.full(2, END_OF_TIME))
        found = [pieces.get(position, nothing) for position in self._loaded]
        if found:
            self._timers(list(self._loaded), np.stack([piece.timers for piece in found]))
        for position, piece in zip(self._loaded, found, strict=True):
            self._replace(position, piece.rows)

    def append(self, rows: pa.Table) -> None:
        """Adds rows, behind those of their buckets, without reading them."""
        pieces = self._cut(rows)
        for position, piece in pieces.items():
            self._appended.setdefault(position, []).append(piece.rows)
        if pieces:
            positions = list(pieces)
            stored = self._buckets().index[positions, EVENT : PROCESSING + 1]
            self._timers(positions, np.minimum(stored, np.stack([piece.timers for piece in pieces.values()])))

    def next_timer(self, domain: Domain) -> int:
        """The earliest timer of all rows, from the index; END_OF_TIME for none."""
        return self._buckets().next_timer(domain)

    def rows(self) -> int:
        """The number of all rows as of the last ``flush``, from the index."""
        return int(self._buckets().index[:, ROWS].sum())

    def flush(self) -> None:
        """Writes all changes in one call of the store, if there are any."""
        rewritten = {
            position for position in self._loaded.keys() | self._appended.keys() if self._is_rewritten(position)
        }
        changes: dict[StateKey, bytes | None] = {}
        added: list[list[int]] = []
        for position in self._appended.keys() - rewritten:
            changes |= self._extend(position)
        for group in self._groups(sorted(rewritten)):
            changes |= self._rewrite(group, added)
        self._forget()
        if changes:
            self._index = self._buckets().with_buckets(added)
            self._store.put({**changes, self._index_key: self._index.to_bytes(self.schema)})

    # --- loading ----------------------------------------------------------------------------------------------

    @property
    def _index_key(self) -> StateKey:
        return self.name, 0

    def _buckets(self) -> Buckets:
        if self._index is None:
            (data,) = self._store.get([self._index_key])
            self._index = Buckets.from_bytes(data, self.schema, self.name)
        return self._index

    def _load(self, positions: np.ndarray) -> pa.Table:
        found: list[int] = positions.tolist()
        self._fetch([position for position in found if position not in self._loaded])
        return self._table(found)

    def _fetch(self, positions: list[int]) -> None:
        keys = {position: self._keys(position) for position in positions}
        wanted = [key for of_bucket in keys.values() for key in of_bucket]
        found = dict(zip(wanted, self._store.get(wanted), strict=True)) if wanted else {}
        for position, of_bucket in keys.items():
            self._loaded[position] = [decode(found[key], self.schema) for key in of_bucket]

    def _keys(self, position: int, start: int = 0) -> list[StateKey]:
        entry = self._buckets().index[position]
        return chunk_keys(self.name, int(entry[NUMBER]), int(entry[CHUNKS]), start)

    def _table(self, positions: Iterable[int]) -> pa.Table:
        batches = [batch for position in positions for batch in self._batches(position)]
        return pa.Table.from_batches(batches, self.schema)

    def _batches(self, position: int) -> list[pa.RecordBatch]:
        return [*self._loaded.get(position, ()), *self._appended.get(position, ())]

    def _rows(self, position: int) -> int:
        return sum(batch.num_rows for batch in self._batches(position))

    def _cut(self, rows: pa.Table) -> dict[int, Piece]:
        batch = whole(self._checked(rows))
        return cut(batch, self._buckets().positions(self._places(batch)))

    def _replace(self, position: int, rows: pa.RecordBatch) -> None:
        old = self._loaded[position]
        if len(old) != 1 or old[0].num_rows != rows.num_rows or not old[0].equals(rows):
            self._loaded[position] = [rows] if rows.num_rows else []
            self._replaced.add(position)
        self._appended.pop(position, None)

    def _timers(self, positions: list[int], timers: np.ndarray) -> None:
        self._buckets().index[positions, EVENT : PROCESSING + 1] = timers

    # --- writing ----------------------------------------------------------------------------------------------

    def _is_rewritten(self, position: int) -> bool:
        """Replaced buckets, loaded ones that overflow or have many chunks, and appends to empty buckets."""
        entry = self._buckets().index[position]
        if position not in self._loaded:
            return int(entry[ROWS]) == 0
        if position in self._replaced or entry[CHUNKS] > MOST_CHUNKS:
            return True
        return self._rows(position) > self._bucket_rows and self._overflows(self._whole([position]))

    def _extend(self, position: int) -> dict[StateKey, bytes | None]:
        rows = _one(self._appended[position])
        entry = self._buckets().index[position]
        key = chunk_key(self.name, int(entry[NUMBER]), int(entry[CHUNKS]))
        entry[[ROWS, CHUNKS]] += (rows.num_rows, 1)
        return {key: encode(rows)}

    def _groups(self, positions: list[int]) -> list[list[int]]:
        """Neighbours whose rows together fill less than half a bucket become one."""
        groups: list[list[int]] = []
        filled = 0
        for position in positions:
            rows = self._rows(position)
            filled += rows
            if groups and groups[-1][-1] == position - 1 and filled <= self._bucket_rows // 2:
                groups[-1].append(position)
            else:
                groups.append([position])
                filled = rows
        return groups

    def _rewrite(self, group: list[int], added: list[list[int]]) -> dict[StateKey, bytes | None]:
        """Writes neighbours as one bucket, or as many as they need, whose index entries it adds."""
        index = self._buckets()
        changes: dict[StateKey, bytes | None] = dict.fromkeys(key for position in group for key in self._keys(position))
        number = int(index.index[group[0], NUMBER])
        for i, (low, part) in enumerate(self._pieces(group)):
            own = index.new_number() if i else number
            added.append([low, own, part.rows.num_rows, 1, *part.timers.tolist()])
            changes[chunk_key(self.name, own, 0)] = encode(part.rows)
        index.index[group, ROWS] = 0
        return changes

    def _pieces(self, group: list[int]) -> list[tuple[int, Piece]]:
        """The rows of neighbours in buckets that are not too large, with their lowest places."""
        rows, low = self._whole(group), int(self._buckets().index[group[0], LOW])
        if self._overflows(rows):
            return split(rows, self._places(rows), low, self._bucket_rows)
        timers = self._buckets().index[group, EVENT : PROCESSING + 1].min(axis=0)
        return [(low, Piece(rows, timers))] if rows.num_rows else []

    def _overflows(self, rows: pa.RecordBatch) -> bool:
        return rows.num_rows > self._bucket_rows and splits(self._places(rows), self._bucket_rows)

    def _whole(self, group: list[int]) -> pa.RecordBatch:
        batches = [batch for position in group for batch in self._batches(position)]
        return _one(batches) if batches else whole(self.schema.empty_table())

    def _places(self, rows: pa.RecordBatch) -> np.ndarray:
        return np.asarray(rows.column(self._by).to_numpy())

    def _forget(self) -> None:
        self._loaded.clear()
        self._appended.clear()
        self._replaced.clear()

    def _checked(self, rows: pa.Table) -> pa.Table:
        if not rows.schema.equals(self.schema):
            raise TypeError(f'rows of state "{self.name}" must be of {self.schema}, not {rows.schema}')
        return rows.replace_schema_metadata(None)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else whole(pa.Table.from_batches(batches))
