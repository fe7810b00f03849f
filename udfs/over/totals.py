"""Totals of dropped rows: their number per key, and the accumulators of frames without a start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.kernel import KEY_HASH, Store
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.over.line import Flags, Indices, Line
from sqlstream.udfs.state.keyed import KeyedState

COUNTED = "__counted"
GROUPS = "__groups"


class StoredTotals(NamedTuple):
    """The stored totals of the keys of a line. ``row_of_key``: the row of each key in ``rows``, -1 for none yet."""

    rows: pa.Table
    row_of_key: Indices

    def counted(self, column: str, key: Indices) -> Indices:
        """A count for each of some rows, by their keys."""
        counts = np.append(self.rows.column(column).to_numpy(), 0)
        return np.asarray(counts[self.row_of_key][key], np.int64)


@dataclass(frozen=True)
class Totals:
    """``aggregates`` are those over frames without a start. ``input`` has the keys."""

    input: pa.Schema
    keys: tuple[str, ...]
    aggregates: Aggregates

    @cached_property
    def schema(self) -> pa.Schema:
        own = [self.input.field(name) for name in dict.fromkeys((KEY_HASH, *self.keys))]
        counts = [pa.field(name, pa.int64()) for name in (COUNTED, GROUPS)]
        return pa.schema([*own, *counts, *self.aggregates.accumulators])

    def state(self, store: Store) -> KeyedState:
        return KeyedState(store, "totals", self.schema)

    def load(self, state: KeyedState, first: pa.Table) -> StoredTotals:
        """The totals of some keys; ``first`` has one row of each key."""
        stored = state.load(first.column(KEY_HASH).to_numpy())
        candidates = pa.concat_tables([rows.select(self._names) for rows in (first, stored)])
        ids = dense_ids(candidates, self.keys).ids
        stored_rows = np.full(first.num_rows + stored.num_rows, -1, np.int64)
        stored_rows[ids[first.num_rows :]] = np.arange(stored.num_rows)
        return StoredTotals(stored, stored_rows[: first.num_rows])

    def add(self, state: KeyedState, stored: StoredTotals, rows: pa.Table, line: Line, dropped: Flags) -> None:
        """Puts the dropped rows of a line behind those that were dropped before. ``rows`` are those of the line."""
        gone = np.flatnonzero(dropped)
        keys, ids = np.unique(line.key[gone], return_inverse=True)
        dropped_rows = rows.take(pa.array(gone))
        count = stored.rows.num_rows
        fresh = stored.row_of_key[keys] < 0
        groups = np.where(fresh, count + np.cumsum(fresh) - 1, stored.row_of_key[keys])
        size = count + int(fresh.sum())
        lifted = self.aggregates.lift(dropped_rows, ids, len(keys))
        parts = pa.concat_tables([stored.rows.select(self.aggregates.accumulators.names), lifted])
        merged = self.aggregates.merge(parts, np.concatenate((np.arange(count), groups)), size)
        first = dropped_rows.take(pa.array(np.unique(ids, return_index=True)[1][fresh])).select(self._names)
        named = pa.concat_tables([stored.rows.select(self._names), first])
        counts = [_added(stored.rows.column(COUNTED), ids, groups, size)]
        counts.append(_added(stored.rows.column(GROUPS), ids[line.begins_peers[gone]], groups, size))
        columns = [*named.columns, *map(pa.array, counts), *merged.columns]
        state.replace(pa.Table.from_arrays(columns, schema=self.schema))

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys((KEY_HASH, *self.keys)))


def _added(before: pa.ChunkedArray, ids: Indices, groups: Indices, size: int) -> Indices:
    """The counts with those of more rows, of which ``groups`` tells the place by id."""
    counts = np.zeros(size, np.int64)
    counts[: len(before)] = before.to_numpy()
    counts[groups] += np.bincount(ids, minlength=len(groups))
    return counts
