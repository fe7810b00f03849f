"""Conditions of DEFINE: what Catalyst computes of single rows, and what kernels compute of several, and of aggregates.

Each maximal part of a condition that reads one row, or nothing, becomes one operand. Kernels know AND, OR, NOT, IS,
comparisons, CASE, COALESCE, ABS and arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.functions.coercion import common_type
from sqlstream.grammar.spans import span_of
from sqlstream.planner.catalog import Function
from sqlstream.planner.expressions import as_expression, columns_of, conjuncts, substituted
from sqlstream.planner.fields import Item
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.join_conditions import COMPARISONS, ORDERED
from sqlstream.planner.match_operands import Defined, MatchOperand, Reads
from sqlstream.planner.type_inference import Types, call_arguments
from sqlstream.types import BIGINT, BOOLEAN, DataType
from sqlstream.udfs.joins.condition import Comparison
from sqlstream.udfs.match import expressions as k

NOT_COMPUTED = "SS686"

_ARITHMETIC: dict[type[exp.Expr], k.Arithmetic] = {
    exp.Add: k.Arithmetic.PLUS,
    exp.Sub: k.Arithmetic.MINUS,
    exp.Mul: k.Arithmetic.TIMES,
    exp.Div: k.Arithmetic.DIVIDED,
    exp.Mod: k.Arithmetic.MODULO,
}
_STRICT = (
    exp.Column, exp.Literal, exp.Paren, exp.Cast, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.EQ, exp.NEQ,
    exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Identifier, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var,
)  # fmt: skip
"""What is NULL where a column that it reads is."""

_APART = (
    "Compare values that each read one row: a function of A.x alone may be any. Of several rows kernels compute +, -, "
    "*, /, %, ABS, COALESCE, CASE, comparisons and conditions."
)


@dataclass(frozen=True)
class MatchConditions:
    """The condition of each variable, over ``operands``."""

    conditions: tuple[tuple[str, k.Expression], ...]
    operands: tuple[MatchOperand, ...]


def match_conditions(
    definitions: Sequence[Defined],
    operands: Sequence[MatchOperand],
    function: Callable[[str], Function | None] = lambda _: None,
) -> MatchConditions:
    """BindError SS686 for what kernels do not compute of several rows."""
    divided = _Divided(operands, function)
    conditions = tuple((d.variable, divided.value(d.condition, BOOLEAN)) for d in definitions)
    return MatchConditions(conditions, tuple(divided.operands.values()))


_Row = tuple[object, ...]


class _Divided:
    """The operands that the kernel needs, found one by one."""

    def __init__(self, operands: Sequence[MatchOperand], function: Callable[[str], Function | None]) -> None:
        self.operands: dict[str, MatchOperand] = {}
        self._given = {operand.name: operand for operand in operands}
        self._types = Types(tuple(operand.item.field for operand in operands), function)

    def value(self, whole: exp.Expr, kind: DataType | None = None) -> k.Expression:
        """``kind``: what it is converted to."""
        node = as_expression(whole.unnest())
        own, row = self._types.of(node), self._row_of(node)
        differs = kind is not None and own != kind and not own.is_unknown
        if row is not None:
            return k.Operand(self._operand(node, row, kind if differs else None))
        if kind is not None and differs:
            if not (kind.is_numeric and own.is_numeric):
                raise _not_computed(node)
            return k.Converted(self.value(node), kind.to_arrow())
        if isinstance(node, exp.Column):
            operand = self.operands[node.name] = self._given[node.name]
            return k.Operand(operand.name)
        computed = self._condition(node) or self._choice(node) or self._arithmetic(node, own)
        if computed is None:
            raise _not_computed(node)
        return computed

    # --- parts that read one row --------------------------------------------------------------------------------

    def _row_of(self, node: exp.Expr) -> _Row | None:
        """Which row an expression reads, the current one where it reads none; None for several, and for aggregates."""
        rows: dict[_Row, None] = {}
        for name in columns_of(node):
            operand = self._given[name]
            if operand.reads is not Reads.ROW:
                return None
            key = (operand.variable, operand.last, operand.offset)
            rows[operand.shift, operand.current, *(() if operand.current else key)] = None
        if len(rows) > 1:
            return None
        return next(iter(rows), (0, True))

    def _operand(self, node: exp.Expression, row: _Row, kind: DataType | None) -> str:
        """The operand with the value of an expression that reads one row."""
        given = [self._given[name] for name in sorted(columns_of(node))]
        values = {operand.name: operand.item.expression for operand in given}
        value = substituted(node, values)
        value = value if kind is None else exp.Cast(this=value, to=kind.to_sqlglot())
        absent = None
        if row != (0, True) and not all(isinstance(part, _STRICT) for part in node.walk()):
            nulls = {o.name: _null(o.item.type) for o in given}
            absent = substituted(node, nulls)
        like = given[0] if given else MatchOperand(Item("", value, BOOLEAN), current=True)
        for earlier in self.operands.values():
            alike = earlier.reads is Reads.ROW and replace(earlier, item=like.item) == replace(like, absent=absent)
            if alike and earlier.item.expression == value:
                return earlier.name
        name = f"__operand_{len(self.operands)}"
        kind = kind or self._types.of(node)
        self.operands[name] = replace(like, item=Item(name, value, kind), absent=absent)
        return name

    # --- parts that read several --------------------------------------------------------------------------------

    def _condition(self, node: exp.Expression) -> k.Expression | None:
        match node:
            case exp.And():
                return k.And(tuple(self.value(part, BOOLEAN) for part in conjuncts(node)))
            case exp.Or():
                return k.Or((self.value(node.left, BOOLEAN), self.value(node.right, BOOLEAN)))
            case exp.Not():
                return k.Not(self.value(node.this, BOOLEAN))
            case exp.Is():
                return self._is(node)
            case exp.Between():
                lower = self._compared(Comparison.GREATER_OR_EQUAL, node.this, node.args["low"])
                return k.And((lower, self._compared(Comparison.LESS_OR_EQUAL, node.this, node.args["high"])))
            case exp.In() if node.expressions:
                return k.Or(tuple(self._compared(Comparison.EQUAL, node.this, value) for value in node.expressions))
        if type(node) not in COMPARISONS:
            return None
        compared = self._compared(COMPARISONS[type(node)], node.this, node.expression)
        return k.Not(compared) if isinstance(node, exp.NullSafeNEQ) else compared

    def _choice(self, node: exp.Expression) -> k.Expression | None:
        match node:
            case exp.Coalesce():
                return k.Coalesced(self._alike([node.this, *node.expressions], node))
            case exp.If():
                return self._chosen([node], node.args.get("false"), node)
            case exp.Case() if node.this is None:
                return self._chosen(node.args["ifs"], node.args.get("default"), node)
        return None

    def _arithmetic(self, node: exp.Expression, own: DataType) -> k.Expression | None:
        match node:
            case exp.Neg():
                return k.Negated(self._number(node.this))
            case exp.Func() if spark_name(node) == "abs":
                return k.Absolute(self._number(call_arguments(node)[0]))
            case exp.Cast() if own.is_numeric and own.name != "DECIMAL":
                return k.Converted(self._number(node.this), own.to_arrow())
        return self._computed(node, own) if type(node) in _ARITHMETIC else None

    def _is(self, node: exp.Is) -> k.Expression:
        """IS NULL, IS TRUE and IS FALSE."""
        value = node.expression
        if isinstance(value, exp.Null):
            return k.IsNull(self.value(node.this))
        if not isinstance(value, exp.Boolean):
            raise _not_computed(node)
        condition = self.value(node.this, BOOLEAN)
        return k.And((k.Not(k.IsNull(condition)), condition if value.this else k.Not(condition)))

    def _compared(self, comparison: Comparison, left: exp.Expr, right: exp.Expr) -> k.Expression:
        kinds = [self._types.of(side) for side in (left, right)]
        kind = common_type(kinds)
        if not (kind.is_numeric or kind.name in ORDERED or kind.name == "INTERVAL"):
            message = f"DEFINE compares values of several rows that are of the types {kinds[0]} and {kinds[1]}"
            hint = "Cast both to a number, STRING, BOOLEAN, BINARY, DATE or TIMESTAMP."
            raise BindError(NOT_COMPUTED, message, span_of(left), hint=hint)
        return k.Compared(comparison, self.value(left, kind), self.value(right, kind))

    def _alike(self, values: Sequence[exp.Expr], node: exp.Expr) -> tuple[k.Expression, ...]:
        kind = common_type([self._types.of(value) for value in values])
        if kind.is_unknown:
            raise _not_computed(node)
        return tuple(self.value(value, kind) for value in values)

    def _chosen(self, branches: Sequence[exp.Expr], default: exp.Expr | None, node: exp.Expr) -> k.Expression:
        values = [branch.args["true"] for branch in branches]
        alike = self._alike([*values, default if default is not None else exp.Null()], node)
        return k.Chosen(tuple(self.value(branch.this, BOOLEAN) for branch in branches), alike)

    def _number(self, node: exp.Expr) -> k.Expression:
        if not self._types.of(node).is_numeric:
            raise _not_computed(node)
        return self.value(node)

    def _computed(self, node: exp.Expression, kind: DataType) -> k.Expression:
        operator, left, right = _ARITHMETIC[type(node)], node.this, node.expression
        names = {self._types.of(side).name for side in (left, right)}
        is_division = operator in (k.Arithmetic.DIVIDED, k.Arithmetic.MODULO)
        if kind.is_unknown or ("DECIMAL" in names and is_division and kind.name == "DECIMAL"):
            raise _not_computed(node, "Cast both sides to DOUBLE.")
        if kind.name == "DECIMAL":
            if "DECIMAL" not in names:
                raise _not_computed(node)
            return k.Computed(operator, self._decimal(left), self._decimal(right), kind.to_arrow())
        if kind.is_numeric:
            wide = kind if kind.name in ("FLOAT", "DOUBLE") else BIGINT
            return k.Computed(operator, self.value(left, wide), self.value(right, wide), wide.to_arrow())
        if operator not in (k.Arithmetic.PLUS, k.Arithmetic.MINUS) or names == {"DATE"}:
            raise _not_computed(node)
        return k.Computed(operator, self.value(left), self.value(right), kind.to_arrow())

    def _decimal(self, node: exp.Expr) -> k.Expression:
        """Integers become decimals."""
        digits = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}.get(self._types.of(node).name)
        return self.value(node) if digits is None else self.value(node, DataType("DECIMAL", (digits, 0)))


def _null(kind: DataType) -> exp.Expression:
    return exp.Null() if kind.is_unknown or kind.name == "VOID" else exp.Cast(this=exp.Null(), to=kind.to_sqlglot())


def _not_computed(node: exp.Expr, hint: str = _APART) -> BindError:
    message = "DEFINE computes of several rows, or of aggregates, what kernels do not compute"
    return BindError(NOT_COMPUTED, message, span_of(node), hint=hint)
