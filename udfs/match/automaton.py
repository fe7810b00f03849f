"""A pattern as an automaton: which variable a row may be mapped to after which, in order of preference.

A *place* is an occurrence of a variable in the pattern, with bounded repetitions written out. After a row was mapped at
a place, the next one may be mapped at one of the places that ``follow``, the preferred one first: this order alone
expresses the preferences of greedy and reluctant repetitions and of alternations. Ending the match is the last choice;
if it is preferred to continuing, the continuations are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the planner makes automata, and does without numpy
    import numpy as np
    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Automaton:
    """The automaton of a row pattern. Its states are called places: each is one position in the pattern at which a
    variable is written, so a variable that is written twice has two places.

    ``variables``: the variable of each place. ``first``: the places where a match may begin. ``follow``: the places
    that may follow each place. ``ends``: whether a match may end after each place. ``matches_nothing``: a match may
    have no rows.
    """

    variables: tuple[str, ...]
    first: tuple[int, ...]
    follow: tuple[tuple[int, ...], ...]
    ends: tuple[bool, ...]
    matches_nothing: bool = False

    @property
    def start(self) -> int:
        """The index of the state in which no row has been mapped yet. It follows those of the states called places,
        which are positions in the pattern.
        """
        return len(self.variables)

    @cached_property
    def fan(self) -> Indices:
        """For each place (position in the pattern), and last for the start, how many places may follow it."""
        return _indices(len(places) for places in (*self.follow, self.first))

    @cached_property
    def targets(self) -> Indices:
        """The places (positions in the pattern) that may follow each place, concatenated; those of place ``p`` begin at
        ``offsets[p]``. Last are the places where a match may begin.
        """
        return _indices(place for places in (*self.follow, self.first) for place in places)

    @cached_property
    def offsets(self) -> Indices:
        """For each place (position in the pattern), and last for the start, where the places that may follow it begin
        in ``targets``.
        """
        return self.fan.cumsum() - self.fan

    @cached_property
    def may_end(self) -> Flags:
        """For each place (position in the pattern) whether a match may end after it: ``ends`` as a NumPy array."""
        return _indices(self.ends).astype(bool)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The distinct variables of the pattern, by first appearance."""
        return tuple(dict.fromkeys(self.variables))

    @cached_property
    def variable_of(self) -> Indices:
        """For each place (position in the pattern) the index of its variable in ``names``."""
        return _indices(self.names.index(name) for name in self.variables)

    @cached_property
    def reachable(self) -> Flags:
        """A boolean matrix by place (position in the pattern) and variable: whether a row after the place may be mapped
        to the variable.
        """
        np = _numpy()
        reachable: Flags = np.zeros((len(self.variables), len(self.names)), np.bool_)
        for place in range(len(self.variables)):
            reachable[place, [self.variable_of[p] for p in self._places_after(place)]] = True
        return reachable

    @cached_property
    def has_one_length(self) -> bool:
        """True if all matches have the same number of rows. A match is then decided as soon as its last row is
        known.
        """
        now, ended = set(self.first), False
        for _ in self.variables:
            ends = {self.ends[place] for place in now}
            ended = ends == {True}
            if len(ends) > 1 or (ended and any(self.follow[place] for place in now)):
                return False
            if ended:
                return True
            now = {following for place in now for following in self.follow[place]}
        return False

    def comes_again(self, place: int, among: frozenset[str]) -> bool:
        """True if a match can return to the same ``place`` (position in the pattern) while its rows are mapped only to
        variables in ``among``, as for A in ``(A B)+`` with A and B.
        """
        return place in self._places_after(place, among)

    def _places_after(self, place: int, among: frozenset[str] | None = None) -> set[int]:
        seen: set[int] = set()
        waiting = list(self.follow[place])
        while waiting:
            reached = waiting.pop()
            if reached not in seen and (among is None or self.variables[reached] in among):
                seen.add(reached)
                waiting += self.follow[reached]
        return seen


def _indices(values: Iterable[int]) -> Indices:
    np = _numpy()
    indices: Indices = np.fromiter(values, np.int64)
    return indices


def _numpy() -> Any:
    import numpy  # which the planner, who knows the automaton, does without

    return numpy


# --- AFTER MATCH SKIP: where the next match may begin ---------------------------------------------------------


class SkipTo(Enum):
    """The variants of AFTER MATCH SKIP."""

    PAST_LAST_ROW = "PAST LAST ROW"
    NEXT_ROW = "TO NEXT ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


@dataclass(frozen=True)
class Skip:
    """The clause AFTER MATCH SKIP: where the search for the next match begins."""

    to: SkipTo
    variable: str | None = None

    def __str__(self) -> str:
        return f"{self.to.value} {self.variable}" if self.variable is not None else self.to.value
