"""Conditions of joins that kernels decide on pairs of rows: what Catalyst computes of each side, how it is compared.

Each maximal part of a condition that reads one side, or nothing, becomes a column of that side. Kernels know AND, OR,
NOT, comparisons and IS of these columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.functions.coercion import common_type
from sqlstream.grammar.spans import span_of
from sqlstream.planner.catalog import Function
from sqlstream.planner.expressions import as_expression, columns_of, conjuncts, is_repeatable
from sqlstream.planner.fields import Schema
from sqlstream.planner.type_inference import Types
from sqlstream.types import DataType
from sqlstream.udfs.joins.condition import And, Compare, Comparison, Condition, IsNull, Not, Operand, Or, Truth

COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.EQ: Comparison.EQUAL,
    exp.NEQ: Comparison.NOT_EQUAL,
    exp.LT: Comparison.LESS,
    exp.LTE: Comparison.LESS_OR_EQUAL,
    exp.GT: Comparison.GREATER,
    exp.GTE: Comparison.GREATER_OR_EQUAL,
    exp.NullSafeEQ: Comparison.NOT_DISTINCT,
    exp.NullSafeNEQ: Comparison.NOT_DISTINCT,
}

ORDERED = frozenset({"STRING", "BOOLEAN", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})

_APART = (
    "Compute it in a query below, or write the condition so that each side of the comparison reads one table; an INNER "
    "JOIN takes any condition."
)


@dataclass(frozen=True)
class PairCondition:
    """``columns``: the expressions over the left (0) and the right (1) side that ``condition`` reads, by name."""

    condition: Condition
    columns: tuple[tuple[tuple[str, exp.Expression], ...], tuple[tuple[str, exp.Expression], ...]]


def pair_condition(
    condition: exp.Expression,
    left: Schema,
    right: Schema,
    function: Callable[[str], Function | None] = lambda _: None,
) -> PairCondition:
    """What decides a condition over the fields of both sides. ``function`` finds functions of the catalog.

    BindError SS291 for an operand that mixes both sides, SS292 for functions of Python and such as differ at every
    call, SS293 for types that kernels do not compare.
    """
    divided = _Divided(left, right, function)
    decision = divided.condition(condition)
    return PairCondition(decision, (tuple(divided.columns[0].items()), tuple(divided.columns[1].items())))


class _Divided:
    """The columns of both sides, found one by one."""

    def __init__(self, left: Schema, right: Schema, function: Callable[[str], Function | None]) -> None:
        self.columns: tuple[dict[str, exp.Expression], dict[str, exp.Expression]] = ({}, {})
        self._fields = [{field.name for field in schema} for schema in (left, right)]
        self._types = Types((*left, *right), function)

    def condition(self, whole: exp.Expr) -> Condition:
        node = whole.unnest()
        if self._side_of(node) is not None:
            return Truth(self._operand(node))
        match node:
            case exp.And():
                return And(tuple(map(self.condition, conjuncts(node))))
            case exp.Or():
                return Or((self.condition(node.left), self.condition(node.right)))
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.Between():
                return And((
                    self._compared(Comparison.GREATER_OR_EQUAL, node.this, node.args["low"]),
                    self._compared(Comparison.LESS_OR_EQUAL, node.this, node.args["high"]),
                ))  # fmt: skip
            case exp.In() if node.expressions:
                return Or(tuple(self._compared(Comparison.EQUAL, node.this, value) for value in node.expressions))
            case exp.Is():
                return self._is(node)
        comparison = COMPARISONS.get(type(node))
        if comparison is None:
            raise _mixed(node)
        compared = self._compared(comparison, node.this, node.expression)
        return Not(compared) if isinstance(node, exp.NullSafeNEQ) else compared

    def _is(self, node: exp.Is) -> Condition:
        """IS NULL, IS TRUE and IS FALSE of a condition."""
        operand, value = self.condition(node.this), node.expression
        if isinstance(value, exp.Null):
            return IsNull(operand)
        if not isinstance(value, exp.Boolean):
            raise _mixed(node)
        return And((Not(IsNull(operand)), operand if value.this else Not(operand)))

    def _compared(self, comparison: Comparison, left_side: exp.Expr, right_side: exp.Expr) -> Condition:
        values = left_side.unnest(), right_side.unnest()
        for value in values:
            if self._side_of(value) is None:
                raise _mixed(value)
            _require_repeatable(value)
        kinds = [self._types.of(value) for value in values]
        kind = common_type(kinds)
        if not (kind.is_numeric or kind.name in ORDERED):
            raise _not_compared(kinds, left_side)
        left, right = (
            self._operand(value, None if own == kind else kind) for value, own in zip(values, kinds, strict=True)
        )
        return Compare(comparison, left, right)

    def _side_of(self, expression: exp.Expr) -> int | None:
        """The side that an expression reads, the left one where it reads nothing; None where it mixes them."""
        read = columns_of(expression)
        return next((side for side in (0, 1) if read <= self._fields[side]), None)

    def _operand(self, value: exp.Expr, kind: DataType | None = None) -> Operand:
        """The column with a value, cast to ``kind``."""
        _require_repeatable(value)
        side = self._side_of(value)
        assert side is not None, "the value reads one side"
        computed = as_expression(value) if kind is None else exp.Cast(this=as_expression(value), to=kind.to_sqlglot())
        columns = self.columns[side]
        name = next((n for n, e in columns.items() if e == computed), f"__operand_{len(columns)}")
        columns[name] = computed
        return Operand(side, name)


def _mixed(node: exp.Expr) -> BindError:
    message = "ON of an outer, semi, anti, temporal or ASOF join mixes both sides in one operand"
    return BindError("SS291", message, span_of(node), hint=_APART)


def _require_repeatable(value: exp.Expr) -> None:
    """A row that is retracted must have the values with which it came."""
    if not is_repeatable(value):
        message = (
            "ON of an outer, semi, anti, temporal or ASOF join calls a function of Python, or one that differs at "
            "every call"
        )
        hint = "Call it in a query below the join, and compare its result."
        raise BindError("SS292", message, span_of(value), hint=hint)


def _not_compared(kinds: Sequence[DataType], node: exp.Expr) -> BindError:
    message = (
        f"ON of an outer, semi, anti, temporal or ASOF join compares values of the types {kinds[0]} and {kinds[1]}"
    )
    hint = "Cast both to a number, STRING, BOOLEAN, BINARY, DATE or TIMESTAMP; an INNER JOIN takes any condition."
    return BindError("SS293", message, span_of(node), hint=hint)
