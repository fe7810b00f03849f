"""MATCH_NUMBER(): how many matches each key has had."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import KEY_HASH, Store
from sqlstream.udfs.keys import places
from sqlstream.udfs.match.line import Indices, Line
from sqlstream.udfs.state.keyed import KeyedState

COUNT = "__count"


@dataclass(frozen=True)
class Numbers:
    input: pa.Schema
    keys: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self._names), (COUNT, pa.int64())])

    def next(self, line: Line, key: Indices, number: Indices, store: Store) -> Indices:
        """The numbers of matches, from their keys and their numbers in this call, which begin with 0."""
        state = KeyedState(store, "numbers", self.schema)
        keys, counts = np.unique(key, return_counts=True)
        named = line.table.select(self._names).take(pa.array(line.begin[keys]))
        stored = state.load(named.column(KEY_HASH).to_numpy())
        row = places(named, stored, self._names)
        before = np.append(stored.column(COUNT).to_numpy(), 0)[row]
        others = np.ones(stored.num_rows, np.bool_)
        others[row[row >= 0]] = False
        changed = named.append_column(COUNT, pa.array(before + counts))
        state.replace(pa.concat_tables([changed, stored.filter(pa.array(others))]).cast(self.schema))
        state.flush()
        return np.asarray(before[np.searchsorted(keys, key)] + number + 1)

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys((KEY_HASH, *self.keys)))
