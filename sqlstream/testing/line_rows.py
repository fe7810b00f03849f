"""Lines of expected and actual rows: do they say the same, and which is the first that does not?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, NamedTuple

from sqlstream.testing.changelog import KINDS
from sqlstream.testing.golden_format import FAILS
from sqlstream.testing.spelling import columns_of, read
from sqlstream.types import DataType

_DIGITS = {"FLOAT": 1e-6, "DOUBLE": 1e-9}
"""What sums in another order may differ by."""
_ABSOLUTE = 1e-12
_MOST_PAIRS = 10_000

Types = Mapping[str, Sequence[DataType]]
"""By table in lower case, "" for the result, the types of its columns."""


@dataclass(frozen=True)
class Line:
    """An output line cut into the table before its colon, the kind of its row, and the texts of its columns."""

    table: str
    kind: str
    columns: tuple[str, ...]


def cut(line: str, types: Types) -> Line:
    table, rest = "", line
    name, colon, behind = line.partition(": ")
    if colon and name.casefold() in types:
        table, rest = name, behind
    kind = rest[:2] if rest[:2] in KINDS and rest[2:3] in ("", " ") else ""
    return Line(table, kind, tuple(columns_of(rest[len(kind) :])))


class Pair(NamedTuple):
    """An expected and an actual line, None where there is none, and whether they differ."""

    differs: bool
    expected: str | None
    actual: str | None


@dataclass(frozen=True)
class LineComparison:
    """``types`` are those of the columns; ``tolerance`` as in ``StreamOptions``."""

    types: Types
    tolerance: float | None = None
    unordered: bool = False

    def same(self, expected: Sequence[str], actual: Sequence[str]) -> bool:
        return not any(pair.differs for pair in self.aligned(expected, actual))

    def aligned(self, expected: Sequence[str], actual: Sequence[str]) -> list[Pair]:
        """Lines beside each other. Unordered ones that are the same stand first, then each that is left beside its
        likest; ordered ones stay in their order."""
        if self.unordered:
            return self._unordered(expected, actual)
        if len(expected) == len(actual) and all(map(self.alike, expected, actual)):
            return [Pair(False, *lines) for lines in zip(expected, actual, strict=True)]
        return list(self._ordered(expected, actual))

    def _ordered(self, expected: Sequence[str], actual: Sequence[str]) -> Iterator[Pair]:
        matcher = SequenceMatcher(None, expected, actual, autojunk=False)
        for _, i, end, j, other_end in matcher.get_opcodes():
            for one, other in zip_longest(expected[i:end], actual[j:other_end]):
                yield Pair(one is None or other is None or not self.alike(one, other), one, other)

    def _unordered(self, expected: Sequence[str], actual: Sequence[str]) -> list[Pair]:
        same: list[Pair] = []
        left, missing = list(actual), list[str]()
        for line in expected:
            partner = line if line in left else next((other for other in left if self.alike(line, other)), None)
            if partner is None:
                missing.append(line)
            else:
                left.remove(partner)
                same.append(Pair(False, line, partner))
        return [*same, *self._likest(missing, left)]

    def _likest(self, missing: Sequence[str], surplus: Sequence[str]) -> Iterator[Pair]:
        """Each line beside the other that has most columns in common with it, the likest first."""
        lines, others = dict(enumerate(missing)), dict(enumerate(surplus))
        if len(missing) * len(surplus) <= _MOST_PAIRS:
            likeness = {(i, j): self._equal_columns(missing[i], surplus[j]) for i in lines for j in others}
            for i, j in sorted(likeness, key=lambda pair: -likeness[pair]):
                if i in lines and j in others and likeness[i, j]:
                    yield Pair(True, lines.pop(i), others.pop(j))
        for line, other in zip_longest(lines.values(), others.values()):
            yield Pair(True, line, other)

    def _equal_columns(self, one: str, other: str) -> int:
        return sum(a == b for a, b in zip(cut(one, self.types).columns, cut(other, self.types).columns, strict=False))

    def alike(self, expected: str, actual: str) -> bool:
        """True where the lines are the same, but for the last digits of floating-point numbers."""
        if expected == actual:
            return True
        if expected.startswith(FAILS) or actual.startswith(FAILS):
            return expected != FAILS and actual.startswith(expected)  # its beginning will do
        one, other = cut(expected, self.types), cut(actual, self.types)
        same_row = (one.table.casefold(), one.kind) == (other.table.casefold(), other.kind)
        if not same_row or len(one.columns) != len(other.columns):
            return False
        return not self.differing_columns(one, other)

    def differing_columns(self, one: Line, other: Line) -> list[int]:
        """The positions of the columns whose values differ."""
        types = self.types.get(one.table.casefold(), ())
        longest = max(len(one.columns), len(other.columns))
        return [i for i in range(longest) if not self._same_column(one, other, i, types[i] if i < len(types) else None)]

    def _same_column(self, one: Line, other: Line, i: int, kind: DataType | None) -> bool:
        if i >= len(one.columns) or i >= len(other.columns):
            return False
        first, second = one.columns[i], other.columns[i]
        if first == second or kind is None:
            return first == second
        width = _float_of(kind)
        if width is None:
            return False
        try:
            values = read(first, kind), read(second, kind)
        except (KeyError, ValueError, ArithmeticError):
            return False
        return _close(*values, self.tolerance if self.tolerance is not None else _DIGITS[width])


def _float_of(kind: DataType) -> str | None:
    """FLOAT or DOUBLE where values of the type hold such numbers, the less exact one first."""
    inner = [argument[1] if isinstance(argument, tuple) else argument for argument in kind.args]
    names = [kind.name, *(_float_of(argument) for argument in inner if isinstance(argument, DataType))]
    return next((name for name in _DIGITS if name in names), None)


def _close(one: Any, other: Any, tolerance: float) -> bool:
    match one, other:
        case float(), float():
            both_nan = math.isnan(one) and math.isnan(other)
            return both_nan or math.isclose(one, other, rel_tol=tolerance, abs_tol=min(tolerance, _ABSOLUTE))
        case list(), list():
            return len(one) == len(other) and all(_close(a, b, tolerance) for a, b in zip(one, other, strict=True))
        case dict(), dict():
            return one.keys() == other.keys() and all(_close(one[key], other[key], tolerance) for key in one)
    return bool(one == other)
