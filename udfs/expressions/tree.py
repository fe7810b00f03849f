"""Expressions over columns, as data: the planner compiles them, kernels evaluate them (``evaluation``).

Logic is SQL's, with three values. Values that are compared, or of which one is chosen, are of one type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING

from sqlstream.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa


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
    """The operators that compute a number or a time from two operands."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED = "/"
    MODULO = "%"


@dataclass(frozen=True)
class Expression:
    """The base of expressions over columns. ``parts`` are the operands."""

    @property
    def parts(self) -> tuple[Expression, ...]:
        return ()

    @property
    def columns(self) -> frozenset[Column]:
        """The columns that the expression reads."""
        return frozenset[Column]().union(*(part.columns for part in self.parts))


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column. In conditions of joins ``side`` is 0 for columns of the left table, 1 for those of the
    right.
    """

    name: str
    side: int = 0

    @property
    def columns(self) -> frozenset[Column]:
        return frozenset({self})


@dataclass(frozen=True)
class Constant(Expression):
    """A constant, in the form that ``pyarrow.scalar`` accepts for its type. NULL (None) only where it may be chosen."""

    value: object
    type: DataType


@dataclass(frozen=True)
class Converted(Expression):
    """CAST of the operand to another type; NULL where the value does not fit."""

    part: Expression
    type: DataType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Compared(Expression):
    """A comparison of two operands of one type; NULL where either is NULL."""

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
    """True where all operands are true, false where one is false, else NULL."""

    conditions: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.conditions


@dataclass(frozen=True)
class Or(Expression):
    """True where one operand is true, false where all are false, else NULL."""

    conditions: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.conditions


@dataclass(frozen=True)
class Computed(Expression):
    """An arithmetic operation on two numbers. Both have the ``type`` of the result, except for decimals and times,
    whose operands may have other types.

    The result is NULL where Spark raises an error, as for a division by zero. Raising would be wrong here, because both
    sides of AND and OR are computed for all rows.
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
    """ABS: the absolute value of a number."""

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
    """COALESCE: the first operand that is not NULL."""

    values: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.values


@dataclass(frozen=True)
class Chosen(Expression):
    """CASE: the value that belongs to the first condition that is true, or the ELSE value, which is the last
    operand.
    """

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (*self.conditions, *self.values)


@dataclass(frozen=True)
class Like(Expression):
    """LIKE with a ``pattern`` without escapes: ``%`` is any text, ``_`` any character."""

    part: Expression
    pattern: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class SplitIndex(Expression):
    """SPLIT_INDEX: the piece number ``index``, from 0, of a text cut at each ``separator``; NULL without such a piece,
    and for an empty text.
    """

    part: Expression
    separator: str
    index: int

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Lowered(Expression):
    """LOWER of a text."""

    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Extracted(Expression):
    """REGEXP_EXTRACT: what the group number ``group`` matches where the ``pattern`` first matches in a text, 0 for all
    of it; empty where it matches nothing. Each group of the pattern has the name ``g`` with its number.
    """

    part: Expression
    pattern: str
    group: int

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Clock(Expression):
    """The processing time at which a row came, a TIMESTAMP."""


@dataclass(frozen=True)
class Hour(Expression):
    """HOUR: the hour, from 0 to 23, that a clock in ``zone`` shows at a TIMESTAMP."""

    part: Expression
    zone: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Formatted(Expression):
    """DATE_FORMAT: what a clock in ``zone`` shows at a TIMESTAMP, in a ``format`` of ``strftime``, to whole seconds."""

    part: Expression
    format: str
    zone: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)


@dataclass(frozen=True)
class Called(Expression):
    """A call of a user's function, once with arrays of all rows. ``call``: the function; None in plans, which only know
    its name (``bound``).
    """

    name: str
    arguments: tuple[Expression, ...]
    type: DataType
    call: Callable[..., pa.Array] | None = None

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.arguments


# --- filters and projections ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """A filter: only the rows for which the condition is true go on to the next step."""

    expression: Expression


@dataclass(frozen=True)
class Added:
    """A column that is computed from those there are, and added to them."""

    expression: Expression
    name: str


ColumnStep = Kept | Added


def bound(steps: Iterable[ColumnStep], function: Callable[[Called], Callable[..., pa.Array]]) -> tuple[ColumnStep, ...]:
    """The steps with a ``function`` in each call of one."""

    def changed(expression: Expression) -> Expression:
        parts = {f.name: _changed(getattr(expression, f.name), changed) for f in fields(expression)}
        called = replace(expression, **parts)
        return replace(called, call=function(called)) if isinstance(called, Called) else called

    return tuple(replace(step, expression=changed(step.expression)) for step in steps)


def _changed(value: object, changed: Callable[[Expression], Expression]) -> object:
    """A field of an expression with the change of its operands."""
    if isinstance(value, tuple):
        return tuple(_changed(each, changed) for each in value)
    return changed(value) if isinstance(value, Expression) else value


def columns_read(expression: Expression | None, side: int) -> tuple[str, ...]:
    """The names of the columns that an expression reads from the left (0) or the right (1) table of a join; empty for
    None.
    """
    return tuple(sorted(c.name for c in expression.columns if c.side == side)) if expression is not None else ()
