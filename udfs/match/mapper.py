"""One row more for partial matches: the places to which it can be mapped, the conditions, and the matches that it
completes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import Column
from sqlstream.udfs.match.automaton import Automaton
from sqlstream.udfs.match.definitions import Aggregated, Current, Definitions, Flags, Indices, PathTree, RowsByKey
from sqlstream.udfs.match.partial_matches import Accumulators, BestMatches, PartialMatches, taken


class Continued(NamedTuple):
    """The ways in which partial matches can continue with their next row, in order of preference. For each way: the
    index of the partial match, the row, its place, and the accumulators that include the row.
    """

    parent: Indices
    row: Indices
    place: Indices
    accumulators: Accumulators


@dataclass(frozen=True)
class RowMapper:
    """Maps the next row of each partial match. The rows are those of ``ordered``; complete matches are written to
    ``ends``, and paths to ``tree``. ``within``: the exclusive limit in microseconds from the first to the last row of a
    match; None without a limit.
    """

    definitions: Definitions
    within: int | None
    ordered: RowsByKey
    ends: BestMatches
    tree: PathTree

    @cached_property
    def may_begin(self) -> Flags:
        """One boolean per row: whether it can be the first row of a match."""
        first = np.unique(self._automaton.variable_of[list(self._automaton.first)])
        return np.asarray(np.logical_or.reduce(self._fits[first]))

    def mapped(
        self, partial_matches: PartialMatches, *, drops_overtaken: bool = False, joins_starts: bool = False
    ) -> PartialMatches:
        """The partial matches with one row more each, without those that are decided. Of those with the same start that
        continue alike only the preferred one remains.

        Both flags need partial matches that are all at the same row of their key. ``drops_overtaken``: those that begin
        within a match that was found are dropped. ``joins_starts``: of those of a key that continue alike only the
        earliest remains.
        """
        parent, row, place, accumulators = self.continued(partial_matches)
        if not len(parent):
            return partial_matches.take(parent)
        start, registers = partial_matches.start[parent], partial_matches.registers[:, parent]
        if len(registers):
            registers = self.definitions.registers.mapped(registers, self._automaton.variable_of[place], row)
            self.definitions.registers.forget(registers, place, self.definitions.is_read)
        mapped = PartialMatches(start, row, place, partial_matches.node[parent], registers, accumulators)
        if joins_starts:
            mapped = mapped.distinct(self.ordered.key[start])
        elif (start[1:] == start[:-1]).any():
            mapped = mapped.distinct(start)
        return self._ended(replace(mapped, node=self.tree.add(mapped.node, mapped.place)), drops_overtaken)

    def continued(self, partial_matches: PartialMatches) -> Continued:
        """The ways in which the partial matches can continue with their next row."""
        automaton = self._automaton
        fan = automaton.fan[partial_matches.place]
        parent = np.repeat(np.arange(len(partial_matches)), fan)
        number = np.arange(len(parent)) - np.repeat(np.cumsum(fan) - fan, fan)
        place = automaton.targets[automaton.offsets[partial_matches.place][parent] + number]
        following = partial_matches.row + 1
        row = following[parent]
        fits = self._fits[automaton.variable_of[place], row]
        if self.within is not None:
            time = self.ordered.time
            fits &= (time[following] - time[partial_matches.start] < self.within)[parent]
        fitting = np.flatnonzero(fits)
        parent, row, place = parent[fitting], row[fitting], place[fitting]
        accumulators = self._accumulated(partial_matches.accumulators, parent, place, row)
        meets = self._meets(partial_matches, accumulators, parent, place, row)
        if meets is None or meets.all():
            return Continued(parent, row, place, accumulators)
        kept = np.flatnonzero(meets)
        return Continued(parent[kept], row[kept], place[kept], taken(accumulators, kept))

    def repeated(self, partial_matches: PartialMatches, count: Indices) -> Indices:
        """For each partial match, how many of its next ``count`` rows can only be mapped to its last place, which must
        be one that ``Definitions.repeats``. Each count is at least 1.
        """
        begin = np.cumsum(count) - count
        parent = np.repeat(np.arange(len(count)), count)
        ahead = np.arange(len(parent)) - begin[parent]
        tried = partial_matches.take(parent)
        tried = replace(tried, row=tried.row + ahead)
        continued = self.continued(tried)
        repeats = np.bincount(continued.parent, minlength=len(parent)) == 1
        repeats[continued.parent[continued.place != tried.place[continued.parent]]] = False
        return np.asarray(np.minimum.reduceat(np.where(repeats, count[parent], ahead), begin))

    @property
    def _automaton(self) -> Automaton:
        return self.definitions.automaton

    @cached_property
    def _fits(self) -> Flags:
        return self.definitions.of_rows(self.ordered)

    @cached_property
    def _parts(self) -> Accumulators:
        """The accumulators of each row alone."""
        count = len(self.ordered)
        rows = self.ordered.table
        return {v: a.lift(rows, np.arange(count), count) for v, a in self.definitions.aggregates.items()}

    def _accumulated(self, accumulators: Accumulators, parent: Indices, place: Indices, row: Indices) -> Accumulators:
        """The accumulators of the partial matches with one row more."""
        changed: Accumulators = {}
        for variable, aggregates in self.definitions.aggregates.items():
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
        if not self.definitions.of_matches:
            return None
        meets = np.ones(len(parent), np.bool_)
        for variable, condition in self.definitions.of_matches.items():
            chosen = self._of_variable(place, variable)
            if not len(chosen):
                continue
            own, now = parent[chosen], row[chosen]
            registers, start = partial_matches.registers[:, own], partial_matches.start[own]
            columns: dict[Column, pa.Array] = {}
            finished: dict[str | None, pa.Table] = {}
            for column, operand in self.definitions.reads[variable].items():
                if isinstance(operand, Aggregated):
                    of = operand.variable
                    if of not in finished:
                        chosen_rows = accumulators[of].take(pa.array(chosen))
                        finished[of] = self.definitions.aggregates[of].finish(chosen_rows)
                    columns[column] = finished[of].column(operand.name).combine_chunks()
                    continue
                if isinstance(operand, Current):
                    at = now
                else:
                    at = self.definitions.registers.row_of(operand, registers, variable, now, start)
                columns[column] = self.ordered.values(
                    operand.column, self.ordered.shifted(at, operand.shift), operand.absent
                )
            meets[chosen] = is_true(condition, columns)
        return meets

    def _ended(self, partial_matches: PartialMatches, drops_overtaken: bool) -> PartialMatches:
        """Notes matches that may end with their last row, and gives up partial matches that are less preferred."""
        automaton = self._automaton
        ending = np.flatnonzero(automaton.may_end[partial_matches.place])
        if not len(ending):
            return partial_matches
        start = partial_matches.start[ending]
        best = ending[np.append(True, start[1:] != start[:-1])]
        begun = partial_matches.start[best]
        self.ends.last[begun], self.ends.node[begun] = partial_matches.row[best], partial_matches.node[best]
        dropped = _less_preferred(partial_matches, best)
        dropped[best[automaton.fan[partial_matches.place[best]] == 0]] = True
        if drops_overtaken:
            dropped |= self._overtaken(partial_matches.start, begun)
        return partial_matches.where(~dropped)

    def _overtaken(self, start: Indices, begun: Indices) -> Flags:
        """True for matches that begin within a found one, which is emitted or superseded by an earlier one. ``begun``
        has the starts of the matches that were found.
        """
        key = self.ordered.key
        first = np.full(len(self.ordered.begin), len(self.ordered))
        np.minimum.at(first, key[begun], begun)
        return np.asarray(start > first[key[start]])


def _less_preferred(partial_matches: PartialMatches, best: Indices) -> Flags:
    """True for partial matches that are less preferred than the best one of the same match."""
    begins = np.append(True, partial_matches.start[1:] != partial_matches.start[:-1])
    match = np.cumsum(begins) - 1
    ends_at = np.full(int(match[-1]) + 1, len(partial_matches))
    ends_at[match[best]] = best
    return np.asarray(np.arange(len(partial_matches)) > ends_at[match])
