"""Conditions of joins and of MATCH_RECOGNIZE: what Catalyst computes below the kernel, and what the kernel computes.

Each maximal part that reads one side of a join, or one row of a match, or nothing, becomes a column, which Catalyst
computes. What remains is an expression over these columns (``udfs/expressions``): for joins AND, OR, NOT, comparisons
and IS, for matches CASE, COALESCE, ABS and arithmetic as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.functions.result_types import common_type
from sqlstream.grammar.spans import span_of
from sqlstream.planner.catalog import Function
from sqlstream.planner.expressions import as_expression, columns_of, conjuncts, is_repeatable, substituted
from sqlstream.planner.fields import Item, Schema
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.type_inference import Types, call_arguments
from sqlstream.types import BIGINT, BOOLEAN, DataType
from sqlstream.udfs.expressions.tree import (
    Absolute,
    And,
    Arithmetic,
    Chosen,
    Coalesced,
    Column,
    Compared,
    Comparison,
    Computed,
    Converted,
    Expression,
    IsNull,
    Negated,
    Not,
    Or,
)

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

_PAIR_HINT = (
    "Compute it in a query below, or write the condition so that each side of the comparison reads one table; an INNER "
    "JOIN takes any condition."
)


class Compiler(ABC):
    """Compiles conditions; subclasses decide which parts are columns, and what else is executed."""

    @abstractmethod
    def condition(self, node: exp.Expr) -> Expression:
        """A BOOLEAN expression."""

    @abstractmethod
    def nullable(self, node: exp.Expr) -> Expression:
        """The operands of IS NULL that kernels evaluate."""

    @abstractmethod
    def compared(self, comparison: Comparison, left: exp.Expr, right: exp.Expr) -> Expression:
        """A comparison of values that are cast to one type."""

    @abstractmethod
    def refusal(self, node: exp.Expr) -> Exception:
        """The error for what kernels do not compute."""

    def logic(self, node: exp.Expr) -> Expression | None:
        """AND, OR, NOT, IS, BETWEEN, IN and comparisons; None for other expressions."""
        match node:
            case exp.And():
                return And(tuple(map(self.condition, conjuncts(node))))
            case exp.Or():
                return Or((self.condition(node.left), self.condition(node.right)))
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.Is():
                return self._is(node)
            case exp.Between():
                lower = self.compared(Comparison.GREATER_OR_EQUAL, node.this, node.args["low"])
                return And((lower, self.compared(Comparison.LESS_OR_EQUAL, node.this, node.args["high"])))
            case exp.In() if node.expressions:
                return Or(tuple(self.compared(Comparison.EQUAL, node.this, value) for value in node.expressions))
        if type(node) not in COMPARISONS:
            return None
        compared = self.compared(COMPARISONS[type(node)], node.this, node.expression)
        return Not(compared) if isinstance(node, exp.NullSafeNEQ) else compared

    def _is(self, node: exp.Is) -> Expression:
        """IS NULL, IS TRUE and IS FALSE."""
        value = node.expression
        if isinstance(value, exp.Null):
            return IsNull(self.nullable(node.this))
        if not isinstance(value, exp.Boolean):
            raise self.refusal(node)
        condition = self.condition(node.this)
        return And((Not(IsNull(condition)), condition if value.this else Not(condition)))


# --- joins ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairCondition:
    """A condition on pairs of rows, compiled for kernels.

    ``columns`` has two entries, for the left and the right side: the columns that ``condition`` reads, each with the
    expression that computes it.
    """

    condition: Expression
    columns: tuple[tuple[tuple[str, exp.Expression], ...], tuple[tuple[str, exp.Expression], ...]]


def pair_condition(
    condition: exp.Expression,
    left: Schema,
    right: Schema,
    function: Callable[[str], Function | None] = lambda _: None,
) -> PairCondition:
    """Compiles the condition of a join for kernels; it may read the fields of both sides. ``function`` returns
    functions of the catalog by name.

    BindError SS291 for an operand that mixes both sides, SS292 for functions of Python and volatile ones, SS293 for
    types that kernels do not compare.
    """
    compiler = _PairCompiler(left, right, function)
    compiled = compiler.condition(condition)
    return PairCondition(compiled, (tuple(compiler.columns[0].items()), tuple(compiler.columns[1].items())))


class _PairCompiler(Compiler):
    """The columns of both sides, found one by one."""

    def __init__(self, left: Schema, right: Schema, function: Callable[[str], Function | None]) -> None:
        self.columns: tuple[dict[str, exp.Expression], dict[str, exp.Expression]] = ({}, {})
        self._fields = [{field.name for field in schema} for schema in (left, right)]
        self._types = Types((*left, *right), function)

    def condition(self, node: exp.Expr) -> Expression:
        node = node.unnest()
        if self._side_of(node) is not None:
            return self._column(node)
        compiled = self.logic(node)
        if compiled is None:
            raise self.refusal(node)
        return compiled

    def nullable(self, node: exp.Expr) -> Expression:
        return self.condition(node)

    def _is(self, node: exp.Is) -> Expression:
        if not isinstance(node.expression, exp.Null | exp.Boolean):
            self.condition(node.this)  # an error inside is reported first
        return super()._is(node)

    def compared(self, comparison: Comparison, left: exp.Expr, right: exp.Expr) -> Expression:
        values = left.unnest(), right.unnest()
        for value in values:
            if self._side_of(value) is None:
                raise self.refusal(value)
            _require_repeatable(value)
        kinds = [self._types.of(value) for value in values]
        kind = common_type(kinds)
        if not (kind.is_numeric or kind.name in ORDERED):
            raise _not_compared(kinds, left)
        columns = (self._column(value, None if own == kind else kind) for value, own in zip(values, kinds, strict=True))
        return Compared(comparison, *columns)

    def _side_of(self, expression: exp.Expr) -> int | None:
        """The side that an expression reads, the left one where it reads nothing; None where it mixes them."""
        read = columns_of(expression)
        return next((side for side in (0, 1) if read <= self._fields[side]), None)

    def _column(self, value: exp.Expr, kind: DataType | None = None) -> Column:
        """The column with a value, cast to ``kind``."""
        _require_repeatable(value)
        side = self._side_of(value)
        assert side is not None, "the value reads one side"
        computed = as_expression(value) if kind is None else exp.Cast(this=as_expression(value), to=kind.to_sqlglot())
        columns = self.columns[side]
        name = next((n for n, e in columns.items() if e == computed), f"__operand_{len(columns)}")
        columns[name] = computed
        return Column(name, side)

    def refusal(self, node: exp.Expr) -> BindError:
        message = "ON of an outer, semi, anti, temporal or ASOF join mixes both sides in one operand"
        return BindError("SS291", message, span_of(node), hint=_PAIR_HINT)


def _require_repeatable(value: exp.Expr) -> None:
    """A retraction must have the values that its row was inserted with."""
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


# --- MATCH_RECOGNIZE ------------------------------------------------------------------------------------------


class Reads(Enum):
    """What an operand of a MATCH_RECOGNIZE condition reads: the value of one row, an aggregate of several rows,
    CLASSIFIER or MATCH_NUMBER.
    """

    ROW = "row"
    ROWS = "rows"
    """An aggregate."""
    CLASSIFIER = "classifier"
    NUMBER = "number"


@dataclass(frozen=True)
class MatchOperand:
    """A value that a condition or a measure of MATCH_RECOGNIZE reads from the rows of a match, such as
    ``PREV(LAST(A.x, 2))``. Conditions refer to it by the name of ``item``, whose expression is over the fields of one
    input row.

    ``variable`` is the pattern variable whose rows count, None for all rows. The row is found in two steps. LAST
    (``last``) or FIRST, and ``offset``: the row of the variable that is ``offset`` rows before its last, or after its
    first one. NEXT or PREV: ``shift`` rows after that row, negative for before. With ``current`` the first step gives
    the row that is being tested. ``absent`` is the value if there is no such row, NULL if None. ``running``: only rows
    up to the current one count.
    """

    item: Item
    reads: Reads = Reads.ROW
    variable: str | None = None
    last: bool = True
    offset: int = 0
    shift: int = 0
    current: bool = False
    running: bool = True
    absent: exp.Expression | None = None

    @property
    def name(self) -> str:
        return self.item.name


@dataclass(frozen=True)
class Defined:
    """A pattern variable of DEFINE with the condition that its rows must meet, an expression over operands."""

    variable: str
    condition: exp.Expression


NOT_COMPUTED = "SS686"

_ARITHMETIC: dict[type[exp.Expr], Arithmetic] = {
    exp.Add: Arithmetic.PLUS,
    exp.Sub: Arithmetic.MINUS,
    exp.Mul: Arithmetic.TIMES,
    exp.Div: Arithmetic.DIVIDED,
    exp.Mod: Arithmetic.MODULO,
}
_STRICT = (
    exp.Column, exp.Literal, exp.Paren, exp.Cast, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.EQ, exp.NEQ,
    exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Identifier, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var,
)  # fmt: skip
"""What is NULL where a column that it reads is."""

_MATCH_HINT = (
    "Compare values that each read one row: a function of A.x alone may be any. Of several rows kernels compute +, -, "
    "*, /, %, ABS, COALESCE, CASE, comparisons and conditions."
)


@dataclass(frozen=True)
class MatchConditions:
    """The compiled condition of each variable, and the ``operands`` that the conditions read."""

    conditions: tuple[tuple[str, Expression], ...]
    operands: tuple[MatchOperand, ...]


def match_conditions(
    definitions: Sequence[Defined],
    operands: Sequence[MatchOperand],
    function: Callable[[str], Function | None] = lambda _: None,
) -> MatchConditions:
    """Compile the conditions of DEFINE. BindError SS686 for expressions over several rows that kernels do not
    support.
    """
    compiler = _MatchCompiler(operands, function)
    conditions = tuple((d.variable, compiler.condition(d.condition)) for d in definitions)
    return MatchConditions(conditions, tuple(compiler.operands.values()))


_Row = tuple[object, ...]


class _MatchCompiler(Compiler):
    """The operands that the kernel needs, found one by one."""

    def __init__(self, operands: Sequence[MatchOperand], function: Callable[[str], Function | None]) -> None:
        self.operands: dict[str, MatchOperand] = {}
        self._given = {operand.name: operand for operand in operands}
        self._types = Types(tuple(operand.item.field for operand in operands), function)

    def value(self, whole: exp.Expr, kind: DataType | None = None) -> Expression:
        """``kind``: what it is converted to."""
        node = as_expression(whole.unnest())
        own, row = self._types.of(node), self._row_of(node)
        differs = kind is not None and own != kind and not own.is_unknown
        if row is not None:
            return Column(self._operand(node, row, kind if differs else None))
        if kind is not None and differs:
            if not (kind.is_numeric and own.is_numeric):
                raise self.refusal(node)
            return Converted(self.value(node), kind)
        if isinstance(node, exp.Column):
            operand = self.operands[node.name] = self._given[node.name]
            return Column(operand.name)
        computed = self.logic(node) or self._choice(node) or self._arithmetic(node, own)
        if computed is None:
            raise self.refusal(node)
        return computed

    def condition(self, node: exp.Expr) -> Expression:
        return self.value(node, BOOLEAN)

    def nullable(self, node: exp.Expr) -> Expression:
        return self.value(node)

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

    def _choice(self, node: exp.Expression) -> Expression | None:
        match node:
            case exp.Coalesce():
                return Coalesced(self._alike([node.this, *node.expressions], node))
            case exp.If():
                return self._chosen([node], node.args.get("false"), node)
            case exp.Case() if node.this is None:
                return self._chosen(node.args["ifs"], node.args.get("default"), node)
        return None

    def _arithmetic(self, node: exp.Expression, own: DataType) -> Expression | None:
        match node:
            case exp.Neg():
                return Negated(self._number(node.this))
            case exp.Func() if spark_name(node) == "abs":
                return Absolute(self._number(call_arguments(node)[0]))
            case exp.Cast() if own.is_numeric and own.name != "DECIMAL":
                return Converted(self._number(node.this), own)
        return self._computed(node, own) if type(node) in _ARITHMETIC else None

    def compared(self, comparison: Comparison, left: exp.Expr, right: exp.Expr) -> Expression:
        kinds = [self._types.of(side) for side in (left, right)]
        kind = common_type(kinds)
        if not (kind.is_numeric or kind.name in ORDERED or kind.name == "INTERVAL"):
            message = f"DEFINE compares values of several rows that are of the types {kinds[0]} and {kinds[1]}"
            hint = "Cast both to a number, STRING, BOOLEAN, BINARY, DATE or TIMESTAMP."
            raise BindError(NOT_COMPUTED, message, span_of(left), hint=hint)
        return Compared(comparison, self.value(left, kind), self.value(right, kind))

    def _alike(self, values: Sequence[exp.Expr], node: exp.Expr) -> tuple[Expression, ...]:
        kind = common_type([self._types.of(value) for value in values])
        if kind.is_unknown:
            raise self.refusal(node)
        return tuple(self.value(value, kind) for value in values)

    def _chosen(self, branches: Sequence[exp.Expr], default: exp.Expr | None, node: exp.Expr) -> Expression:
        values = [branch.args["true"] for branch in branches]
        alike = self._alike([*values, default if default is not None else exp.Null()], node)
        return Chosen(tuple(self.value(branch.this, BOOLEAN) for branch in branches), alike)

    def _number(self, node: exp.Expr) -> Expression:
        if not self._types.of(node).is_numeric:
            raise self.refusal(node)
        return self.value(node)

    def _computed(self, node: exp.Expression, kind: DataType) -> Expression:
        operator, left, right = _ARITHMETIC[type(node)], node.this, node.expression
        names = {self._types.of(side).name for side in (left, right)}
        is_division = operator in (Arithmetic.DIVIDED, Arithmetic.MODULO)
        if kind.is_unknown or ("DECIMAL" in names and is_division and kind.name == "DECIMAL"):
            raise self.refusal(node, "Cast both sides to DOUBLE.")
        if kind.name == "DECIMAL":
            if "DECIMAL" not in names:
                raise self.refusal(node)
            return Computed(operator, self._decimal(left), self._decimal(right), kind)
        if kind.is_numeric:
            wide = kind if kind.name in ("FLOAT", "DOUBLE") else BIGINT
            return Computed(operator, self.value(left, wide), self.value(right, wide), wide)
        if operator not in (Arithmetic.PLUS, Arithmetic.MINUS) or names == {"DATE"}:
            raise self.refusal(node)
        return Computed(operator, self.value(left), self.value(right), kind)

    def refusal(self, node: exp.Expr, hint: str = _MATCH_HINT) -> BindError:
        message = "DEFINE computes of several rows, or of aggregates, what kernels do not compute"
        return BindError(NOT_COMPUTED, message, span_of(node), hint=hint)

    def _decimal(self, node: exp.Expr) -> Expression:
        """Integers become decimals."""
        digits = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}.get(self._types.of(node).name)
        return self.value(node) if digits is None else self.value(node, DataType("DECIMAL", (digits, 0)))


def _null(kind: DataType) -> exp.Expression:
    return exp.Null() if kind.is_unknown or kind.name == "VOID" else exp.Cast(this=exp.Null(), to=kind.to_sqlglot())
