"""Comparisons of a looked-up column with constants go into the request, where the source checks them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from sqlstream.planner.catalog import Table
from sqlstream.planner.expressions import as_expression
from sqlstream.planner.node import Node, bottom_up
from sqlstream.planner.properties import Accepts
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Comparison

Columns = dict[str, tuple[str, DataType]]
"""Name and type of the physical columns by the name of their output."""

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_OPERATORS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("<>", "<>"),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""Spelled with the column on the left, and on the right."""


def accepts_nothing(table: Table, comparison: Comparison) -> bool:
    """No source checks anything."""
    return False


def push_lookup_filters(plan: Node, accepts: Accepts = accepts_nothing) -> Node:
    """Conjuncts of ON that the source of a table ``accepts`` become filters of the lookup."""
    return bottom_up(plan, lambda node: node.with_lookup_filters(accepts))


def comparisons(condition: exp.Expr, columns: Columns) -> tuple[Comparison, ...]:
    """What a conjunct asks of one column, all of which must hold; empty where it is no such comparison.

    UNSAFE where Spark would convert the column, as in ``name > 5``: the source compares values of its type only.
    """
    match condition:
        case exp.Paren():
            return comparisons(condition.this, columns)
        case exp.Is(this=exp.Column() as column, expression=exp.Null()):
            return _null(column, "IS NULL", columns)
        case exp.Not(this=exp.Is(this=exp.Column() as column, expression=exp.Null())):
            return _null(column, "IS NOT NULL", columns)
        case exp.Between(this=exp.Column() as column) if not condition.args.get("symmetric"):
            bounds = ((">=", condition.args["low"]), ("<=", condition.args["high"]))
            compared = [c for operator, bound in bounds for c in _compared(column, operator, bound, columns)]
            return tuple(compared) if len(compared) == len(bounds) else ()
        case exp.In(this=exp.Column() as column) if condition.expressions:
            return _listed(column, condition.expressions, columns)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _compared_either_way(condition, columns)
    return ()


def _null(column: exp.Column, operator: str, columns: Columns) -> tuple[Comparison, ...]:
    return (Comparison(columns[column.name][0], operator),) if column.name in columns else ()


def _compared_either_way(condition: exp.Binary, columns: Columns) -> tuple[Comparison, ...]:
    straight, turned = _OPERATORS[type(condition)]
    if isinstance(condition.left, exp.Column):
        return _compared(condition.left, straight, condition.right, columns)
    if isinstance(condition.right, exp.Column):
        return _compared(condition.right, turned, condition.left, columns)
    return ()


def _compared(column: exp.Column, operator: str, value: exp.Expr, columns: Columns) -> tuple[Comparison, ...]:
    if column.name not in columns:
        return ()
    name, kind = columns[column.name]
    constant = constant_of(value, kind)
    return () if constant is None else (Comparison(name, operator, constant),)


def _listed(column: exp.Column, values: list[exp.Expr], columns: Columns) -> tuple[Comparison, ...]:
    if column.name not in columns:
        return ()
    name, kind = columns[column.name]
    constants = tuple(constant_of(v, kind) for v in values)
    return () if any(c is None for c in constants) else (Comparison(name, "IN", constants),)


# --- constants ------------------------------------------------------------------------------------------------


def constant_of(value: exp.Expr, kind: DataType) -> object | None:
    """The Python value of a literal that has the column's type, or fits it exactly; None for any other."""
    match value:
        case exp.Paren():
            return constant_of(value.this, kind)
        case exp.Neg(this=exp.Literal(is_string=False) as inner):
            return _number(f"-{inner.name}", kind)
        case exp.Boolean():
            return bool(value.this) if kind.name == "BOOLEAN" else None
        case exp.Literal(is_string=True):
            return value.name if kind.name == "STRING" else None
        case exp.Literal():
            return _number(value.name, kind)
        case exp.Cast(this=exp.Literal(is_string=True) as inner):
            return _time(inner.name, as_expression(value), kind)
    return None


def _number(text: str, kind: DataType) -> object | None:
    try:
        decimal = Decimal(text)
    except InvalidOperation:
        return None
    if kind.name in _INTEGERS:
        # UNSAFE with a fraction, for which sources round differently.
        return int(decimal) if decimal == decimal.to_integral_value() and "e" not in text.lower() else None
    if kind.name == "DECIMAL":
        return decimal if "e" not in text.lower() else None
    return float(text) if kind.name == "DOUBLE" else None


def _time(text: str, cast: exp.Expression, kind: DataType) -> object | None:
    """DATE '…' and TIMESTAMP '…' of the column's own type; instants are in UTC.

    UNSAFE without an offset: what instant it is depends on the session's time zone.
    """
    to = cast.args["to"].this.name
    try:
        if kind.name == "DATE" and to == "DATE":
            return date.fromisoformat(text)
        if kind.name == "TIMESTAMP" and to == "TIMESTAMPTZ":
            instant = datetime.fromisoformat(text)
            return None if instant.tzinfo is None else instant.astimezone(UTC)
        if kind.name == "TIMESTAMP_NTZ" and to in ("TIMESTAMPNTZ", "TIMESTAMP"):
            parsed = datetime.fromisoformat(text)
            return parsed if parsed.tzinfo is None else None
    except ValueError:
        pass
    return None
