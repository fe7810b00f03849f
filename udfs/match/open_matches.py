"""Open matches as rows of state: their threads, and the best end found so far for each. Also MATCH_NUMBER()."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import KEY_HASH, Store
from sqlstream.udfs.keys import dense_ids, places
from sqlstream.udfs.match.line import NO_ROW, Indices, Line, Trail
from sqlstream.udfs.match.search import Accumulators, Ends, Search, Threads
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState

START, LAST, PATH = "__start", "__last", "__path"

_PLACE = np.uint16


@dataclass(frozen=True)
class OpenMatches:
    """There is one row per thread, and one per match that has found an end, which is in LAST. Rows are numbered from
    the first stored row of the key; PATH has the places of the mapped rows, two bytes each.

    EVENT_TIMER is the time of the row of the end, so the earliest end is known without reading all rows.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    search: Search

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the stored rows."""
        registers = [pa.field(f"__register_{i}", pa.int64()) for i in range(self.search.definitions.registers.count)]
        accumulators = [
            pa.field(f"__{number}{f.name}", f.type)
            for number, aggregates in enumerate(self.search.definitions.aggregates.values())
            for f in aggregates.accumulators
        ]
        own = [(START, pa.int64()), (LAST, pa.int64()), (PATH, pa.binary()), (EVENT_TIMER, pa.int64())]
        return pa.schema([*(self.input.field(name) for name in self._names), *own, *registers, *accumulators])

    def state(self, store: Store) -> KeyedState:
        """The open matches of a key group."""
        return KeyedState(store, "matches", self.schema)

    def load(self, state: KeyedState, line: Line, ends: Ends, trail: Trail) -> tuple[Threads, pa.Table]:
        """The threads of the keys of a line, and the rows of other keys that were loaded with them."""
        first = line.table.take(pa.array(line.begin))
        stored = state.load(np.unique(first.column(KEY_HASH).to_numpy()))
        if not stored.num_rows:
            return self.search.begun(np.zeros(0, np.int64)), stored
        key = self._keys_of(first, stored)
        others = stored.filter(pa.array(key == NO_ROW))
        order = np.argsort(key, kind="stable")
        order = order[key[order] != NO_ROW]
        rows, begin = stored.take(pa.array(order)), line.begin[key[order]]
        start = begin + rows.column(START).to_numpy()
        last = rows.column(LAST).to_numpy()
        path = rows.column(PATH).combine_chunks()
        lengths = np.diff(np.frombuffer(path.buffers()[1], np.int32)[path.offset : path.offset + len(path) + 1]) // 2
        places = np.concatenate([np.zeros(0, _PLACE), *(np.frombuffer(part, _PLACE) for part in _bytes(path))])
        node = trail.add_paths(places.astype(np.int64), lengths)
        is_end = last != NO_ROW
        ends.last[start[is_end]], ends.node[start[is_end]] = (begin + last)[is_end], node[is_end]
        is_thread = np.flatnonzero(~is_end)
        place = places[np.cumsum(lengths) - 1].astype(np.int64)
        registers = self._registers(rows, begin)
        threads = Threads(start, place, node, registers, self._accumulators(rows))
        return threads.take(is_thread), others

    def rows(self, line: Line, threads: Threads, ends: Ends, trail: Trail, kept_from: Indices) -> pa.Table:
        """The rows to store for the keys of a line, whose rows before ``kept_from`` are dropped."""
        ended = np.flatnonzero(ends.last != NO_ROW)
        start = np.concatenate((threads.start, ended))
        last = np.concatenate((np.full(len(threads), NO_ROW), ends.last[ended]))
        node = np.concatenate((threads.node, ends.node[ended]))
        key = line.key[start]
        end = np.where(last == NO_ROW, line.ready[key] - 1, last)
        lengths = end - start + 1
        paths = trail.paths(node, lengths).astype(_PLACE)
        offsets = np.append(0, np.cumsum(lengths) * paths.itemsize).astype(np.int32)
        path = pa.Array.from_buffers(pa.binary(), len(start), [None, pa.py_buffer(offsets), pa.py_buffer(paths)])
        first = kept_from[key]
        named = line.table.select(self._names).take(pa.array(line.begin[key]))
        told = line.time[np.where(last == NO_ROW, 0, last)] if len(line) else last
        nothing = self.search.begun(np.zeros(len(ended), np.int64))
        registers = np.concatenate((threads.registers, nothing.registers), axis=1)
        for slot in self.search.definitions.registers.rows:
            registers[slot] = np.where(registers[slot] == NO_ROW, NO_ROW, registers[slot] - first)
        accumulators = [
            column
            for v, table in threads.accumulators.items()
            for column in pa.concat_tables([table, nothing.accumulators[v]]).columns
        ]
        own = [start - first, np.where(last == NO_ROW, NO_ROW, last - first)]
        timer = np.where(last == NO_ROW, 2**63 - 1, told)
        columns = [*named.columns, *map(pa.array, own), path, pa.array(timer), *map(pa.array, registers), *accumulators]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _keys_of(self, first: pa.Table, stored: pa.Table) -> Indices:
        """The number of the key of each stored row, NO_ROW for keys that the line does not have."""
        names = self._names
        ids = dense_ids(pa.concat_tables([t.select(names) for t in (first, stored)]), names).ids
        number = np.full(first.num_rows + stored.num_rows, NO_ROW)
        number[ids[: first.num_rows]] = np.arange(first.num_rows)
        return np.asarray(number[ids[first.num_rows :]])

    def _registers(self, rows: pa.Table, begin: Indices) -> Indices:
        registers = self.search.definitions.registers.empty(rows.num_rows)
        for slot in range(len(registers)):
            registers[slot] = rows.column(f"__register_{slot}").to_numpy()
        for slot in self.search.definitions.registers.rows:
            registers[slot] = np.where(registers[slot] == NO_ROW, NO_ROW, registers[slot] + begin)
        return registers

    def _accumulators(self, rows: pa.Table) -> Accumulators:
        return {
            variable: pa.Table.from_arrays(
                [rows.column(f"__{number}{f.name}") for f in aggregates.accumulators], schema=aggregates.accumulators
            )
            for number, (variable, aggregates) in enumerate(self.search.definitions.aggregates.items())
        }

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys((KEY_HASH, *self.keys)))


def _bytes(path: pa.Array) -> list[bytes]:
    """The bytes of all paths, in as many pieces as the buffers have."""
    offsets = np.frombuffer(path.buffers()[1], np.int32)[path.offset : path.offset + len(path) + 1]
    data = path.buffers()[2]
    return [] if data is None else [data.to_pybytes()[int(offsets[0]) : int(offsets[-1])]]


# --- MATCH_NUMBER(): the number of matches of each key so far -------------------------------------------------


COUNT = "__count"


@dataclass(frozen=True)
class Numbers:
    """The number of matches of each key so far. ``input`` has the ``keys``."""

    input: pa.Schema
    keys: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the stored counts."""
        return pa.schema([*(self.input.field(name) for name in self._names), (COUNT, pa.int64())])

    def next(self, line: Line, key: Indices, number: Indices, store: Store) -> Indices:
        """The MATCH_NUMBERs of matches, given their keys and their numbers in this call, from 0."""
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
