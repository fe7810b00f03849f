"""Conditions move towards the sources, and into the requests of lookups, as far as that cannot change the result;
projections are merged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from itertools import islice

from sqlglot import exp

from sqlstream.planner.catalog import Table
from sqlstream.planner.expressions import (
    as_expression,
    both,
    columns_of,
    conjunction,
    conjuncts,
    is_repeatable,
    is_repeatable_alone,
    parenthesized,
    rewritten,
)
from sqlstream.planner.node import Conditions, Node, bottom_up
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.properties import Accepts
from sqlstream.planner.type_inference import Types
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Comparison

# --- merging ---------------------------------------------------------------------------------------------------


def merge_projects(plan: Node) -> Node:
    """Merge adjacent projections and adjacent filters, and remove projections that change nothing."""
    merge = Merging()

    def rule(node: Node) -> Node:
        if isinstance(node, Filter) and isinstance(node.input, Filter):
            return Filter(node.input.input, both(node.input.condition, node.condition))
        return merge(node) if isinstance(node, Project) else node

    return bottom_up(bottom_up(plan, rule), with_balanced_condition)


def with_balanced_condition(node: Node) -> Node:
    """Rebuilds the condition of a filter, a long chain of ANDs that were added one by one, as a balanced tree of
    logarithmic depth. Other nodes are unchanged.
    """
    if isinstance(node, Filter) and isinstance(node.condition, exp.And):
        return replace(node, condition=conjunction(conjuncts(node.condition)))
    return node


class Merging:
    """Merges the adjacent projections of one plan, from the sources upwards.

    Expressions of the lower projection are moved, not copied, because they grow with each projection into which they
    move.
    """

    def __init__(self) -> None:
        # By identity, with the expression, which so keeps its identity.
        self._repeatable: dict[int, tuple[exp.Expr, bool]] = {}

    def __call__(self, node: Project) -> Node:
        while isinstance(node.input, Project) and self._may_merge(node, node.input):
            node = _merged(node, node.input)
        if node.schema == node.input.schema and all(_is_same(i.name, i.expression) for i in node.items):
            return node.input
        return node

    def _may_merge(self, outer: Project, inner: Project) -> bool:
        """UNSAFE where an expression would be evaluated more often than before and is costly or gives another value."""
        reads = Counter(c.name for i in outer.items for c in i.expression.find_all(exp.Column))
        return all(
            _is_cheap(i.expression) or (reads[i.name] <= 1 and self._is_repeatable(i.expression)) for i in inner.items
        )

    def _is_repeatable(self, expression: exp.Expr) -> bool:
        cached = self._repeatable.get(id(expression))
        if cached is None:
            result = is_repeatable_alone(expression) and all(map(self._is_repeatable, expression.iter_expressions()))
            cached = self._repeatable[id(expression)] = (expression, result)
        return cached[1]


def _is_same(name: str, expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Column) and expression.name == name


def _is_cheap(expression: exp.Expr) -> bool:
    return isinstance(expression, (exp.Column, exp.Literal, exp.Boolean, exp.Null))


def _merged(outer: Project, inner: Project) -> Project:
    values = {i.name: i.expression for i in inner.items}

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in values:
            return node
        computed = values[node.name]
        return parenthesized(computed.copy() if _is_cheap(computed) else computed)

    items = tuple(replace(i, expression=as_expression(rewritten(i.expression, value))) for i in outer.items)
    return Project(inner.input, items)


# --- pushing ---------------------------------------------------------------------------------------------------


def push_filters(plan: Node) -> Node:
    """Move conditions towards the sources.

    Projections are merged on the way, so that a condition passes one instead of many.
    """
    merge = Merging()

    def rule(node: Node) -> Node:
        if isinstance(node, Filter):
            return filtered(node.input, conjuncts(node.condition))
        return merge(node) if isinstance(node, Project) else node

    return bottom_up(bottom_up(plan, rule), with_balanced_condition)


def filtered(node: Node, conditions: Conditions) -> Node:
    """Returns the node filtered by all conditions. Each filter is placed as deep in the plan as its condition
    allows.
    """
    pushed, kept = _divided(node, conditions, guarded=False)
    below = _pushed_below(node, pushed) if pushed else node
    return Filter(below, conjunction(kept)) if kept else below


def _pushed_below(node: Node, conditions: Conditions) -> Node:
    """``node`` with conditions below it, each of which passes it."""
    return (
        _with_more_conditions(node, conditions)
        if isinstance(node, Filter)
        else node.with_pushed_filters(conditions, filtered)
    )


def _with_more_conditions(node: Filter, conditions: Conditions) -> Node:
    """``node``, whose own conditions can go no deeper, filtered by more conditions."""
    pushed, kept = _divided(node.input, conditions, guarded=True)
    below = _pushed_below(node.input, pushed) if pushed else node.input
    return Filter(below, both(node.condition, conjunction(kept)) if kept else node.condition)


def _divided(node: Node, conditions: Conditions, guarded: bool) -> tuple[Conditions, Conditions]:
    """The conditions that go below ``node``, and those that remain above it.

    UNSAFE to let a condition that can fail (a division, a cast) overtake one that guards it and remains; ``guarded``:
    there is one already.
    """
    pushed: Conditions = []
    kept: Conditions = []
    types = Types(node.schema)
    for condition in conditions:
        below = is_repeatable(condition) and _stays_small(node, condition) and node.passes_filter(columns_of(condition))
        if below and (not (guarded or kept) or _cannot_fail(condition, types)):
            pushed.append(condition)
        else:
            kept.append(condition)
    return pushed, kept


_MOST_ADDED = 30
"""Nodes that a condition may grow by on its way through a projection, which then computes the same."""


def _stays_small(node: Node, condition: exp.Expr) -> bool:
    """False where the condition would hold large expressions of a projection, or hold them often: each projection
    below might double it again."""
    if not isinstance(node, Project):
        return True
    values = {i.name: i.expression for i in node.items}
    added = 0
    for column in condition.find_all(exp.Column):
        value = values[column.name]
        if not isinstance(value, exp.Column):
            added += sum(1 for _ in islice(value.walk(), _MOST_ADDED + 1))
        if added > _MOST_ADDED:
            return False
    return True


_TOTAL = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ,
    exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Like,
)  # fmt: skip


def _cannot_fail(condition: exp.Expr, types: Types) -> bool:
    """Comparisons of fields and literals of one type; others may cast, divide or call what raises an error."""
    if not all(isinstance(node, _TOTAL) for node in condition.walk()):
        return False
    values = [n for n in condition.walk() if isinstance(n, (exp.Column, exp.Literal))]
    families = {"NUMBER" if (kind := types.of(v)).is_numeric else kind.name for v in values}
    return len(families) == 1 and "UNKNOWN" not in families


# --- comparisons of looked-up columns with constants: the source checks them ----------------------------------


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
    """The default for parameters called ``accepts``: False for every comparison, so that no lookup source filters rows
    itself.
    """
    return False


def push_lookup_filters(plan: Node, accepts: Accepts = accepts_nothing) -> Node:
    """Moves conditions in ON of lookup joins into the request to the source, where ``accepts`` is true for the table
    and the condition.
    """
    return bottom_up(plan, lambda node: node.with_lookup_filters(accepts))


def comparisons(condition: exp.Expr, columns: Columns) -> tuple[Comparison, ...]:
    """Returns the comparisons with constants that together are equal to ``condition``, such as ``a > 3`` and ``a <= 5``
    for a BETWEEN. Empty for other conditions. ``columns`` maps the fields in the condition to the name and type of
    their columns.

    The column must not be converted for the comparison, as in ``name > 5`` for a STRING, because the source compares
    values of the column's own type.
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
    """The Python value of a literal of the column's type, or of one that fits it exactly; None for any other."""
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
