"""The search for matches: all open matches of all keys take one row at a time, in lock-step.

A *partial match* is one way to map the rows from the start of a match on. Those with the same start are in order of
preference. When one of them is complete, all less preferred ones are dropped, and the match is decided when no more
preferred one remains. The result is the match that backtracking, trying one mapping after another, would find first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import Column
from sqlstream.udfs.match.automaton import Automaton
from sqlstream.udfs.match.definitions import (
    NO_ROW,
    ROOT,
    Aggregated,
    Current,
    Definitions,
    Flags,
    Indices,
    PathTree,
    RowsByKey,
    register_numbers,
)

Accumulators = dict[str | None, pa.Table]


@dataclass(frozen=True)
class PartialMatches:
    """Partial matches that may continue. If rows can be mapped to variables in several ways, several of them begin at
    the same row.

    Each field has one value per partial match; those with the same start are adjacent. ``start``: the index of its
    first row. ``place``: the automaton's place of its last row. ``node``: the path of all its rows, as a node of the
    ``PathTree``. ``registers`` and ``accumulators``: the values that conditions read.
    """

    start: Indices
    place: Indices
    node: Indices
    registers: Indices
    accumulators: Accumulators = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, chosen: Indices) -> PartialMatches:
        """The partial matches with these indices."""
        accumulators = {v: table.take(pa.array(chosen)) for v, table in self.accumulators.items()}
        return PartialMatches(
            self.start[chosen], self.place[chosen], self.node[chosen], self.registers[:, chosen], accumulators
        )

    def where(self, flags: Flags) -> PartialMatches:
        """The partial matches whose flag is set."""
        return self if flags.all() else self.take(np.flatnonzero(flags))


def together(parts: list[PartialMatches]) -> PartialMatches:
    """Concatenates several ``PartialMatches``."""
    if len(parts) == 1:
        return parts[0]
    return PartialMatches(
        np.concatenate([p.start for p in parts]),
        np.concatenate([p.place for p in parts]),
        np.concatenate([p.node for p in parts]),
        np.concatenate([p.registers for p in parts], axis=1),
        {v: pa.concat_tables([p.accumulators[v] for p in parts]) for v in parts[0].accumulators},
    )


@dataclass
class BestMatches:
    """The best complete match so far that begins at each row: ``last`` is the index of its last row, NO_ROW if there is
    no match; ``node`` is the path of its rows in the ``PathTree``.
    """

    last: Indices
    node: Indices

    @staticmethod
    def none(count: int) -> BestMatches:
        """The ``BestMatches`` of ``count`` rows at which no match begins."""
        return BestMatches(np.full(count, NO_ROW, np.int64), np.full(count, ROOT, np.int64))


@dataclass(frozen=True)
class Search:
    """Searches matches of a pattern: it simulates the automaton breadth first, with all partial matches at once.

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
        if not (ordered.ready > ordered.next).any():
            return partial_matches
        return _Run(self, ordered, ends, tree, self.definitions.of_rows(ordered)).partial_matches(partial_matches)

    def begun(self, rows: Indices) -> PartialMatches:
        """Begins a partial match at each row index in ``rows``: returns as many partial matches, which have no rows
        yet.
        """
        count = len(rows)
        none = np.zeros(count, np.int64)
        accumulators = {v: table.take(pa.array(none)) for v, table in self._nothing.items()}
        registers = self.definitions.registers.empty(count)
        return PartialMatches(rows, np.full(count, self.automaton.start), np.full(count, ROOT), registers, accumulators)

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


class _Run:
    def __init__(self, search: Search, ordered: RowsByKey, ends: BestMatches, tree: PathTree, fits: Flags) -> None:
        self._search = search
        self._definitions = search.definitions
        self._automaton = search.automaton
        self._line = ordered
        self._ends = ends
        self._trail = tree
        self._fits = fits
        first = np.unique(self._automaton.variable_of[list(self._automaton.first)])
        self._may_begin: Flags = np.logical_or.reduce(fits[first])
        self._row = ordered.next.copy()  # of each key: the one that is mapped
        self._parts = {
            variable: aggregates.lift(ordered.table, np.arange(len(ordered)), len(ordered))
            for variable, aggregates in self._definitions.aggregates.items()
        }

    def partial_matches(self, partial_matches: PartialMatches) -> PartialMatches:
        ordered = self._line
        counts = ordered.ready - ordered.next
        keys = np.argsort(-counts, kind="stable")
        left = len(keys) - np.searchsorted(np.sort(counts), np.arange(int(counts.max())), side="right")
        waiting: list[PartialMatches] = []
        busy = len(keys)
        for step, now_busy in enumerate(left.tolist()):
            if now_busy < busy:
                has_row = counts[ordered.key[partial_matches.start]] > step
                waiting.append(partial_matches.where(~has_row))
                partial_matches, busy = partial_matches.where(has_row), now_busy
            rows = ordered.next[keys[:busy]] + step
            self._row[keys[:busy]] = rows
            begun = rows[self._may_begin[rows]]
            if len(begun):
                partial_matches = together([partial_matches, self._search.begun(begun)])
            if len(partial_matches):
                partial_matches = self._mapped(partial_matches)
        return together([*waiting, partial_matches])

    def _mapped(self, partial_matches: PartialMatches) -> PartialMatches:
        """The partial matches after one row more."""
        row = self._row[self._line.key[partial_matches.start]]
        if self._search.within is not None:
            in_time = self._line.time[row] - self._line.time[partial_matches.start] < self._search.within
            if not in_time.all():
                partial_matches, row = partial_matches.where(in_time), row[in_time]
        automaton = self._automaton
        fan = automaton.fan[partial_matches.place]
        parent = np.repeat(np.arange(len(partial_matches)), fan)
        number = np.arange(len(parent)) - np.repeat(np.cumsum(fan) - fan, fan)
        place = automaton.targets[automaton.offsets[partial_matches.place][parent] + number]
        fitting = np.flatnonzero(self._fits[automaton.variable_of[place], row[parent]])
        parent, place = parent[fitting], place[fitting]
        row = row[parent]
        accumulators = self._accumulated(partial_matches.accumulators, parent, place, row)
        meets = self._meets(partial_matches, accumulators, parent, place, row)
        if meets is not None and not meets.all():
            kept = np.flatnonzero(meets)
            parent, place, row = parent[kept], place[kept], row[kept]
            accumulators = {v: table.take(pa.array(kept)) for v, table in accumulators.items()}
        if not len(parent):
            return partial_matches.take(parent)
        registers = partial_matches.registers[:, parent]
        if len(registers):
            registers = self._definitions.registers.mapped(registers, automaton.variable_of[place], row)
            self._definitions.registers.forget(registers, place, self._definitions.is_read)
        mapped = PartialMatches(
            partial_matches.start[parent], place, partial_matches.node[parent], registers, accumulators
        )
        distinct = self._distinct(mapped)
        if distinct is not None:
            mapped, row = mapped.take(distinct), row[distinct]
        mapped = replace(mapped, node=self._trail.add(mapped.node, mapped.place))
        return self._ended(mapped, row)

    def _accumulated(self, accumulators: Accumulators, parent: Indices, place: Indices, row: Indices) -> Accumulators:
        """The accumulators of the partial matches with one row more."""
        changed: Accumulators = {}
        for variable, aggregates in self._definitions.aggregates.items():
            before = accumulators[variable].take(pa.array(parent))
            grown = self._of_variable(place, variable)
            parts = pa.concat_tables([before, self._parts[variable].take(pa.array(row[grown]))])
            owner = np.concatenate((np.arange(len(parent)), grown))
            changed[variable] = aggregates.merge(parts, owner, len(parent))
        return changed

    def _of_variable(self, place: Indices, variable: str | None) -> Indices:
        if variable is None:
            return np.arange(len(place))
        names = self._automaton.names
        number = names.index(variable) if variable in names else -1
        return np.flatnonzero(self._automaton.variable_of[place] == number)

    def _meets(
        self, partial_matches: PartialMatches, accumulators: Accumulators, parent: Indices, place: Indices, row: Indices
    ) -> Flags | None:
        """Whether the conditions are true that read what a partial match has mapped before; None for none."""
        if not self._definitions.of_matches:
            return None
        meets = np.ones(len(parent), np.bool_)
        for variable, condition in self._definitions.of_matches.items():
            chosen = self._of_variable(place, variable)
            if not len(chosen):
                continue
            own, now = parent[chosen], row[chosen]
            registers, start = partial_matches.registers[:, own], partial_matches.start[own]
            columns: dict[Column, pa.Array] = {}
            finished: dict[str | None, pa.Table] = {}
            for column, operand in self._definitions.reads[variable].items():
                if isinstance(operand, Aggregated):
                    of = operand.variable
                    if of not in finished:
                        chosen_rows = accumulators[of].take(pa.array(chosen))
                        finished[of] = self._definitions.aggregates[of].finish(chosen_rows)
                    columns[column] = finished[of].column(operand.name).combine_chunks()
                    continue
                if isinstance(operand, Current):
                    at = now
                else:
                    at = self._definitions.registers.row_of(operand, registers, variable, now, start)
                columns[column] = self._line.values(
                    operand.column, self._line.shifted(at, operand.shift), operand.absent
                )
            meets[chosen] = is_true(condition, columns)
        return meets

    def _distinct(self, partial_matches: PartialMatches) -> Indices | None:
        """The first of each group of partial matches that will continue alike; None if all differ."""
        start = partial_matches.start
        if not self._search.joins_starts and (start[1:] != start[:-1]).all():
            return None
        group = self._line.key[start] if self._search.joins_starts else start
        code = group * len(self._automaton.variables) + partial_matches.place
        ordered = np.sort(code)
        if not (ordered[1:] == ordered[:-1]).any():
            return None
        registers = register_numbers(partial_matches.registers)
        order = np.lexsort((registers, code))  # stable
        code, registers = code[order], registers[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (code[1:] != code[:-1]) | (registers[1:] != registers[:-1])
        return np.sort(order[is_first])

    def _ended(self, partial_matches: PartialMatches, row: Indices) -> PartialMatches:
        """Notes matches that may end with the row, and gives up partial matches that are less preferred."""
        automaton = self._automaton
        ending = np.flatnonzero(automaton.may_end[partial_matches.place])
        if not len(ending):
            return partial_matches
        start = partial_matches.start[ending]
        best = ending[np.append(True, start[1:] != start[:-1])]
        begun = partial_matches.start[best]
        self._ends.last[begun], self._ends.node[begun] = row[best], partial_matches.node[best]
        dropped = self._less_preferred(partial_matches, best)
        dropped[best[automaton.fan[partial_matches.place[best]] == 0]] = True
        if self._search.skips_matched:
            dropped |= self._overtaken(partial_matches.start, begun)
        return partial_matches.where(~dropped)

    def _less_preferred(self, partial_matches: PartialMatches, best: Indices) -> Flags:
        """True for partial matches that are less preferred than the best one of the same match."""
        begins = np.append(True, partial_matches.start[1:] != partial_matches.start[:-1])
        match = np.cumsum(begins) - 1
        ends_at = np.full(int(match[-1]) + 1, len(partial_matches))
        ends_at[match[best]] = best
        return np.asarray(np.arange(len(partial_matches)) > ends_at[match])

    def _overtaken(self, start: Indices, begun: Indices) -> Flags:
        """True for matches that begin within a found one, which is emitted or superseded by an earlier one."""
        key = self._line.key
        first = np.full(len(self._line.begin), len(self._line))
        np.minimum.at(first, key[begun], begun)
        return np.asarray(start > first[key[start]])
