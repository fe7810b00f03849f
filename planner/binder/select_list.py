"""What a select list says about its SELECT: whether it aggregates, the keys of GROUP BY ALL, aliases that it reads.

As in Spark, a column of FROM has precedence over an alias, and only aliases to the left of a column are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sqlstream.grammar.spans import mark_as, span_of
from sqlstream.grammar.trees import clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import GROUPING_CALLS, aggregate_name
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, is_whole_number, types_of
from sqlstream.planner.binder.generators import is_generator
from sqlstream.planner.binder.scope import Scope, Selected, Visible, expand
from sqlstream.planner.catalog import Catalog
from sqlstream.planner.expressions import (
    as_expression,
    is_repeatable,
    is_volatile,
    parenthesized,
    with_args,
    with_children_changed,
)
from sqlstream.planner.fields import Item, UniqueNames, field_of, shown_name
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.nodes import extended

# --- aggregates -----------------------------------------------------------------------------------------------


def is_aggregation(select: exp.Select, context: Context) -> bool:
    """Whether a SELECT has GROUP BY, HAVING, a window clause or an aggregate in its select list."""
    if select.args.get("group") or select.args.get("having") or clauses_of(select).window is not None:
        return True
    return any(aggregates(e, context.catalog) for e in select.expressions)


def aggregates(expression: exp.Expr, catalog: Catalog) -> bool:
    """Whether an expression contains an aggregate over the groups of its SELECT, outside of subqueries."""
    if isinstance(expression, exp.Query):
        return False
    if isinstance(expression, exp.Window):  # its own function may be an aggregate over rows; its arguments count
        return any(aggregates(child, catalog) for child in _inside_over(expression))
    if aggregate_name(expression, catalog) is not None:
        return True
    return any(aggregates(child, catalog) for child in expression.iter_expressions())


def _inside_over(window: exp.Window) -> Iterator[exp.Expr]:
    call = window.this
    while isinstance(call, AGGREGATE_WRAPPERS):
        call = call.this
    yield from call.iter_expressions()
    yield from (child for child in window.iter_expressions() if child is not window.this)


# --- GROUP BY ALL ---------------------------------------------------------------------------------------------


def with_all_keys(select: exp.Select, scope: Scope, context: Context) -> exp.Select:
    """Writes out GROUP BY ALL: its keys are all columns without aggregates, OVER and GROUPING, as in Spark and DuckDB.
    Without such columns there is one group, which has a result even for no rows.
    """
    group = select.args.get("group")
    if group is None or group.args.get("all") is not True:
        return select
    written = with_args(select, expressions=_without_stars(select.expressions, scope, context))
    keys = [
        _key(column, position)
        for position, column in enumerate(written.expressions, 1)
        if not (aggregates(column, context.catalog) or column.find(exp.Window) or _says_keys(column))
    ]
    has_aggregates = any(aggregates(column, context.catalog) for column in written.expressions)
    written.set("group", exp.Group(expressions=keys) if keys or not has_aggregates else None)
    if written.args.get("group"):
        mark_as(written.args["group"], group)
    return written


def _says_keys(column: exp.Expr) -> bool:
    return any(spark_name(call) in GROUPING_CALLS for call in column.find_all(exp.Func))


def _without_stars(expressions: list[exp.Expr], scope: Scope, context: Context) -> list[exp.Expr]:
    columns: list[exp.Expr] = []
    for expression in expressions:
        is_star = expression.is_star
        columns += [c.expression for c in expand([expression], scope, context)] if is_star else [expression]
    return columns


def _key(column: exp.Expr, position: int) -> exp.Expr:
    """The key that a column is; a number by its position, since a number in GROUP BY is one."""
    value = column.unalias()
    return exp.Literal.number(position) if is_whole_number(value.unnest()) else value.copy()


# --- aliases that later columns read --------------------------------------------------------------------------


def with_lateral_aliases(select: exp.Select, scope: Scope, context: Context) -> exp.Select:
    """Returns the SELECT in which names of earlier columns are replaced by their expressions: ``a + 1 AS b, b * 2``
    computes ``(a + 1) * 2``.

    Without groups, an alias of a random value or of a call of the user's code is left to ``with_computed_aliases``.
    BindError SS204 for an alias of two columns, UnsupportedError SS359 for one of a random value of a group.
    """
    columns, reader = list[exp.Expr](), AliasReader(scope, context, is_aggregation(select, context))
    for written in select.expressions:
        columns.append(reader.replaced(written))
        reader.add(columns[-1])
    if all(column is written for column, written in zip(columns, select.expressions, strict=True)):
        return select
    return with_args(select, expressions=columns)


def with_computed_aliases(columns: list[Selected], scope: Scope, context: Context) -> tuple[Scope, list[Selected]]:
    """Returns the scope in which a column that later columns read by its alias is computed once, so that all of them
    read the same value. It matters for random values and users' functions.
    """
    names = UniqueNames(f.name for f in scope.node.schema)
    computed, last_reader = list(columns), dict[str, int]()
    for i, column in enumerate(columns):
        for node in _outside(column.expression):
            if isinstance(node, exp.Column) and not scope.knows(node):
                last_reader[node.parts[0].name.casefold()] = i
    for i, column in enumerate(columns):
        own = {name.casefold() for name in column.aliases}
        if column.bound is not None or not own or is_generator(column.expression, context):
            continue
        if not any(last_reader.pop(name, i) > i for name in own):
            continue
        if not is_computed_once(column.expression):
            raise unsupported.refusal("alias of a random value", span_of(column.expression))
        value = bind(column.expression, scope, context, ClauseContext("SELECT"))
        types = types_of(scope, context)
        item = Item(names.unique(column.aliases[0]), value, types.of(value), types.nullable(value))
        visible = tuple(Visible(name, item.name, starred=False) for name in column.aliases)
        scope = scope.with_columns(extended(scope.node, [item]), visible)
        computed[i] = replace(column, bound=field_of(item.name))
    return scope, computed


def is_computed_once(expression: exp.Expr) -> bool:
    """True if a column of the select list has neither OVER nor a subquery. A projection below can then compute it once,
    for all columns that read it by its alias.
    """
    return expression.find(exp.Query, exp.Window) is None


_BY_ALIAS = "by_alias"
"""Metadata of subqueries of an expression that stands for its alias."""


def is_read_by_alias(node: exp.Expr) -> bool:
    """True if ``node`` is a subquery that was copied into an expression in place of the alias of an earlier column."""
    return bool(node.meta.get(_BY_ALIAS))


class AliasReader:
    """Replaces names of aliases in the select list by the expressions that they stand for."""

    def __init__(self, scope: Scope, context: Context, grouped: bool) -> None:
        self._aliases: dict[str, list[exp.Expr]] = {}
        self._scope = scope
        self._context = context
        self._grouped = grouped

    def add(self, column: exp.Expr) -> None:
        """Adds a column of the select list, whose alias later columns may name."""
        if isinstance(column, exp.Alias) and not is_generator(column.this, self._context):
            self._aliases.setdefault(column.alias.casefold(), []).append(column.this)

    def replaced(self, column: exp.Expr) -> exp.Expr:
        """The column with the aliases in its expression replaced; unchanged where it reads none."""
        if not self._aliases or not any(self._read(node) for node in _outside(column)):
            return column
        value = self._value(column)
        if isinstance(column, exp.Alias | exp.Aliases):
            return value
        return exp.Alias(this=value, alias=exp.to_identifier(shown_name(column), quoted=True))

    def _value(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node
        values = self._read(node)
        if not values:
            return with_children_changed(node, self._value)
        if len(values) > 1:
            message = f'"{node.name}" is the alias of {len(values)} columns'
            raise bind_error("SS204", message, node, "Give the columns different names with AS.")
        if not is_repeatable(values[0]) and (not self._grouped or is_volatile(values[0])):
            if self._grouped:
                raise unsupported.refusal("alias of a random value", span_of(node))
            return node
        value = parenthesized(as_expression(values[0].copy()))
        for part in value.walk():
            if isinstance(part, exp.Subquery | exp.Exists | exp.In):
                part.meta[_BY_ALIAS] = True
        assert isinstance(node, exp.Column)
        for part in node.parts[1:]:
            value = exp.Dot(this=value, expression=part.copy())
        mark_as(value, node)
        return value

    def _read(self, node: exp.Expr) -> list[exp.Expr]:
        """The expressions that a column names by their alias, as ``b`` or the first part of ``b.member``."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star) or self._scope.knows(node):
            return []
        return self._aliases.get(node.parts[0].name.casefold(), [])


def _outside(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression without those of its subqueries."""
    return expression.walk(prune=lambda node: isinstance(node, exp.Query))
