"""Expressions over the columns of files and messages, compiled for tasks (``udfs.expressions``).

Only what Arrow computes exactly as Spark does, and what raises no error for any row: comparisons of values of one type
and of decimals, IN, BETWEEN, IS NULL, LIKE, logic of three values, the remainder of whole numbers, +, - and * of
decimals where nothing overflows, CASE, IF, COALESCE, NULLIF of texts, LOWER, SPLIT_INDEX, HOUR, and DATE_FORMAT and
REGEXP_EXTRACT of patterns that all read alike (``tests/fuzz/columns.py`` compares them); and scalar functions of users,
called with the arrays that Spark would give them. Catalyst computes everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from sqlglot import exp

from sqlstream.functions.result_types import as_decimal, precision_and_scale, wider
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.catalog import Function, FunctionKind, Table, TimeDomain
from sqlstream.planner.expressions import conjuncts
from sqlstream.planner.fields import Item
from sqlstream.planner.kernel_expressions import Compiler
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Project, Scan
from sqlstream.planner.physical.patterns import format_of_time, with_named_groups
from sqlstream.planner.physical.sources import PlannedSources
from sqlstream.planner.type_inference import Types, call_arguments, number_type, smallest_decimal
from sqlstream.types import BIGINT, BOOLEAN, INT, STRING, TIMESTAMP, UNKNOWN, DataType
from sqlstream.udfs.expressions.tree import (
    Added,
    Arithmetic,
    Called,
    Chosen,
    Clock,
    Coalesced,
    Column,
    ColumnStep,
    Compared,
    Comparison,
    Computed,
    Constant,
    Converted,
    Expression,
    Extracted,
    Formatted,
    Hour,
    Kept,
    Like,
    Lowered,
    Not,
    SplitIndex,
)

FILE_TYPES = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING",
                        "BINARY", "DATE", "TIMESTAMP"})  # fmt: skip
"""Types of columns that pyarrow reads from a file as Spark does."""

_COMPARED = FILE_TYPES - {"DECIMAL", "BINARY"}
_PASSED = FILE_TYPES - {"TIMESTAMP"}
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})

_MOST = (1 << 63) - 1
_DIGITS = 38
"""Of the largest decimals."""

_OF_TIMES = frozenset({"DATE_FORMAT", "HOUR"})
_OF_TEXTS = frozenset({"LOWER", "NULLIF", "REGEXP_EXTRACT", "SPLIT_INDEX"})

_ARITHMETIC: dict[type[exp.Expr], Arithmetic] = {
    exp.Add: Arithmetic.PLUS,
    exp.Sub: Arithmetic.MINUS,
    exp.Mul: Arithmetic.TIMES,
}


def read_columns(table: Table) -> tuple[TableColumn, ...]:
    """The columns that a source reads: those that are stored, and metadata."""
    return tuple(c for c in table.columns if c.expression is None)


class ComputedBySpark(Exception):
    """An expression that tasks do not compute."""


class ColumnCompiler(Compiler):
    """Compiles filters and projections from a table upwards, step by step; ComputedBySpark for what Spark must
    compute. ``steps`` are those so far.
    """

    def __init__(self, scan: Scan, sources: PlannedSources, calls: bool) -> None:
        self._function, self._zone, self._may_call = sources.function, sources.zone, calls
        self._in_filter = False
        self._fields = {
            c.name: (c.name, c.type)
            for c in read_columns(scan.table)
            if c.name in scan.columns and c.type.name in FILE_TYPES
        }
        self.steps: list[ColumnStep] = []

    def add(self, node: Node, read: frozenset[str]) -> None:
        """Adds what a node does to the fields that are ``read`` of it."""
        match node:
            case Scan():
                self._types = Types(node.schema, self._function)
                for predicate in node.predicates:
                    self._filter(predicate)
            case Project():
                self._types = Types(node.input.schema, self._function)
                self._fields = {item.name: self._item(item) for item in node.items if item.name in read}
            case Filter():
                self._types = Types(node.input.schema, self._function)
                self._filter(node.condition)
            case AssignTime(domain=TimeDomain.PROCESSING) if node.column in read:
                self._fields |= {node.column: self._computed(Clock(), TIMESTAMP)}

    def compute(self, node: Node, expressions: Mapping[str, exp.Expression]) -> None:
        """Adds expressions over the fields of a node, as fields of their names."""
        self._types = Types(node.schema, self._function)
        computed = {name: self._computed(*self.value(expression)) for name, expression in expressions.items()}
        self._fields |= computed

    def _computed(self, value: Expression, kind: DataType) -> tuple[str, DataType]:
        name = f"__computed_{len(self.steps)}"
        self.steps.append(Added(value, name))
        return name, kind

    def _filter(self, condition: exp.Expr) -> None:
        self._in_filter = True
        for part in conjuncts(condition):
            self.steps.append(Kept(self.condition(part)))
        self._in_filter = False

    def _item(self, item: Item) -> tuple[str, DataType]:
        """The column of a projection's item, which a step computes if it is none yet."""
        if isinstance(item.expression.unnest(), exp.Column):
            return self.field(item.expression)
        value, kind = self.value(item.expression)
        if kind != item.type and not item.type.is_unknown:
            raise self.refusal(item.expression)
        return self._computed(value, kind)

    def field(self, node: exp.Expr | str) -> tuple[str, DataType]:
        """The column of a field at this step, by its name or as an expression, and its type."""
        name = node if isinstance(node, str) else node.unnest().name if isinstance(node.unnest(), exp.Column) else None
        found = None if name is None else self._fields.get(name)
        if found is None:
            raise ComputedBySpark(node)
        return found

    def column(self, node: exp.Expr) -> tuple[Column, DataType]:
        """The column that an expression is, and its type."""
        name, kind = self.field(node)
        return Column(name), kind

    def condition(self, node: exp.Expr) -> Expression:
        node = node.unnest()
        if isinstance(node, exp.Column):
            column, kind = self.column(node)
            if kind.name == "BOOLEAN":
                return column
        compiled = self._like(node) if isinstance(node, exp.Like) else self.logic(node)
        if compiled is None:
            raise self.refusal(node)
        return compiled

    def _like(self, node: exp.Like) -> Expression:
        pattern = node.expression
        text, kind = self.column(node.this.unnest())
        if not _is_text(pattern) or "\\" in pattern.name or kind.name != "STRING":
            raise self.refusal(node)
        like = Like(text, pattern.name)
        return Not(like) if node.args.get("negate") else like

    def nullable(self, node: exp.Expr) -> Expression:
        if self._calls(_OF_TEXTS, node.unnest()):
            return self._of_texts(node.unnest())
        return self.column(node)[0]

    # --- values -------------------------------------------------------------------------------------------------

    def _calls(self, functions: frozenset[str], node: exp.Expr) -> bool:
        """True for one of these functions that is Spark's, not one of the user's with its name."""
        return isinstance(node, exp.Anonymous) and node.name.upper() in functions and self._function(node.name) is None

    def value(self, node: exp.Expr) -> tuple[Expression, DataType]:
        """A value with the type that Spark gives it. None of them raises an error for any row."""
        node = node.unnest()
        match node:
            case exp.Column():
                return self.column(node)
            case exp.Literal() | exp.Neg(this=exp.Literal(is_string=False)):
                return self._literal(node)
            case exp.Add() | exp.Sub() | exp.Mul():
                return self._decimals(node)
            case exp.Case(this=None) | exp.If():
                return self._chosen(node)
            case exp.Coalesce():
                values, kind = self._alike([node.this, *node.expressions], node)
                return Coalesced(values), kind
            case exp.Mod() | exp.Anonymous(this="MOD"):
                remainder, _ = self._operand(node)
                dividend, divisor = call_arguments(node) if isinstance(node, exp.Anonymous) else (node.left, node.right)
                kind = wider(self._types.of(dividend), self._types.of(divisor))
                return (remainder if kind == BIGINT else Converted(remainder, kind)), kind
            case exp.Anonymous() if self._calls(_OF_TEXTS, node):
                return self._of_texts(node), STRING
            case exp.Anonymous() if self._calls(_OF_TIMES, node):
                return self._of_times(node)
            case exp.Anonymous() if (function := self._function(node.name)) is not None:
                return self._called(function, node)
        return self.condition(node), BOOLEAN

    def _literal(self, node: exp.Literal | exp.Neg) -> tuple[Expression, DataType]:
        if _is_text(node):
            return Constant(node.this, STRING), STRING
        text = _number(node) or ""
        kind = number_type(text.lstrip("-"))
        if kind.name not in ("INT", "BIGINT"):
            return self._decimal(node)
        if kind == BIGINT and text.startswith("-"):  # the least INT has Spark's type by its sign
            raise self.refusal(node)
        return Constant(int(text), kind), kind

    def _decimals(self, node: exp.Add | exp.Sub | exp.Mul) -> tuple[Expression, DataType]:
        """Of decimals, where the type of the result has all digits, and nothing overflows."""
        kind = self._types.of(node)
        if kind.name != "DECIMAL":
            raise self.refusal(node)
        (left, _), (right, _) = self._decimal(node.left), self._decimal(node.right)
        if not (left.columns or right.columns):
            raise self.refusal(node)
        return Computed(_ARITHMETIC[type(node)], left, right, kind), kind

    def _decimal(self, node: exp.Expr) -> tuple[Expression, DataType]:
        """A decimal or whole number as the decimal that Spark computes with."""
        node = node.unnest()
        if (text := _number(node)) is not None:
            digits = text.lstrip("-")
            kind = number_type(digits)
            kind = kind if kind.name not in _WHOLE else smallest_decimal(digits)
            if kind.name != "DECIMAL" or precision_and_scale(kind)[0] > _DIGITS:
                raise self.refusal(node)
            return Constant(Decimal(text), kind), kind
        value, kind = self.value(node)
        decimal = as_decimal(kind)
        if decimal is None:
            raise self.refusal(node)
        return (value if decimal == kind else Converted(value, decimal)), decimal

    def _chosen(self, node: exp.Case | exp.If) -> tuple[Expression, DataType]:
        branches = [node] if isinstance(node, exp.If) else node.args["ifs"]
        default = node.args.get("false" if isinstance(node, exp.If) else "default")
        values, kind = self._alike([*(b.args["true"] for b in branches), default or exp.Null()], node)
        return Chosen(tuple(self.condition(branch.this) for branch in branches), values), kind

    def _alike(self, nodes: list[exp.Expr], node: exp.Expr) -> tuple[tuple[Expression, ...], DataType]:
        """Values of one type, and NULLs."""
        given = [None if isinstance(value.unnest(), exp.Null) else self.value(value) for value in nodes]
        kinds = {typed[1] for typed in given if typed is not None}
        if len(kinds) != 1:
            raise self.refusal(node)
        (kind,) = kinds
        return tuple(Constant(None, kind) if typed is None else typed[0] for typed in given), kind

    # --- times, and functions of users ------------------------------------------------------------------------

    def _of_times(self, node: exp.Anonymous) -> tuple[Expression, DataType]:
        time, *pattern = node.expressions
        value, kind = self.value(time)
        if self._zone is not None and kind.name == "TIMESTAMP":
            if not pattern:
                return Hour(value, self._zone), INT
            text = format_of_time(pattern[0].name) if _is_text(pattern[0]) else None
            if text is not None:
                return Formatted(value, text, self._zone), STRING
        raise self.refusal(node)

    def _called(self, function: Function, node: exp.Anonymous) -> tuple[Expression, DataType]:
        """A call of a user's function as a column: filters wait for what Catalyst asks before it calls one. Times come
        to functions in the zone of the session, which tasks do not know.
        """
        is_taken = self._may_call and not self._in_filter and function.kind is FunctionKind.SCALAR
        if not is_taken or not function.deterministic or function.returns.name not in _PASSED:
            raise self.refusal(node)
        given = [self.value(argument) for argument in node.expressions]
        declared = [kind for _, kind in function.parameters] + [UNKNOWN] * (len(given) - len(function.parameters))
        if not any(value.columns for value, _ in given):
            raise self.refusal(node)
        for (_, kind), wanted in zip(given, declared, strict=False):
            if kind.name not in _PASSED or not (wanted.is_unknown or wanted == kind):
                raise self.refusal(node)
        return Called(function.name, tuple(value for value, _ in given), function.returns), function.returns

    # --- texts --------------------------------------------------------------------------------------------------

    def _of_texts(self, node: exp.Expr) -> Expression:
        match node.name.upper(), node.expressions:
            case "LOWER", [text]:
                return Lowered(self._text(text))
            case "NULLIF", [text, other]:
                read = self._text(text)
                return Chosen((Compared(Comparison.EQUAL, read, self._text(other)),), (Constant(None, STRING), read))
            case "SPLIT_INDEX", [text, exp.Literal(is_string=True) as separator, exp.Literal(is_string=False) as index]:
                number = _whole_number(index)
                if separator.name and "\\" not in separator.name and number is not None and number < 1 << 16:
                    return SplitIndex(self._text(text), separator.name, number)
            case "REGEXP_EXTRACT", [text, exp.Literal(is_string=True) as pattern, *group]:
                of_groups, number = with_named_groups(pattern.name), _whole_number(group[0]) if group else 1
                if of_groups is not None and number is not None and 0 <= number <= of_groups[1]:
                    return Extracted(self._text(text), of_groups[0], number)
        raise self.refusal(node)

    def _text(self, node: exp.Expr) -> Expression:
        text, kind = self.value(node)
        if kind.name != "STRING":
            raise self.refusal(node)
        return text

    # --- comparisons --------------------------------------------------------------------------------------------

    def _of_decimals(self, comparison: Comparison, left: exp.Expr, right: exp.Expr) -> Expression:
        (first, kind), (second, other) = self._decimal(left), self._decimal(right)
        (p1, s1), (p2, s2) = precision_and_scale(kind), precision_and_scale(other)
        scale = max(s1, s2)
        both = DataType("DECIMAL", (max(p1 - s1, p2 - s2) + scale, scale))
        if precision_and_scale(both)[0] > _DIGITS or not (first.columns or second.columns):
            raise self.refusal(left)
        return Compared(comparison, Converted(first, both), Converted(second, both))

    def compared(self, comparison: Comparison, left: exp.Expr, right: exp.Expr) -> Expression:
        if "DECIMAL" in (self._types.of(left.unnest()).name, self._types.of(right.unnest()).name):
            return self._of_decimals(comparison, left, right)
        (first, kind), (second, other) = self._operand(left), self._operand(right)
        if kind != other and not {kind.name, other.name} <= _WHOLE:
            raise self.refusal(left)
        if not (first.columns or second.columns):
            raise self.refusal(left)
        if kind != other:
            first, second = Converted(first, BIGINT), Converted(second, BIGINT)
        return Compared(comparison, first, second)

    def _operand(self, node: exp.Expr) -> tuple[Expression, DataType]:
        node = node.unnest()
        match node:
            case exp.Column():
                column, kind = self.column(node)
                if kind.name in _COMPARED:
                    return column, kind
            case exp.Anonymous() if self._calls(_OF_TEXTS, node):
                return self._of_texts(node), STRING
            case exp.Anonymous() if self._calls(_OF_TIMES, node):
                return self._of_times(node)
            case exp.Literal(is_string=True):
                return Constant(node.this, STRING), STRING
            case exp.Mod(this=dividing, expression=by):
                return self._remainder(node, dividing, by)
            case exp.Anonymous(this="MOD", expressions=[dividing, by]) if self._function("MOD") is None:
                return self._remainder(node, dividing, by)
        number = _whole_number(node)
        if number is None:
            raise self.refusal(node)
        return _constant(number), BIGINT

    def _remainder(self, node: exp.Expr, dividing: exp.Expr, by: exp.Expr) -> tuple[Expression, DataType]:
        dividend, kind = self._operand(dividing)
        divisor = _whole_number(by)
        if kind.name not in _WHOLE or divisor in (None, 0, -1):
            raise self.refusal(node)
        return Computed(Arithmetic.MODULO, Converted(dividend, BIGINT), _constant(divisor), BIGINT), BIGINT

    def refusal(self, node: exp.Expr) -> Exception:
        return ComputedBySpark(node)


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _constant(number: int | None) -> Constant:
    return Constant(number, BIGINT)


def _number(node: exp.Expr) -> str | None:
    """The text of a number that is written out, with its sign."""
    sign, literal = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
    return f"{sign}{literal.this}" if isinstance(literal, exp.Literal) and not literal.is_string else None


def _whole_number(node: exp.Expr) -> int | None:
    """The value of a whole number that is written out and fits into BIGINT."""
    text = _number(node.unnest())
    if text is None or not text.removeprefix("-").isdigit():
        return None
    return number if abs(number := int(text)) <= _MOST else None
