"""Matches: decided ones in order, where the search continues after each, their MEASURES; open ones as rows of state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.kernel import KEY_HASH, Store
from sqlstream.udfs.keys import dense_ids, differ, places
from sqlstream.udfs.match.automaton import Automaton, Skip, SkipTo
from sqlstream.udfs.match.definitions import (
    NO_ROW,
    Aggregated,
    Classifier,
    Flags,
    Indices,
    Mapped,
    MatchNumber,
    Measure,
    PathTree,
    RowsByKey,
)
from sqlstream.udfs.match.partial_matches import Accumulators, BestMatches, PartialMatches
from sqlstream.udfs.match.search import Search
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.windows.ranges import Ranges, merge_ranges

ENDLESS = repeating("SS449")


@dataclass(frozen=True)
class Mapping:
    """Complete matches. Each covers the rows of a key from index ``start`` to ``last``, both included. ``places`` has
    the automaton's place (see ``Automaton``) of each of their rows, all matches one after the other.
    """

    start: Indices
    last: Indices
    places: Indices

    @property
    def lengths(self) -> Indices:
        """The number of rows of each match."""
        return self.last - self.start + 1

    @property
    def begin(self) -> Indices:
        """For each match the position of its first row in ``places``."""
        return np.cumsum(self.lengths) - self.lengths

    def take(self, chosen: Indices) -> Mapping:
        """The matches with these indices."""
        begin, lengths = self.begin[chosen], self.lengths[chosen]
        inner = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return Mapping(self.start[chosen], self.last[chosen], self.places[np.repeat(begin, lengths) + inner])


@dataclass(frozen=True)
class Resolved:
    """The result of ``resolve``: the ``matches`` that are final, sorted by key and in order. ``number`` is the index of
    each among the final matches of its key in this call, from 0.

    ``kept``: for each row, whether a match that begins there is still possible.
    """

    matches: Mapping
    number: Indices
    kept: Flags


def resolve(
    ordered: RowsByKey, ends: BestMatches, is_open: Flags, tree: PathTree, skip: Skip, automaton: Automaton
) -> Resolved:
    """Decides which matches are final, and applies AFTER MATCH SKIP. ``ends`` has the best match that begins at each
    row. ``is_open`` is true for rows at which a match begins that later rows may still make longer or better.
    """
    starts = np.flatnonzero(is_open | (ends.last != NO_ROW))
    is_decided, skips_matched = ~is_open[starts], skip.to is SkipTo.PAST_LAST_ROW
    target = _targets(starts, is_decided, ends, tree, skip, automaton)
    key, stop = ordered.key[starts], np.searchsorted(starts, ordered.stop)
    following = np.searchsorted(starts, np.where(target > starts, target, len(ordered)))
    following[following >= stop[key]] = len(starts)
    first = np.searchsorted(starts, ordered.begin)
    is_reached = _reached(following, first[first < stop])
    first_open = np.full(len(stop), len(starts))
    opened = np.flatnonzero(is_reached & ~is_decided)[::-1]
    first_open[key[opened]] = opened
    is_final = np.arange(len(starts)) < first_open[key]
    chosen = np.flatnonzero(is_reached & is_final)
    if skip.variable is not None:
        _require_progress(starts[chosen], target[chosen], skip)
    kept = np.zeros(len(ordered), np.bool_)
    kept[starts[~is_final & is_reached if skips_matched else ~is_final]] = True
    number = np.arange(len(chosen)) - np.searchsorted(key[chosen], key[chosen])
    return Resolved(_mapping(starts[chosen], ends, tree), number, kept)


def _reached(following: Indices, first: Indices) -> Flags:
    """True for the indices that are reached from those in ``first`` by going from each to the ``following`` one. The
    length of ``following`` is the end. Doubles the distance in each round.
    """
    end = len(following)
    is_reached = np.zeros(end + 1, np.bool_)
    is_reached[first] = True
    following = np.append(following, end)
    while (following < end).any():
        is_reached[following[np.flatnonzero(is_reached)]] = True
        following = following[following]
    return is_reached[:end]


def _mapping(starts: Indices, ends: BestMatches, tree: PathTree) -> Mapping:
    """The best complete matches that begin at these rows."""
    last = ends.last[starts]
    return Mapping(starts, last, tree.paths(ends.node[starts], last - starts + 1))


def _targets(
    starts: Indices, is_decided: Flags, ends: BestMatches, tree: PathTree, skip: Skip, automaton: Automaton
) -> Indices:
    """The row from which on the next match may begin, for each match that begins at one of ``starts``; NO_ROW where no
    row was mapped to the variable of ``skip``, and for matches that are open. But with SKIP PAST LAST ROW no match
    begins within what was found of an open one.
    """
    if skip.to is SkipTo.PAST_LAST_ROW:
        return np.asarray(np.maximum(starts, ends.last[starts]) + 1)
    if skip.variable is None:
        return np.where(is_decided, starts + 1, NO_ROW)
    mapping = _mapping(starts[is_decided], ends, tree)
    mapped = np.flatnonzero(automaton.variable_of[mapping.places] == automaton.names.index(skip.variable))
    begin = mapping.begin
    index = np.searchsorted(mapped, begin if skip.to is SkipTo.FIRST else begin + mapping.lengths)
    index -= skip.to is SkipTo.LAST
    rows = np.append(mapped, NO_ROW)[index] - begin
    inside = (rows >= 0) & (rows < mapping.lengths)
    target = np.full(len(starts), NO_ROW)
    target[is_decided] = np.where(inside, mapping.start + rows, NO_ROW)
    return target


def _require_progress(start: Indices, target: Indices, skip: Skip) -> None:
    """ExecutionError SS449, as the standard asks for it."""
    if (target > start).all():
        return
    if (target == start).any():
        message = f"AFTER MATCH SKIP {skip} would look for the next match where the last one begins"
        raise ExecutionError(ENDLESS, message, hint="Write AFTER MATCH SKIP TO NEXT ROW, or name another variable.")
    message = f'AFTER MATCH SKIP {skip}: a match has no row of "{skip.variable}"'
    raise ExecutionError(ENDLESS, message, hint="Name a variable that every match has, or SKIP PAST LAST ROW.")


# --- MEASURES: values in rows of matches, and aggregates over them --------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Computes the values of MEASURES at some rows of matches.

    For each of these rows, ``match`` is the index of its match and ``row`` its position among the rows of all matches.
    ``number`` is the MATCH_NUMBER of each match.
    """

    ordered: RowsByKey
    matches: Mapping
    automaton: Automaton
    match: Indices
    row: Indices
    number: Indices

    def columns(self, measures: Sequence[Measure]) -> list[pa.Array]:
        """The values of the measures: one array per measure, with one value per row."""
        return [self._column(measure) for measure in measures]

    def rows(self) -> Indices:
        """The indices, in ``RowsByKey``, of the rows at which the measures are evaluated."""
        return self._all_rows[self.row]

    def _column(self, measure: Measure) -> pa.Array:
        match measure:
            case Mapped():
                rows = self.ordered.shifted(self._read(measure), measure.shift)
                return self.ordered.values(measure.column, rows, measure.absent)
            case Aggregated():
                return self._aggregated(measure)
            case Classifier():
                places = self.matches.places[self._until(measure.running) - 1]
                return pa.array(self.automaton.names, pa.string()).take(pa.array(self.automaton.variable_of[places]))
            case MatchNumber():
                return pa.array(self.number[self.match])

    def _read(self, measure: Mapped) -> Indices:
        mapped = self._mapped_to(measure.variable)
        begin = np.searchsorted(mapped, self.matches.begin[self.match])
        end = np.searchsorted(mapped, self._until(measure.running))
        index = end - 1 - measure.offset if measure.last else begin + measure.offset
        inside = (index >= begin) & (index < end)
        return np.where(inside, np.append(self._all_rows[mapped], NO_ROW)[np.where(inside, index, -1)], NO_ROW)

    def _aggregated(self, measure: Aggregated) -> pa.Array:
        mapped = self._mapped_to(measure.variable)
        rows = self.ordered.table.take(pa.array(self._all_rows[mapped]))
        aggregates = Aggregates((measure.call,), self.ordered.table.schema)
        begin = np.searchsorted(mapped, self.matches.begin[self.match])
        end = np.searchsorted(mapped, self._until(measure.running))
        if len(self.match) == len(self.matches.start):  # one row for each
            owner = np.repeat(np.arange(len(self.match)), end - begin)
            return aggregates.finish(aggregates.lift(rows, owner, len(self.match))).column(0).combine_chunks()
        parts = aggregates.lift(rows, np.arange(len(mapped)), len(mapped))
        filled = np.flatnonzero(end > begin)
        owner = self._match_of[mapped]
        merged = merge_ranges(aggregates, parts, owner, Ranges(begin[filled], end[filled]))
        whole = aggregates.merge(merged, filled, len(self.match))
        return aggregates.finish(whole).column(0).combine_chunks()

    def _until(self, running: bool) -> Indices:
        """One after the last row that counts, of the rows of all matches."""
        return self.row + 1 if running else (self.matches.begin + self.matches.lengths)[self.match]

    def _mapped_to(self, variable: str | None) -> Indices:
        """The rows of all matches that were mapped to a variable."""
        if variable is None:
            return np.arange(len(self.matches.places))
        names = self.automaton.names
        number = names.index(variable) if variable in names else -1
        return np.flatnonzero(self.automaton.variable_of[self.matches.places] == number)

    @cached_property
    def _match_of(self) -> Indices:
        """The match of each row of all matches."""
        return np.repeat(np.arange(len(self.matches.start)), self.matches.lengths)

    @cached_property
    def _all_rows(self) -> Indices:
        """The rows of all matches in the ordered."""
        matches = self.matches
        return np.arange(len(matches.places)) + np.repeat(matches.start - matches.begin, matches.lengths)


# --- open matches as rows of state: partial matches, and the best end of each match so far ---------------------


START, LAST, PATH = "__start", "__last", "__path"

_PLACE = np.uint16


@dataclass(frozen=True)
class OpenMatches:
    """Stores the matches that are not final: one row of state for each partial match that may continue, and one for
    each complete match that a better one may still replace. For a complete match the column LAST is its last row.

    Input rows are given by their position after the first stored row of the key. PATH has the places of the mapped
    rows, two bytes each. EVENT_TIMER is the time of the last row of a complete match, so that the earliest one is found
    without reading all rows.
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
        """The stored open matches of the key group of ``store``."""
        return KeyedState(store, "matches", self.schema)

    def load(
        self, state: KeyedState, ordered: RowsByKey, ends: BestMatches, tree: PathTree
    ) -> tuple[PartialMatches, pa.Table]:
        """Loads the open matches of the keys of ``ordered``. Complete ones are written to ``ends``, and the paths of
        all are added to ``tree``.

        Returns a pair: the partial matches, and the stored rows of other keys that were loaded with them.
        """
        first = ordered.table.select(self._names).take(pa.array(ordered.begin))
        stored = state.load(first.column(KEY_HASH).to_numpy())
        if not stored.num_rows:
            return self.search.begun(np.zeros(0, np.int64)), stored
        key = self._keys_of(first, stored)
        others = stored.filter(pa.array(key == NO_ROW))
        order = np.argsort(key, kind="stable")
        order = order[key[order] != NO_ROW]
        rows, begin = stored.take(pa.array(order)), ordered.begin[key[order]]
        start = begin + rows.column(START).to_numpy()
        last = rows.column(LAST).to_numpy()
        path = rows.column(PATH).combine_chunks()
        lengths = np.diff(np.frombuffer(path.buffers()[1], np.int32)[path.offset : path.offset + len(path) + 1]) // 2
        places = np.concatenate([np.zeros(0, _PLACE), *(np.frombuffer(part, _PLACE) for part in _bytes(path))])
        node = tree.add_paths(places.astype(np.int64), lengths)
        is_end = last != NO_ROW
        ends.last[start[is_end]], ends.node[start[is_end]] = (begin + last)[is_end], node[is_end]
        is_partial = np.flatnonzero(~is_end)
        place = places[np.cumsum(lengths) - 1].astype(np.int64)
        registers = self._registers(rows, begin)
        row = ordered.next[key[order]] - 1
        partial_matches = PartialMatches(start, row, place, node, registers, self._accumulators(rows))
        return partial_matches.take(is_partial), others

    def rows(
        self, ordered: RowsByKey, partial_matches: PartialMatches, ends: BestMatches, tree: PathTree, kept_from: Indices
    ) -> pa.Table:
        """The table of rows to store for the open matches of the keys of ``ordered``. For each key, input rows before
        the index ``kept_from`` will be dropped.
        """
        ended = np.flatnonzero(ends.last != NO_ROW)
        start = np.concatenate((partial_matches.start, ended))
        last = np.concatenate((np.full(len(partial_matches), NO_ROW), ends.last[ended]))
        node = np.concatenate((partial_matches.node, ends.node[ended]))
        key = ordered.key[start]
        end = np.where(last == NO_ROW, ordered.ready[key] - 1, last)
        lengths = end - start + 1
        paths = tree.paths(node, lengths).astype(_PLACE)
        offsets = np.append(0, np.cumsum(lengths) * paths.itemsize).astype(np.int32)
        path = pa.Array.from_buffers(pa.binary(), len(start), [None, pa.py_buffer(offsets), pa.py_buffer(paths)])
        first = kept_from[key]
        named = ordered.table.select(self._names).take(pa.array(ordered.begin[key]))
        last_time = ordered.time[np.where(last == NO_ROW, 0, last)] if len(ordered) else last
        nothing = self.search.begun(np.zeros(len(ended), np.int64))
        registers = np.concatenate((partial_matches.registers, nothing.registers), axis=1)
        for slot in self.search.definitions.registers.rows:
            registers[slot] = np.where(registers[slot] == NO_ROW, NO_ROW, registers[slot] - first)
        accumulators = [
            column
            for v, table in partial_matches.accumulators.items()
            for column in pa.concat_tables([table, nothing.accumulators[v]]).columns
        ]
        own = [start - first, np.where(last == NO_ROW, NO_ROW, last - first)]
        timer = np.where(last == NO_ROW, 2**63 - 1, last_time)
        columns = [*named.columns, *map(pa.array, own), path, pa.array(timer), *map(pa.array, registers), *accumulators]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _keys_of(self, first: pa.Table, stored: pa.Table) -> Indices:
        """The number of the key of each stored row, NO_ROW for keys that the ordered does not have. ``first`` has one
        row of each key, in the order of their hashes.
        """
        hashes, of_stored = (table.column(KEY_HASH).to_numpy() for table in (first, stored))
        if (hashes[1:] == hashes[:-1]).any():
            return self._keys_by_value(first, stored)
        at = np.minimum(np.searchsorted(hashes, of_stored), len(hashes) - 1)
        is_same = (hashes[at] == of_stored) & ~differ(first.take(pa.array(at)), stored.select(self._names))
        return np.where(is_same, at, NO_ROW)

    def _keys_by_value(self, first: pa.Table, stored: pa.Table) -> Indices:
        """As ``_keys_of``, if keys have the same hash."""
        ids = dense_ids(pa.concat_tables([first, stored.select(self._names)]), self._names).ids
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
    """Stores how many matches each key has had, for MATCH_NUMBER. ``input`` is the schema of the rows, ``keys`` are the
    key columns.
    """

    input: pa.Schema
    keys: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the stored counts."""
        return pa.schema([*(self.input.field(name) for name in self._names), (COUNT, pa.int64())])

    def next(self, ordered: RowsByKey, key: Indices, number: Indices, store: Store) -> Indices:
        """Returns the MATCH_NUMBER of each new match, and stores the new counts. ``key`` is the index of each match's
        key, ``number`` its index among the new matches of that key, from 0.
        """
        state = KeyedState(store, "numbers", self.schema)
        keys, counts = np.unique(key, return_counts=True)
        named = ordered.table.select(self._names).take(pa.array(ordered.begin[keys]))
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
