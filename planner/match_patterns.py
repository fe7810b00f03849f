"""PATTERN of MATCH_RECOGNIZE as an automaton."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.grammar import nodes as n
from sqlstream.udfs.match.automaton import Automaton

MOST_PLACES = 1000
"""Occurrences of variables in a pattern, repetitions with bounds written out: more are refused."""


class TooManyPlaces(Exception):
    """Raised for a MATCH_RECOGNIZE pattern that is too large: with quantifiers written out (``A{3}`` is ``A A A``) it
    names variables more than MOST_PLACES times.
    """


@dataclass
class _Step:
    """What may come next: ``to`` has the preferred step first. ``place`` is that of a step that maps a row, ``inner``
    that among ``to`` which is one more round of a repetition without bound."""

    to: list[_Step]
    place: int | None = None
    inner: _Step | None = None


def automaton_of(pattern: n.Pattern) -> Automaton:
    """The automaton of a MATCH_RECOGNIZE pattern. Raises TooManyPlaces for one that is too large."""
    built = _Built()
    end = _Step([])
    begin = built.step(pattern, end)
    for number, place in enumerate(reversed(built.places)):
        place.place = number
    first, nothing = _reached(begin, end)
    after = [_reached(place.to[0], end) for place in reversed(built.places)]
    follow, ends = tuple(places for places, _ in after), tuple(is_end for _, is_end in after)
    return Automaton(tuple(reversed(built.variables)), first, follow, ends, nothing)


class _Built:
    """The steps of a pattern, made from its end to its beginning, with a place for each occurrence of a variable, which
    has the name by which it was met first."""

    def __init__(self) -> None:
        self.variables: list[str] = []
        self.places: list[_Step] = []
        self._spelled: dict[str, str] = {}

    def step(self, pattern: n.Pattern, after: _Step) -> _Step:
        match pattern:
            case n.PatternVariable(name=name):
                if len(self.places) == MOST_PLACES:
                    raise TooManyPlaces
                self.variables.append(self._spelled.setdefault(name.casefold(), name))
                self.places.append(_Step([after], place=len(self.places)))
                return self.places[-1]
            case n.PatternSequence(parts=parts):
                for part in reversed(parts):
                    after = self.step(part, after)
                return after
            case n.PatternAlternation(parts=parts):
                return _Step([self.step(part, after) for part in reversed(parts)][::-1])
            case n.PatternRepetition():
                return self._repeated(pattern, after)

    def _repeated(self, pattern: n.PatternRepetition, after: _Step) -> _Step:
        least, end = pattern.least, after
        if pattern.most is None:
            loop = _Step([])
            loop.inner = self.step(pattern.pattern, loop)
            loop.to += _preferred(loop.inner, after, pattern.reluctant)
            after = loop
        else:
            for _ in range(pattern.most - least):
                after = _Step(_preferred(self.step(pattern.pattern, after), end, pattern.reluctant))
        for _ in range(least):
            after = self.step(pattern.pattern, after)
        return after


def _preferred(once_more: _Step, end: _Step, reluctant: bool) -> list[_Step]:
    return [end, once_more] if reluctant else [once_more, end]


def _reached(begin: _Step, end: _Step) -> tuple[tuple[int, ...], bool]:
    """The places that may be reached without a row, in order, and whether the end is; what comes after that does not
    count. A round without a row is the last one of its repetition."""
    places: dict[int, None] = {}
    seen: set[tuple[int, frozenset[int]]] = set()
    waiting: list[tuple[_Step, frozenset[int]]] = [(begin, frozenset())]
    while waiting:
        step, rounds = waiting.pop()
        if (id(step), rounds) in seen:
            continue
        seen.add((id(step), rounds))
        if step is end:
            return tuple(places), True
        if step.place is not None:
            places[step.place] = None
        elif step.inner is None:
            waiting += [(following, rounds) for following in reversed(step.to)]
        else:
            waiting += reversed(_rounds(step, rounds))
    return tuple(places), False


def _rounds(loop: _Step, rounds: frozenset[int]) -> list[tuple[_Step, frozenset[int]]]:
    """The round that a repetition begins and what comes after it; that alone, where the last round had no row."""
    own = id(loop)
    if own in rounds:
        return [(step, rounds - {own}) for step in loop.to if step is not loop.inner]
    return [(step, rounds | {own} if step is loop.inner else rounds) for step in loop.to]
