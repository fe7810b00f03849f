"""The search for matches, breadth first: many partial matches are mapped to one row more each at once.

A *partial match* is one way to map the rows from the start of a match on. Those with the same start are in order of
preference. When one of them is complete, all less preferred ones are dropped, and the match is decided when no more
preferred one remains. The result is the match that backtracking, trying one mapping after another, would find first.

There are two orders. *By start*: the matches of all rows begin at once, so there are as many steps as the longest match
has rows, however many rows a key has. This finds also matches that begin within others and are not emitted. *By row*:
all keys take their next row at once, so there are as many steps as a key has rows, but a match that was found ends the
search of those that begin within it, and partial matches that continue alike are joined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
import pyarrow as pa

from sqlstream.udfs.match.automaton import Automaton
from sqlstream.udfs.match.definitions import NO_ROW, ROOT, Definitions, Flags, Indices, PathTree, RowsByKey
from sqlstream.udfs.match.mapper import RowMapper
from sqlstream.udfs.match.partial_matches import Accumulators, BestMatches, PartialMatches, together

FEW_ROWS = 4
"""Keys of so few rows are searched by row."""

MOST_MAPPED, STEP_WORTH = 8, 500
"""A search by start is given up, if one by row may take less work, when it has mapped ``MOST_MAPPED`` rows for each row
of its input and ``STEP_WORTH`` rows for each step of a search by row, which takes about as long if few rows are mapped
in it."""

STEPS_BEFORE_REPEATS = 4
"""After so many steps rows that repeat the last variable of a partial match are mapped together."""

MOST_TRIED = 1 << 16
"""So many rows at most are tried together."""


@dataclass(frozen=True)
class Search:
    """Searches the matches of a pattern.

    ``skips_matched``: the next match begins after the last row of the previous one. ``within``: the exclusive limit in
    microseconds from the first to the last row of a match; None without a limit.
    """

    definitions: Definitions
    skips_matched: bool
    within: int | None

    def run(
        self, ordered: RowsByKey, partial_matches: PartialMatches, ends: BestMatches, tree: PathTree
    ) -> PartialMatches:
        """Maps new rows, which are ``[next, ready)`` of each key in ``ordered``, to variables. Continues the
        ``partial_matches``, writes complete matches to ``ends`` and all paths to ``tree``. Returns the partial matches
        that remain.
        """
        most = int((ordered.ready - ordered.next).max(initial=0))
        if most == 0:
            return partial_matches
        mapper = RowMapper(self.definitions, self.within, ordered, ends, tree)
        if most > FEW_ROWS:
            return _ByStart(self, mapper).partial_matches(partial_matches)
        return _ByRow(self, mapper).partial_matches(partial_matches, np.arange(len(ordered.begin))).by_start()

    def begun(self, rows: Indices) -> PartialMatches:
        """Begins a partial match at each row index in ``rows``: returns as many partial matches, which have no rows
        yet.
        """
        count = len(rows)
        none = np.zeros(count, np.int64)
        accumulators = {v: table.take(pa.array(none)) for v, table in self._nothing.items()}
        registers = self.definitions.registers.empty(count)
        place, node = np.full(count, self.automaton.start), np.full(count, ROOT)
        return PartialMatches(rows, rows - 1, place, node, registers, accumulators)

    def joined(self, partial_matches: PartialMatches, ordered: RowsByKey) -> PartialMatches:
        """The earliest of the partial matches of each key that continue alike, if it can represent the others. All are
        at the last mapped row of their key, and none begins within a match that is emitted.
        """
        return partial_matches.distinct(ordered.key[partial_matches.start]) if self.joins_starts else partial_matches

    @property
    def automaton(self) -> Automaton:
        """The automaton of the pattern."""
        return self.definitions.automaton

    @cached_property
    def _nothing(self) -> Accumulators:
        """The accumulators of no rows."""
        empty = self.definitions.input.empty_table()
        return {v: a.lift(empty, np.zeros(0, np.int64), 1) for v, a in self.definitions.aggregates.items()}

    @cached_property
    def joins_starts(self) -> bool:
        """True if partial matches of a key that differ only in their start can be represented by the earliest one.

        They continue in the same way, and the match of the earliest one covers the starts of the others, at which no
        match may begin then.
        """
        return self.skips_matched and self.within is None and not self.definitions.reads_start


# --- by row ---------------------------------------------------------------------------------------------------


class _ByRow:
    def __init__(self, search: Search, mapper: RowMapper) -> None:
        self._search = search
        self._mapper = mapper

    def partial_matches(self, partial_matches: PartialMatches, keys: Indices) -> PartialMatches:
        """The partial matches that remain after all new rows of these keys; ``partial_matches`` are of these keys."""
        ordered, may_begin = self._mapper.ordered, self._mapper.may_begin
        counts = ordered.ready - ordered.next
        own = counts[keys]
        keys = keys[np.argsort(-own, kind="stable")]
        left = len(keys) - np.searchsorted(np.sort(own), np.arange(int(own.max())), side="right")
        waiting: list[PartialMatches] = []
        busy = len(keys)
        for step, now_busy in enumerate(left.tolist()):
            if now_busy < busy:
                has_row = counts[ordered.key[partial_matches.start]] > step
                waiting.append(partial_matches.where(~has_row))
                partial_matches, busy = partial_matches.where(has_row), now_busy
            rows = ordered.next[keys[:busy]] + step
            begun = rows[may_begin[rows]]
            if len(begun):
                partial_matches = together([partial_matches, self._search.begun(begun)])
            if len(partial_matches):
                partial_matches = self._mapper.mapped(
                    partial_matches,
                    drops_overtaken=self._search.skips_matched,
                    joins_starts=self._search.joins_starts,
                )
        return together([*waiting, partial_matches])


# --- by start -------------------------------------------------------------------------------------------------


class _ByStart:
    def __init__(self, search: Search, mapper: RowMapper) -> None:
        self._search = search
        self._mapper = mapper
        self._ordered = mapper.ordered
        self._ends = mapper.ends
        self._stop = mapper.ordered.ready[mapper.ordered.key]
        self._work = 0  # the number of rows that were mapped
        steps = int((mapper.ordered.ready - mapper.ordered.next).max())
        self._most_work = MOST_MAPPED * len(mapper.ordered) + STEP_WORTH * steps
        self._reach = 4  # how many rows of a partial match are tried together

    def partial_matches(self, stored: PartialMatches) -> PartialMatches:
        """The partial matches that remain after all new rows; those in ``stored`` began earlier."""
        before = self._ends.last.copy(), self._ends.node.copy()
        waiting, partial_matches = self._mapped(together([stored, self._begun()]).by_start())
        if not len(partial_matches):
            return waiting
        # The keys that are not done begin anew.
        is_left = np.zeros(len(self._ordered.begin), np.bool_)
        is_left[self._ordered.key[partial_matches.start]] = True
        left = is_left[self._ordered.key]
        self._ends.last[left], self._ends.node[left] = before[0][left], before[1][left]
        by_row = _ByRow(self._search, self._mapper)
        continued = by_row.partial_matches(stored.where(left[stored.start]), np.flatnonzero(is_left))
        return together([waiting.where(~left[waiting.start]), continued]).by_start()

    def _begun(self) -> PartialMatches:
        rows = np.arange(len(self._ordered))
        is_new = (rows >= self._ordered.next[self._ordered.key]) & (rows < self._stop)
        return self._search.begun(np.flatnonzero(is_new & self._mapper.may_begin))

    def _mapped(self, partial_matches: PartialMatches) -> tuple[PartialMatches, PartialMatches]:
        """Maps rows until each partial match is decided or has none left. Returns those that wait for more rows, and
        those at which the search was given up, because it has taken too much work."""
        waiting = [partial_matches.take(np.zeros(0, np.int64))]
        first = self._first(partial_matches.start)
        for step in count():
            if step >= STEPS_BEFORE_REPEATS:
                partial_matches = self._repeated(partial_matches)
            is_kept = self._is_kept(partial_matches.start, first)
            has_row = partial_matches.row + 1 < self._stop[partial_matches.start]
            if not has_row.all():
                waiting.append(partial_matches.where(~has_row & is_kept))
            partial_matches = partial_matches.where(has_row & is_kept)
            self._work += len(partial_matches)
            gives_up = self._search.skips_matched and self._work > self._most_work
            if gives_up or not len(partial_matches):
                break
            partial_matches = self._mapper.mapped(partial_matches)
        return together(waiting).by_start(), partial_matches

    def _repeated(self, partial_matches: PartialMatches) -> PartialMatches:
        """Maps several rows at once to the last variable of partial matches that can only continue with it."""
        start = partial_matches.start
        left = self._stop[start] - 1 - partial_matches.row
        repeats = self._mapper.definitions.repeats[partial_matches.place] & (left > 0)
        repeats[1:] &= start[1:] != start[:-1]
        repeats[:-1] &= start[1:] != start[:-1]
        chosen = np.flatnonzero(repeats)
        if not len(chosen):
            return partial_matches
        ahead = np.minimum(left[chosen], min(self._reach, max(MOST_TRIED // len(chosen), 1)))
        steps = self._mapper.repeated(partial_matches.take(chosen), ahead)
        tried, done = int(ahead.sum()), int(steps.sum())
        self._work += tried
        self._reach = self._reach * 2 if 2 * done > tried else max(self._reach // 2, 1)
        chosen, steps = chosen[steps > 0], steps[steps > 0]
        row, node = partial_matches.row.copy(), partial_matches.node.copy()
        row[chosen] += steps
        node[chosen] = self._mapper.tree.repeat(node[chosen], partial_matches.place[chosen], steps)
        ended = chosen[self._search.automaton.may_end[partial_matches.place[chosen]]]
        self._ends.last[start[ended]], self._ends.node[start[ended]] = row[ended], node[ended]
        return replace(partial_matches, row=row, node=node)

    def _first(self, start: Indices) -> Indices:
        """For each key the row at which the first of its matches begins."""
        first = np.full(len(self._ordered.begin), NO_ROW)
        first[self._ordered.key[start[::-1]]] = start[::-1]
        return first

    def _is_kept(self, start: Indices, first: Indices) -> Flags:
        """False for partial matches that begin within the first match of their key, as far as it was found. This match
        is emitted, while others may begin within an earlier one.
        """
        if not self._search.skips_matched:
            return np.ones(len(start), np.bool_)
        first = first[self._ordered.key[start]]
        return np.asarray((start <= first) | (start > self._ends.last[first]))
