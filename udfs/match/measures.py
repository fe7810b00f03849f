"""MEASURES: values in rows of matches, and aggregates over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.match.automaton import Automaton
from sqlstream.udfs.match.line import NO_ROW, Indices, Line
from sqlstream.udfs.match.matches import Mapping
from sqlstream.udfs.match.operands import Aggregated, Classifier, Mapped, MatchNumber, Measure
from sqlstream.udfs.windows.merging import merge_ranges
from sqlstream.udfs.windows.ranges import Ranges


@dataclass(frozen=True)
class Measured:
    """Measures at some rows of matches. ``match``: that of each of them; ``row``: which of the rows of all matches, one
    after the other, it is. ``number``: that of each match among those of its key."""

    line: Line
    matches: Mapping
    automaton: Automaton
    match: Indices
    row: Indices
    number: Indices

    def columns(self, measures: Sequence[Measure]) -> list[pa.Array]:
        return [self._column(measure) for measure in measures]

    def rows(self) -> Indices:
        """The rows of the line at which it measures."""
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
