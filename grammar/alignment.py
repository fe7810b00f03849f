"""Which words of a text are which words of the same text written otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

_WINDOW = 200


def aligned(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of indices of equal words, both ascending.

    ``difflib`` finds the longest common runs, in quadratic time; so it sees a window at a time, which moves on behind
    what is equal anyway. Texts of up to a window are aligned as a whole.
    """
    if max(len(one), len(two)) <= _WINDOW:
        return _matched(one, two)
    pairs: list[tuple[int, int]] = []
    a = b = 0
    while a < len(one) and b < len(two):
        if one[a] == two[b]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
            continue
        matched = [(a + i, b + j) for i, j in _matched(one[a : a + _WINDOW], two[b : b + _WINDOW])]
        rest = max(len(one) - a, len(two) - b) <= _WINDOW
        # What lies behind the window may fit better to what is in its second half.
        near = matched if rest else [(i, j) for i, j in matched if max(i - a, j - b) < _WINDOW // 2]
        pairs += near
        if rest:
            break
        a, b = (near[-1][0] + 1, near[-1][1] + 1) if near else (a + _WINDOW // 2, b + _WINDOW // 2)
    return pairs


def _matched(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int]]:
    blocks = SequenceMatcher(None, one, two, autojunk=False).get_matching_blocks()
    return [(a + i, b + i) for a, b, size in blocks for i in range(size)]
