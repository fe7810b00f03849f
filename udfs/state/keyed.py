"""Rows by key: one row per key or window, in buckets by hash. A batch reads and writes the buckets of its keys."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import KEY_HASH, Domain, StateKey, Store
from sqlstream.udfs.state.buckets import (
    CHUNKS,
    EVENT,
    LOW,
    NUMBER,
    PROCESSING,
    ROWS,
    Buckets,
    cut,
    earliest,
    joined,
    split,
    splits,
)
from sqlstream.udfs.state.chunked import MOST_CHUNKS
from sqlstream.udfs.state.chunks import chunk_key, chunk_keys, decode, encode

BUCKET_ROWS = 512
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
        self._tables: dict[int, pa.Table] = {}
        self._appended: dict[int, list[pa.Table]] = {}
        self._replaced: set[int] = set()

    def load(self, hashes: np.ndarray) -> pa.Table:
        """All rows of the buckets that hold these hashes: a superset of the rows of their keys."""
        return self._load(np.unique(self._buckets().positions(hashes)))

    def load_all(self) -> pa.Table:
        return self._load(np.arange(len(self._buckets().index)))

    def due(self, domain: Domain, time: int) -> pa.Table:
        """All rows of the buckets that have a timer up to this time: a superset of the rows that are due."""
        return self._load(self._buckets().due(domain, time))

    def loaded(self) -> pa.Table:
        """The rows of all buckets that were loaded since the last ``flush``, as replaced and appended since."""
        return joined([self._table(position) for position in self._tables], self.schema)

    def replace(self, rows: pa.Table) -> None:
        """The new contents of all loaded buckets. Rows that are not given are gone."""
        rows = self._checked(rows)
        parts = cut(rows, self._buckets().positions(self._places(rows)))
        assert parts.keys() <= self._tables.keys(), "rows of keys whose buckets are not loaded"
        for position in self._tables:
            self._replace(position, parts.get(position, self._empty))

    def append(self, rows: pa.Table) -> None:
        """Adds rows, behind those of their buckets, without reading them."""
        rows = self._checked(rows)
        index = self._buckets()
        for position, part in cut(rows, index.positions(self._places(rows))).items():
            self._appended.setdefault(position, []).append(part)
            entry = index.index[position]
            entry[[EVENT, PROCESSING]] = np.minimum(entry[[EVENT, PROCESSING]], earliest(part))

    def next_timer(self, domain: Domain) -> int:
        """The earliest timer of all rows, from the index; END_OF_TIME for none."""
        return self._buckets().next_timer(domain)

    def rows(self) -> int:
        """The number of all rows as of the last ``flush``, from the index."""
        return int(self._buckets().index[:, ROWS].sum())

    def flush(self) -> None:
        """Writes all changes in one call of the store, if there are any."""
        rewritten = sorted(filter(self._is_rewritten, self._tables.keys() | self._appended.keys()))
        extended = [position for position in self._appended if position not in rewritten]
        changes: dict[StateKey, bytes | None] = {}
        added: list[list[int]] = []
        for position in extended:
            changes |= self._extend(position)
        for group in self._groups(rewritten):
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
        found = [int(position) for position in positions]
        self._fetch([position for position in found if position not in self._tables])
        return joined([self._table(position) for position in found], self.schema)

    def _fetch(self, positions: list[int]) -> None:
        keys = {position: self._keys(position) for position in positions}
        wanted = [key for of_bucket in keys.values() for key in of_bucket]
        found = dict(zip(wanted, self._store.get(wanted), strict=True)) if wanted else {}
        for position, of_bucket in keys.items():
            self._tables[position] = decode((found[key] for key in of_bucket), self.schema)

    def _keys(self, position: int, start: int = 0) -> list[StateKey]:
        entry = self._buckets().index[position]
        return chunk_keys(self.name, int(entry[NUMBER]), int(entry[CHUNKS]), start)

    def _table(self, position: int) -> pa.Table:
        return joined([self._tables[position], *self._appended.get(position, ())], self.schema)

    def _replace(self, position: int, rows: pa.Table) -> None:
        unchanged = rows.num_rows == self._tables[position].num_rows and rows.equals(self._tables[position])
        if not unchanged:
            self._tables[position] = rows
            self._replaced.add(position)
        self._appended.pop(position, None)
        self._buckets().index[position, [EVENT, PROCESSING]] = earliest(rows)

    # --- writing ----------------------------------------------------------------------------------------------

    def _is_rewritten(self, position: int) -> bool:
        """Replaced buckets, loaded ones that overflow or have many chunks, and appends to empty buckets."""
        entry = self._buckets().index[position]
        if position not in self._tables:
            return int(entry[ROWS]) == 0
        if position in self._replaced or entry[CHUNKS] > MOST_CHUNKS:
            return True
        return splits(self._places(self._table(position)), self._bucket_rows)

    def _extend(self, position: int) -> dict[StateKey, bytes | None]:
        rows = pa.concat_tables(self._appended[position])
        entry = self._buckets().index[position]
        key = chunk_key(self.name, int(entry[NUMBER]), int(entry[CHUNKS]))
        entry[[ROWS, CHUNKS]] += (rows.num_rows, 1)
        return {key: encode(rows)}

    def _groups(self, positions: list[int]) -> list[list[int]]:
        """Neighbours whose rows together fill less than half a bucket become one."""
        groups: list[list[int]] = []
        filled = 0
        for position in positions:
            rows = self._rewritten_rows(position).num_rows
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
        rows = joined([self._rewritten_rows(position) for position in group], self.schema)
        low, number = (int(value) for value in index.index[group[0], [LOW, NUMBER]])
        index.index[group, ROWS] = 0
        for i, (part_low, part) in enumerate(self._split(rows, low)):
            own = index.new_number() if i else number
            added.append([part_low, own, part.num_rows, 1, *earliest(part)])
            changes[chunk_key(self.name, own, 0)] = encode(part)
        return changes

    def _split(self, rows: pa.Table, low: int) -> list[tuple[int, pa.Table]]:
        return split(rows, self._places(rows), low, self._bucket_rows) if rows.num_rows else []

    def _places(self, rows: pa.Table) -> np.ndarray:
        return np.asarray(rows.column(self._by).to_numpy())

    def _rewritten_rows(self, position: int) -> pa.Table:
        if position not in self._tables:
            self._tables[position] = self._empty
        return self._table(position)

    def _forget(self) -> None:
        self._tables.clear()
        self._appended.clear()
        self._replaced.clear()

    @cached_property
    def _empty(self) -> pa.Table:
        """Made once: Arrow takes as long for an empty table as for a bucket of rows."""
        return self.schema.empty_table()

    def _checked(self, rows: pa.Table) -> pa.Table:
        if not rows.schema.equals(self.schema):
            raise TypeError(f'rows of state "{self.name}" must be of {self.schema}, not {rows.schema}')
        return rows.replace_schema_metadata(None)
