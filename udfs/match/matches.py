"""Matches that are decided, in the order of their keys' rows, and where the search goes on behind each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.match.automaton import Automaton
from sqlstream.udfs.match.line import NO_ROW, Flags, Indices, Line
from sqlstream.udfs.match.search import Ends
from sqlstream.udfs.match.skipping import Skip, SkipTo
from sqlstream.udfs.match.trail import Trail

ENDLESS = repeating("SS449")


@dataclass(frozen=True)
class Mapping:
    """Stretches of rows from ``start`` to ``last``. ``places``: where their rows were mapped, one after the other."""

    start: Indices
    last: Indices
    places: Indices

    @property
    def lengths(self) -> Indices:
        return self.last - self.start + 1

    @property
    def begin(self) -> Indices:
        """Where the rows of each begin among all of them."""
        return np.cumsum(self.lengths) - self.lengths

    def take(self, chosen: Indices) -> Mapping:
        begin, lengths = self.begin[chosen], self.lengths[chosen]
        inner = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return Mapping(self.start[chosen], self.last[chosen], self.places[np.repeat(begin, lengths) + inner])


@dataclass(frozen=True)
class Resolved:
    """``matches`` in order by key, ``number`` of each among those of its key in this call. ``kept``: by row, whether a
    match that begins there is still wanted."""

    matches: Mapping
    number: Indices
    kept: Flags


def resolve(line: Line, ends: Ends, is_open: Flags, trail: Trail, skip: Skip, automaton: Automaton) -> Resolved:
    """``is_open``: by row, whether a match that begins there may still find a better end."""
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
