"""Expressions over columns, as data: the planner compiles them, kernels evaluate them (``evaluation``).

Logic is SQL's, with three values. Values that are compared, or of which one is chosen, are of one type.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlstream.types import DataType


class Comparison(Enum):
    """The operators that compare two values of one type."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    NOT_DISTINCT = "<=>"
    """NULL equals NULL, and the result is never NULL."""


class Arithmetic(Enum):
    """The operators that compute a number or a time of two."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED = "/"
    MODULO = "%"


@dataclass(frozen=True)
class Expression:
    """An expression over columns; ``parts`` are its operands."""

    @property
    def parts(self) -> tuple[Expression, ...]:
        return ()

    @property
    def columns(self) -> frozenset[Column]:
        """The columns that the expression reads."""
        return frozenset[Column]().union(*(part.columns for part in self.parts))


@dataclass(frozen=True)
class Column(Expression):
    """A column by its name; ``side`` is 1 for columns of the right one of two joined tables."""

    name: str
    side: int = 0

    @property
    def columns(self) -> frozenset[Column]:
        return frozenset({self})


@dataclass(frozen=True)
class Constant(Expression):
    """A constant other than NULL, in the form that ``pyarrow.scalar`` accepts for its type."""

    value: object
    type: DataType


@dataclass(frozen=True)
class Converted(Expression):
    """The value cast to another type; NULL where it does not fit."""

    part: Expression
    type: DataType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Compared(Expression):
    """A comparison of two values of one type."""

    comparison: Comparison
    left: Expression
    right: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True)
class OneOf(Expression):
    """Whether the value is one of ``values``, which are not NULL and of its ``type``; false for NULL."""

    part: Expression
    values: tuple[object, ...]
    type: DataType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class IsNull(Expression):
    """Whether the value is NULL; never NULL itself."""

    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Not(Expression):
    """The negation of a condition; NULL for NULL."""

    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class And(Expression):
    """True where all conditions are true, false where one is false, else NULL."""

    conditions: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.conditions


@dataclass(frozen=True)
class Or(Expression):
    """True where one condition is true, false where all are false, else NULL."""

    conditions: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.conditions


@dataclass(frozen=True)
class Computed(Expression):
    """An arithmetic operation on two numbers of ``type``, which is the result's too; decimals and times have their own
    types.

    NULL where Spark fails, as for a division by zero: both sides of AND and OR are computed for all rows.
    """

    operator: Arithmetic
    left: Expression
    right: Expression
    type: DataType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True)
class Absolute(Expression):
    """The absolute value of a number."""

    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Negated(Expression):
    """A number with the sign changed."""

    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Coalesced(Expression):
    """The first value that is not NULL."""

    values: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.values


@dataclass(frozen=True)
class Chosen(Expression):
    """CASE: the value of the first condition that is true, else the last value."""

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (*self.conditions, *self.values)


def columns_read(expression: Expression | None, side: int) -> tuple[str, ...]:
    """The names of the columns of one side that an expression reads."""
    return tuple(sorted(c.name for c in expression.columns if c.side == side)) if expression is not None else ()
