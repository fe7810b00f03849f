"""Top-N row by row: all rows of each key in a list, sorted anew after each micro-batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.top_n.order import Order

Row = dict[str, Any]


class _Turned:
    """A value in descending order."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Turned) and self.value == other.value

    def __lt__(self, other: _Turned) -> bool:
        return bool(other.value < self.value)


def place(row: Row, orders: Sequence[Order]) -> tuple[Any, ...]:
    """What Python sorts rows by."""
    collected: list[Any] = []
    for order in orders:
        value = row[order.column]
        if value is None:
            collected.append((0 if order.nulls_first else 2,))
        else:
            plain = (value != value, 0.0 if value != value else value)  # NaN is the greatest number
            collected.append((1, _Turned(plain) if order.descending else plain))
    return tuple(collected)


def numbered(rows: Sequence[Row], orders: Sequence[Order], function: Number) -> list[tuple[Row, int]]:
    """The rows, which are in order of arrival, in that of the ``orders``, with their numbers."""
    collected: list[tuple[Row, int]] = []
    last, rank, dense = None, 0, 0
    for position, row in enumerate(sorted(rows, key=lambda row: place(row, orders)), start=1):
        if place(row, orders) != last:
            last, rank, dense = place(row, orders), position, dense + 1
        collected.append((row, {Number.ROW_NUMBER: position, Number.RANK: rank, Number.DENSE_RANK: dense}[function]))
    return collected


class TopNTable:
    """The rows that are there, by key."""

    def __init__(self, orders: Sequence[Order], function: Number, first: int, last: int) -> None:
        self.rows: dict[Any, list[Row]] = defaultdict(list)
        self._orders, self._function, self._first, self._last = orders, function, first, last

    def add(self, key: Any, row: Row) -> None:
        self.rows[key].append(row)

    def withdraw(self, key: Any, row: Row) -> None:
        if row in self.rows[key]:
            self.rows[key].remove(row)

    def best(self, *, with_number: bool) -> Counter[tuple[Any, ...]]:
        """The rows of the result as multiset of values."""
        counts: Counter[tuple[Any, ...]] = Counter()
        for rows in self.rows.values():
            for row, number in numbered(rows, self._orders, self._function):
                if self._first <= number <= self._last:
                    counts[(*map(repr, row.values()), *([number] if with_number else []))] += 1
        return counts
