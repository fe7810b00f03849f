"""The result of a join as SQL defines it: all rows of one list beside all rows of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from sqlstream.udfs.joins import JoinKind

Row = tuple[object, ...]
Matches = Callable[[Row, Row], bool]


def joined(
    kind: JoinKind, left: Iterable[Row], right: Iterable[Row], matches: Matches, widths: tuple[int, int]
) -> Counter[Row]:
    """The rows of the join of two multisets, whose rows have so many columns."""
    return Counter(_joined(kind, list(left), list(right), matches, widths))


def _joined(
    kind: JoinKind, left: list[Row], right: list[Row], matches: Matches, widths: tuple[int, int]
) -> Iterator[Row]:
    of_left, of_right = (None,) * widths[0], (None,) * widths[1]
    met = [[matches(one, other) for other in right] for one in left]
    pads_left, pads_right = kind.padded
    if not kind.pairs:
        yield from (row for row, actual in zip(left, met, strict=True) if any(actual) is (kind is JoinKind.SEMI))
        return
    for row, actual in zip(left, met, strict=True):
        yield from (row + other for other, is_met in zip(right, actual, strict=True) if is_met)
        if pads_left and not any(actual):
            yield row + of_right
    if pads_right:
        yield from (of_left + row for j, row in enumerate(right) if not any(actual[j] for actual in met))
