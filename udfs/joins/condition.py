"""The rest of ON: comparisons of columns of both sides, which ``deciding`` decides on pairs of rows.

Both columns of a comparison are of one type, which has an order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum


class Comparison(Enum):
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    NOT_DISTINCT = "<=>"
    """NULL equals NULL, and the result is never NULL."""


@dataclass(frozen=True)
class Operand:
    """A column of the left (0) or the right (1) rows."""

    side: int
    column: str


class Condition(ABC):
    @property
    @abstractmethod
    def operands(self) -> frozenset[Operand]: ...


@dataclass(frozen=True)
class Compare(Condition):
    comparison: Comparison
    left: Operand
    right: Operand

    @property
    def operands(self) -> frozenset[Operand]:
        return frozenset({self.left, self.right})


@dataclass(frozen=True)
class IsNull(Condition):
    """True where the condition is unknown; never NULL."""

    condition: Condition

    @property
    def operands(self) -> frozenset[Operand]:
        return self.condition.operands


@dataclass(frozen=True)
class Truth(Condition):
    """A BOOLEAN column."""

    operand: Operand

    @property
    def operands(self) -> frozenset[Operand]:
        return frozenset({self.operand})


@dataclass(frozen=True)
class Not(Condition):
    condition: Condition

    @property
    def operands(self) -> frozenset[Operand]:
        return self.condition.operands


@dataclass(frozen=True)
class And(Condition):
    conditions: tuple[Condition, ...]

    @property
    def operands(self) -> frozenset[Operand]:
        return frozenset().union(*(c.operands for c in self.conditions))


@dataclass(frozen=True)
class Or(Condition):
    conditions: tuple[Condition, ...]

    @property
    def operands(self) -> frozenset[Operand]:
        return frozenset().union(*(c.operands for c in self.conditions))


def columns_read(condition: Condition | None, side: int) -> tuple[str, ...]:
    """The columns of one side that a condition reads, by name."""
    return tuple(sorted(o.column for o in condition.operands if o.side == side)) if condition is not None else ()
