"""Patterns as automata: what follows on what, in the order of preference."""

from __future__ import annotations

import pytest

from sqlstream.planner.match_patterns import MOST_PLACES, TooManyPlaces, automaton_of
from tests.udfs.match.test_kernel import pattern_of

END = -1


@pytest.mark.parametrize(
    ("pattern", "first", "follow"),
    [
        ("A B", [0], [[1], [END]]),
        ("A | B", [0, 1], [[END], [END]]),
        ("A B* C", [0], [[1, 2], [1, 2], [END]]),
        ("A B*? C", [0], [[2, 1], [2, 1], [END]]),
        ("A+", [0], [[1, END], [1, END]]),
        ("A+?", [0], [[END], [END]]),
        ("A B?", [0], [[1, END], [END]]),
        ("A{2}", [0], [[1], [END]]),
        ("A{1,3}", [0], [[1, END], [2, END], [END]]),
        ("(A? | B)* C", [0, 2, 1], [[0, 2, 1], [0, 2, 1], [END]]),
        ("(A*)* B", [0, 1], [[0, 1], [END]]),
    ],
)
def test_what_follows(pattern, first, follow):
    automaton = automaton_of(pattern_of(pattern))
    ends = zip(automaton.follow, automaton.ends, strict=True)
    assert [[*places, *([END] if is_end else [])] for places, is_end in ends] == follow
    assert list(automaton.first) == first


@pytest.mark.parametrize("pattern", ["A*", "A?", "A? B*", "(A | B*)", "A{,2}", "A*?"])
def test_patterns_that_match_nothing(pattern):
    assert automaton_of(pattern_of(pattern)).matches_nothing


@pytest.mark.parametrize(
    ("pattern", "one"), [("A B C", True), ("A (B | C)", True), ("A | B C", False), ("A B?", False), ("A B+", False)]
)
def test_matches_of_one_length(pattern, one):
    assert automaton_of(pattern_of(pattern)).has_one_length == one


def test_large_bounds_are_refused():
    assert len(automaton_of(pattern_of(f"A{{{MOST_PLACES}}}")).variables) == MOST_PLACES
    with pytest.raises(TooManyPlaces):
        automaton_of(pattern_of(f"A{{{MOST_PLACES + 1}}}"))
