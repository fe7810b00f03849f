"""SELECT: FROM, WHERE, then a projection or an aggregation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sqlstream.grammar.trees import ARG, clauses_of
from sqlstream.planner.binder.above_groups import above_groups, with_values_below
from sqlstream.planner.binder.aggregation import bind_aggregation, bind_distinct
from sqlstream.planner.binder.calls import aggregate_name
from sqlstream.planner.binder.clauses import refuse_clauses, with_emit
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import BindQuery, Context, Relation
from sqlstream.planner.binder.correlation import Correlation, without_order
from sqlstream.planner.binder.current_watermark import with_watermark
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.generators import generate, is_generator
from sqlstream.planner.binder.match_recognize import with_matches
from sqlstream.planner.binder.named_arguments import with_positions
from sqlstream.planner.binder.ordering import is_ordered
from sqlstream.planner.binder.over import with_overs
from sqlstream.planner.binder.processing_time import with_processing_time
from sqlstream.planner.binder.quantified import without_quantifiers
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.select_list import Selected, expand
from sqlstream.planner.binder.sources import bind_from
from sqlstream.planner.binder.state_ttl import state_ttls
from sqlstream.planner.binder.subqueries import Subqueries, without_subqueries
from sqlstream.planner.binder.top_n import bounded
from sqlstream.planner.fields import Item
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS
from sqlstream.planner.naming import Names, field_name, field_of
from sqlstream.planner.nodes import Filter, Project

_CONSUMED = (
    "with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "order", "sort", "distribute",
    "cluster", "hint", "match", ARG,
)  # fmt: skip


_OVER = ("qualify", "windows")


def bind_select(
    select: exp.Select, context: Context, bind_query: BindQuery, correlation: Correlation | None = None
) -> Relation:
    """The plan of one SELECT. ``correlation``: where it is a subquery, what it reads of the query around it."""
    refuse_rest(select, (*_CONSUMED, *_OVER, "distinct"), context)
    select = without_quantifiers(with_positions(select, context))
    ttls = state_ttls(select, context)
    context = replace(context, ttl_of=ttls.of)
    subqueries = Subqueries(context, lambda query, inside, read: _subquery(query, inside, bind_query, read))
    scope, where = bind_from(select, context, bind_query, subqueries)
    if correlation is not None:
        aggregates = is_aggregation(select, context)
        select, where = correlation.parted(select, where, scope, aggregates=aggregates, catalog=context.catalog)
    relation = _selected(select, scope, where, subqueries, context)
    distinct = select.args.get("distinct")
    if distinct is not None:
        refuse_rest(distinct, (), context)
        relation = bind_distinct(relation, distinct, scope.tables, context)
    ttls.finish(scope.tables, context)
    return relation


def _subquery(query: exp.Expr, context: Context, bind_query: BindQuery, correlation: Correlation) -> Relation:
    """What reads the query around it is one SELECT without ORDER BY and WITH, of which the order does not matter."""
    inner = without_order(query, correlation)
    if isinstance(inner, exp.Select) and not is_ordered(inner) and not inner.args.get("with_"):
        return bind_select(inner, context, bind_query, correlation)
    return bind_query(inner, context)


def _selected(
    select: exp.Select, scope: Scope, where: exp.Expr | None, subqueries: Subqueries, context: Context
) -> Relation:
    """Without DISTINCT."""
    scope = with_matches(select, scope, context)  # whose columns are all that the rest of the query knows
    select, where, scope = with_watermark(select, where, scope, context)
    if where is not None:
        scope = _filtered(where, scope, subqueries, context)
    if is_aggregation(select, context):
        return _aggregated(select, scope, subqueries, context)
    refuse_clauses(clauses_of(select), context)
    relation = _projection(select, expand(select.expressions, scope, context), scope, subqueries, context)
    return Relation(with_emit(clauses_of(select).emit, relation.node, select, context), relation.names)


def _aggregated(select: exp.Select, scope: Scope, subqueries: Subqueries, context: Context) -> Relation:
    """The groups, and above them what is computed once they are known."""
    above = above_groups(select, scope, context)
    if above is None:
        refuse_rest(select, (*_CONSUMED, "distinct"), context)
        return bind_aggregation(*with_values_below(select, scope, subqueries.valued, context), context)
    groups = bind_aggregation(*with_values_below(above.groups, scope, subqueries.valued, context), context)
    context.stop_if_wrong()
    of_groups = subqueries.filtered(above.scope(groups, scope), above.conditions)
    return _projection(above.select, above.columns, of_groups, subqueries, context)


def _filtered(where: exp.Expr, scope: Scope, subqueries: Subqueries, context: Context) -> Scope:
    """Conditions with subqueries look at the rows that all others leave."""
    plain, asking = without_subqueries(where)
    if plain is not None:
        condition = bind_condition(plain, scope, context, ClauseContext("WHERE"))
        scope = scope.over(bounded(Filter(scope.node, condition), context, where))
    return subqueries.filtered(scope, asking)


def is_aggregation(select: exp.Select, context: Context) -> bool:
    """True with GROUP BY, HAVING, a window clause or an aggregate in the select list."""
    if select.args.get("group") or select.args.get("having") or clauses_of(select).window is not None:
        return True
    return any(_aggregates(e, context) for e in select.expressions)


def _aggregates(expression: exp.Expr, context: Context) -> bool:
    if isinstance(expression, exp.Query):
        return False
    if isinstance(expression, exp.Window):  # whose own function sees rows, or groups where its arguments do
        return any(_aggregates(child, context) for child in _inside_over(expression))
    if aggregate_name(expression, context.catalog) is not None:
        return True
    return any(_aggregates(child, context) for child in expression.iter_expressions())


def _inside_over(window: exp.Window) -> Iterator[exp.Expr]:
    call = window.this
    while isinstance(call, AGGREGATE_WRAPPERS):
        call = call.this
    yield from call.iter_expressions()
    yield from (child for child in window.iter_expressions() if child is not window.this)


def _projection(
    select: exp.Select, columns: list[Selected], scope: Scope, subqueries: Subqueries, context: Context
) -> Relation:
    scope, columns = with_processing_time(columns, scope)
    scope, columns, asking = with_overs(select, columns, scope, context)
    scope = subqueries.filtered(scope, asking)
    scope, columns = _generated(columns, scope, context)
    scope, columns = subqueries.selected(columns, scope)
    names, items = Names(), []
    for column in columns:
        items.append(item(column, scope, context, names))
    return Relation(Project(scope.node, tuple(items)), tuple(c.name for c in columns))


def item(column: Selected, scope: Scope, context: Context, names: Names) -> Item:
    """One column of the select list, bound over ``scope``; a renamed time attribute stays one."""
    bound = (
        column.bound if column.bound is not None else bind(column.expression, scope, context, ClauseContext("SELECT"))
    )
    types = types_of(scope, context)
    field = scope.fields.get(bound.name) if isinstance(bound, exp.Column) else None
    name = names.unique(field_name(column.name, column.expression))
    return Item(name, bound, types.of(bound), types.nullable(bound), field.time if field else None)


def _generated(columns: list[Selected], scope: Scope, context: Context) -> tuple[Scope, list[Selected]]:
    """EXPLODE and its kin in the select list become a Correlate each, one above the other: as in Spark, each row of one
    meets all of the next."""
    shown: list[Selected] = []
    for column in columns:
        if column.bound is not None or not is_generator(column.expression, context):
            shown.append(column)
            continue
        node, names = generate(column.expression, list(column.aliases), scope, False, context)
        outputs = zip(names, node.outputs, strict=True)
        shown += [Selected(name, column.expression, field_of(field.name)) for name, field in outputs]
        scope = scope.over(node)
    return scope, shown
