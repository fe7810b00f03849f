"""The state of triggers: numpy arrays with one value per window instance, nested as triggers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[Any]]
"""One value per window instance, or per position."""


class Merging(Enum):
    """How the values of a column merge when the windows of several instances do."""

    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"
    FIRST = "first"


@dataclass(frozen=True)
class Column:
    """``default`` is the value of an instance whose trigger has seen nothing; its type is the column's."""

    name: str
    default: int | float | bool | bytes
    merging: Merging

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object) if isinstance(self.default, bytes) else np.dtype(type(self.default))

    def fresh(self, count: int) -> Values:
        return np.full(count, self.default, self.dtype)

    def merged(self, values: Values, groups: Values, count: int) -> Values:
        result = self.fresh(count)
        _MERGE[self.merging](result, values, groups)
        return result


def _first(result: Values, values: Values, groups: Values) -> None:
    """The first value that is not NaN."""
    numbered = np.flatnonzero(values == values)[::-1]
    result[groups[numbered]] = values[numbered]


def _least(result: Values, values: Values, groups: Values) -> None:
    np.minimum.at(result, groups, values)


def _greatest(result: Values, values: Values, groups: Values) -> None:
    np.maximum.at(result, groups, values)


def _sum(result: Values, values: Values, groups: Values) -> None:
    np.add.at(result, groups, values)


_MERGE: Mapping[Merging, Callable[[Values, Values, Values], None]] = {
    Merging.FIRST: _first,
    Merging.LEAST: _least,
    Merging.GREATEST: _greatest,
    Merging.SUM: _sum,
}


@dataclass
class TriggerState:
    """Columns of one trigger, and those of the triggers within it. Arrays are changed in place or replaced."""

    count: int
    values: dict[str, Values] = field(default_factory=dict)
    parts: tuple[TriggerState, ...] = ()

    def __getitem__(self, name: str) -> Values:
        return self.values[name]

    def __setitem__(self, name: str, values: Values) -> None:
        self.values[name] = values

    def at(self, index: Values) -> TriggerState:
        """A copy of the instances of an index, or of those where a mask is true."""
        chosen = int(index.sum()) if index.dtype == bool else len(index)
        values = {name: column[index] for name, column in self.values.items()}
        return TriggerState(chosen, values, tuple(nested.at(index) for nested in self.parts))

    def put(self, index: Values, other: TriggerState) -> None:
        """Takes over the instances of ``other`` at the places of an index or mask."""
        for name, column in other.values.items():
            self.values[name][index] = column
        for nested, of_other in zip(self.parts, other.parts, strict=True):
            nested.put(index, of_other)

    def followed_by(self, other: TriggerState) -> TriggerState:
        values = {name: np.concatenate([column, other[name]]) for name, column in self.values.items()}
        parts = tuple(nested.followed_by(o) for nested, o in zip(self.parts, other.parts, strict=True))
        return TriggerState(self.count + other.count, values, parts)

    def columns(self, prefix: str = "") -> Iterator[tuple[str, Values]]:
        """All arrays, those of parts with the part's number before their names."""
        for name, column in self.values.items():
            yield prefix + name, column
        for number, nested in enumerate(self.parts):
            yield from nested.columns(f"{prefix}{number}.")
