"""Queries without state whose filters and projections tasks compute over the columns of the files that they read, so
that only the rows of the result cross into Java.

Only what Arrow computes exactly as Spark does: columns as they are, comparisons of values of one type, IN, BETWEEN, IS
NULL, logic of three values, and the remainder of whole numbers. Catalyst computes everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.bad_rows import checked_columns
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.catalog import Function, Table
from sqlstream.planner.expressions import columns_of, conjuncts, substituted
from sqlstream.planner.fields import field_of
from sqlstream.planner.kernel_expressions import Compiler
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Insert, Output, Project, Scan
from sqlstream.types import BIGINT, STRING, DataType
from sqlstream.udfs.expressions.tree import (
    Arithmetic,
    Column,
    Compared,
    Comparison,
    Computed,
    Constant,
    Converted,
    Expression,
)

FILE_TYPES = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING",
                        "BINARY", "DATE", "TIMESTAMP"})  # fmt: skip
"""Types of columns that pyarrow reads from a file as Spark does."""

_COMPARED = FILE_TYPES - {"DECIMAL", "BINARY"}
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})

_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class ColumnQuery:
    """A query over one table of files that tasks compute. ``conditions``: all must be true for a row of the result.
    ``items``: the columns of the result by their names, each a column of the table.
    """

    scan: Scan
    conditions: tuple[Expression, ...]
    items: tuple[tuple[str, TableColumn], ...]

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The columns of the table that are read."""
        names = {column.name for condition in self.conditions for column in condition.columns}
        names |= {column.name for _, column in self.items}
        return tuple(c for c in self.scan.table.physical_columns if c.name in names)

    @property
    def has_letters(self) -> bool:
        """Whether records that cannot be read leave the tasks, too, as dead letters."""
        return self.scan.on_error.table is not None


def column_query(root: Output | Insert, function: Callable[[str], Function | None]) -> ColumnQuery | None:
    """The query that tasks compute for ``root``; None where Spark must compute a part of it. ``function`` returns the
    user's function of a name.
    """
    values: dict[str, exp.Expression] = {f.name: field_of(f.name) for f in root.input.schema}
    conditions: list[exp.Expression] = []
    below: Node = root.input
    while not isinstance(below, Scan):
        match below:
            case Project():
                # A value of several columns would double what reads it twice, in each projection below once more.
                given = {i.name: i.expression for i in below.items if len([*i.expression.find_all(exp.Column)]) == 1}
                if not set().union(*map(columns_of, [*values.values(), *conditions])) <= given.keys():
                    return None
                values = {name: substituted(value, given) for name, value in values.items()}
                conditions = [substituted(condition, given) for condition in conditions]
            case Filter():
                conditions += conjuncts(below.condition)
            case AssignTime():
                pass
            case _:
                return None
        below = below.input
    if below.on_error.tolerates and _checks_rows(below.table):
        return None
    compiler = _ColumnCompiler(below, function)
    try:
        compiled = tuple(compiler.condition(condition) for condition in (*below.predicates, *conditions))
        items = tuple((name, compiler.column(value)) for name, value in values.items())
    except _ComputedBySpark:
        return None
    return ColumnQuery(below, compiled, items)


def _checks_rows(table: Table) -> bool:
    """Whether rows may be bad that can be read: Spark finds those, and makes dead letters of them."""
    members = (part for c in table.physical_columns for part in c.type.parts())
    return bool(checked_columns(table)) or any(not part.nullable for part in members)


class _ComputedBySpark(Exception):
    """An expression that tasks do not compute."""


class _ColumnCompiler(Compiler):
    """Compiles conditions over the columns of one table; _ComputedBySpark for what Spark must compute."""

    def __init__(self, scan: Scan, function: Callable[[str], Function | None]) -> None:
        self._function = function
        self._columns = {c.name: c for c in scan.table.physical_columns if c.name in scan.columns}

    def column(self, node: exp.Expr) -> TableColumn:
        """The column of the table that an expression is."""
        node = node.unnest()
        column = self._columns.get(node.name) if isinstance(node, exp.Column) else None
        if column is None or column.type.name not in FILE_TYPES:
            raise self.refusal(node)
        return column

    def condition(self, node: exp.Expr) -> Expression:
        node = node.unnest()
        if isinstance(node, exp.Column) and self.column(node).type.name == "BOOLEAN":
            return Column(node.name)
        compiled = self.logic(node)
        if compiled is None:
            raise self.refusal(node)
        return compiled

    def nullable(self, node: exp.Expr) -> Expression:
        return Column(self.column(node).name)

    def compared(self, comparison: Comparison, left: exp.Expr, right: exp.Expr) -> Expression:
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
                kind = self.column(node).type
                if kind.name in _COMPARED:
                    return Column(node.name), kind
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
        return _ComputedBySpark(node)


def _constant(number: int | None) -> Constant:
    return Constant(number, BIGINT)


def _whole_number(node: exp.Expr) -> int | None:
    """The value of a whole number that is written out and fits into BIGINT."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        number = _whole_number(node.this)
        return None if number is None else -number
    if not isinstance(node, exp.Literal) or node.is_string or not node.this.isdigit():
        return None
    return number if (number := int(node.this)) <= _MOST else None
