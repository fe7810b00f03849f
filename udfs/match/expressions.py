"""What conditions of DEFINE compute of the rows of an open match: of several rows at once, and of aggregates over them.

What reads a single row is computed before, by Catalyst, and is an operand here. Conditions are three-valued, values are
compared as Spark does. Where Spark would fail, as at a division by zero, the result is NULL: AND and OR compute both of
their sides here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.joins.condition import Comparison
from sqlstream.udfs.joins.deciding import compared

Columns = Mapping[str, pa.Array]
"""The values of the operands by name, all of one length."""


class Expression(ABC):
    @property
    def parts(self) -> tuple[Expression, ...]:
        return ()

    @property
    def operands(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.operands for part in self.parts))

    @abstractmethod
    def value(self, columns: Columns) -> pa.Array: ...


@dataclass(frozen=True)
class Operand(Expression):
    name: str

    @property
    def operands(self) -> frozenset[str]:
        return frozenset({self.name})

    def value(self, columns: Columns) -> pa.Array:
        return columns[self.name]


@dataclass(frozen=True)
class Converted(Expression):
    """As another type; NULL where the value does not fit."""

    part: Expression
    type: pa.DataType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)

    def value(self, columns: Columns) -> pa.Array:
        given = self.part.value(columns)
        return given if given.type == self.type else given.cast(self.type, safe=not pa.types.is_floating(self.type))


@dataclass(frozen=True)
class Compared(Expression):
    """Both sides are of one type."""

    comparison: Comparison
    left: Expression
    right: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.left, self.right

    def value(self, columns: Columns) -> pa.Array:
        left, right = (part.value(columns) for part in self.parts)
        if self.comparison is not Comparison.NOT_DISTINCT:
            return compared(self.comparison, left, right)
        equal = pc.fill_null(compared(Comparison.EQUAL, left, right), False)
        return pc.or_(equal, pc.and_(left.is_null(), right.is_null()))


@dataclass(frozen=True)
class IsNull(Expression):
    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)

    def value(self, columns: Columns) -> pa.Array:
        return self.part.value(columns).is_null()


@dataclass(frozen=True)
class Not(Expression):
    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)

    def value(self, columns: Columns) -> pa.Array:
        return pc.invert(self.part.value(columns))


@dataclass(frozen=True)
class And(Expression):
    conditions: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.conditions

    def value(self, columns: Columns) -> pa.Array:
        return reduce(pc.and_kleene, (part.value(columns) for part in self.conditions))


@dataclass(frozen=True)
class Or(Expression):
    conditions: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.conditions

    def value(self, columns: Columns) -> pa.Array:
        return reduce(pc.or_kleene, (part.value(columns) for part in self.conditions))


class Arithmetic(Enum):
    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED = "/"
    MODULO = "%"


@dataclass(frozen=True)
class Computed(Expression):
    """Of two numbers of ``type``, which is that of the result; of decimals and times that of their own types."""

    operator: Arithmetic
    left: Expression
    right: Expression
    type: pa.DataType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.left, self.right

    def value(self, columns: Columns) -> pa.Array:
        left, right = (part.value(columns) for part in self.parts)
        if self.operator in (Arithmetic.DIVIDED, Arithmetic.MODULO):
            right = pc.if_else(pc.equal(right, pa.scalar(0, right.type)), pa.scalar(None, right.type), right)
        match self.operator:
            case Arithmetic.PLUS:
                result = pc.add(left, right)
            case Arithmetic.MINUS:
                result = pc.subtract(left, right)
            case Arithmetic.TIMES:
                result = pc.multiply(left, right)
            case Arithmetic.DIVIDED:
                result = pc.divide(left, right)
            case Arithmetic.MODULO:  # has the sign of the dividend
                result = pc.subtract(left, pc.multiply(_whole(pc.divide(left, right)), right))
        return result if result.type == self.type else result.cast(self.type)


def _whole(quotient: pa.Array) -> pa.Array:
    return pc.trunc(quotient) if pa.types.is_floating(quotient.type) else quotient


@dataclass(frozen=True)
class Absolute(Expression):
    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)

    def value(self, columns: Columns) -> pa.Array:
        return pc.abs(self.part.value(columns))


@dataclass(frozen=True)
class Negated(Expression):
    part: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.part,)

    def value(self, columns: Columns) -> pa.Array:
        return pc.negate(self.part.value(columns))


@dataclass(frozen=True)
class Coalesced(Expression):
    """The first value that is not NULL; all are of one type."""

    values: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.values

    def value(self, columns: Columns) -> pa.Array:
        return pc.coalesce(*(part.value(columns) for part in self.values))


@dataclass(frozen=True)
class Chosen(Expression):
    """The value of the first condition that is true, else the last value; all values are of one type."""

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (*self.conditions, *self.values)

    def value(self, columns: Columns) -> pa.Array:
        result = self.values[-1].value(columns)
        for condition, value in reversed([*zip(self.conditions, self.values, strict=False)]):
            chosen = pc.fill_null(condition.value(columns), False)
            result = pc.if_else(chosen, value.value(columns), result)
        return result
