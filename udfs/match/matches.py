"""Decided matches in order, where the search continues after each, and their MEASURES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.match.automaton import Automaton, Skip, SkipTo
from sqlstream.udfs.match.definitions import Aggregated, Classifier, Mapped, MatchNumber, Measure
from sqlstream.udfs.match.line import NO_ROW, Flags, Indices, Line, Trail
from sqlstream.udfs.match.search import Ends
from sqlstream.udfs.windows.ranges import Ranges, merge_ranges

ENDLESS = repeating("SS449")


@dataclass(frozen=True)
class Mapping:
    """Matches from row ``start`` to row ``last``. ``places``: the places of their rows, concatenated."""

    start: Indices
    last: Indices
    places: Indices

    @property
    def lengths(self) -> Indices:
        """The number of rows of each match."""
        return self.last - self.start + 1

    @property
    def begin(self) -> Indices:
        """The position of the first row of each match among the rows of all."""
        return np.cumsum(self.lengths) - self.lengths

    def take(self, chosen: Indices) -> Mapping:
        """Some of the matches, by index."""
        begin, lengths = self.begin[chosen], self.lengths[chosen]
        inner = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return Mapping(self.start[chosen], self.last[chosen], self.places[np.repeat(begin, lengths) + inner])


@dataclass(frozen=True)
class Resolved:
    """Decided ``matches`` in order, by key; ``number``: the number of each among those of its key in this call.
    ``kept``: for each row, whether a match that begins there is still needed."""

    matches: Mapping
    number: Indices
    kept: Flags


def resolve(line: Line, ends: Ends, is_open: Flags, trail: Trail, skip: Skip, automaton: Automaton) -> Resolved:
    """The matches that are decided. ``is_open``: for each row, whether a match that begins there may still find a
    better end."""
    starts = np.flatnonzero(is_open | (ends.last != NO_ROW))
    if skip.to is SkipTo.PAST_LAST_ROW and len(starts):
        reached = np.maximum.accumulate(ends.last[starts])
        starts = starts[np.append(True, starts[1:] > reached[:-1])]
    is_decided = ~is_open[starts]
    decided = starts[is_decided]
    lengths = ends.last[decided] - decided + 1
    mapping = Mapping(decided, ends.last[decided], trail.paths(ends.node[decided], lengths))
    target = np.full(len(starts), NO_ROW)
    target[is_decided] = _targets(mapping, skip, automaton)
    at, stop = np.searchsorted(starts, line.begin), np.searchsorted(starts, line.stop)
    active = np.flatnonzero(at < stop)
    rounds: list[Indices] = []
    while len(active):
        active = active[is_decided[at[active]]]
        index = at[active]
        rounds.append(index)
        if skip.variable is not None:
            _require_progress(starts[index], target[index], skip)
        at[active] = np.searchsorted(starts, target[index])
        active = active[at[active] < stop[active]]
    kept = np.zeros(len(line), np.bool_)
    kept[starts[np.arange(len(starts)) >= at[line.key[starts]]]] = True
    chosen = np.concatenate([np.zeros(0, np.int64), *rounds])
    number = np.repeat(np.arange(len(rounds)), [len(index) for index in rounds])
    order = np.argsort(chosen)
    place = (np.cumsum(is_decided) - 1)[chosen[order]]
    return Resolved(mapping.take(place), number[order], kept)


def _targets(mapping: Mapping, skip: Skip, automaton: Automaton) -> Indices:
    """The row at which the next match may begin; NO_ROW where no row was mapped to the variable."""
    if skip.to is SkipTo.PAST_LAST_ROW:
        return mapping.last + 1
    if skip.to is SkipTo.NEXT_ROW:
        return mapping.start + 1
    assert skip.variable is not None, "FIRST and LAST are those of a variable"
    mapped = np.flatnonzero(automaton.variable_of[mapping.places] == automaton.names.index(skip.variable))
    begin = mapping.begin
    index = np.searchsorted(mapped, begin if skip.to is SkipTo.FIRST else begin + mapping.lengths)
    index -= skip.to is SkipTo.LAST
    rows = np.append(mapped, NO_ROW)[index] - begin
    inside = (rows >= 0) & (rows < mapping.lengths)
    return np.where(inside, mapping.start + rows, NO_ROW)


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
    """Measures at some rows of matches. ``match``: the match of each of them; ``row``: its position among the rows of
    all matches. ``number``: the MATCH_NUMBER of each match."""

    line: Line
    matches: Mapping
    automaton: Automaton
    match: Indices
    row: Indices
    number: Indices

    def columns(self, measures: Sequence[Measure]) -> list[pa.Array]:
        """The values of the measures."""
        return [self._column(measure) for measure in measures]

    def rows(self) -> Indices:
        """The rows of the line at which measures are evaluated."""
        return self._all_rows[self.row]

    def _column(self, measure: Measure) -> pa.Array:
        match measure:
            case Mapped():
                rows = self.line.shifted(self._read(measure), measure.shift)
                return self.line.values(measure.column, rows, measure.absent)
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
        rows = self.line.table.take(pa.array(self._all_rows[mapped]))
        aggregates = Aggregates((measure.call,), self.line.table.schema)
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
        """The rows of all matches in the line."""
        matches = self.matches
        return np.arange(len(matches.places)) + np.repeat(matches.start - matches.begin, matches.lengths)
