"""Queries of every shape: SELECT, set operations, parentheses, WITH."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import ARG, clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.clauses import with_emit
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.ordering import bind_ordered, is_ordered
from sqlstream.planner.binder.select import bind_select
from sqlstream.planner.binder.set_operations import bind_set_operation
from sqlstream.planner.binder.values import bind_values
from sqlstream.planner.suggestions import counted

_ORDER_HINT = (
    "Sort the rows where they are stored, or compute MAX_BY, MIN_BY or SORT_ARRAY(COLLECT_LIST(…)) in windows."
)


def bind_relation(query: exp.Expr, context: Context) -> Relation:
    """The plan of a query and the names of its columns."""
    if is_ordered(query):
        return bind_ordered(query, context, lambda plain: bind_relation(plain, context))
    match query:
        case exp.Select():
            refuse_sort(query, context)
            return bind_select(query, with_queries(query, context), bind_relation)
        case exp.SetOperation():
            return _set_operation(query, context)
        case exp.Subquery():
            return _parentheses(query, context)
        case exp.Values():
            return bind_values(query, context)
        case exp.Table():
            # TABLE t, or a name in parentheses
            return bind_relation(exp.select("*").from_(query.copy()), context)
    raise unsupported.refusal("syntax", span_of(query), f"It is {type(query).__name__.upper()}.")


def with_queries(query: exp.Expr, context: Context) -> Context:
    """The context in which the queries of WITH have names, each seeing those before it."""
    with_clause = query.args.get("with_")
    if with_clause is None:
        return context
    refuse_rest(with_clause, ("expressions",), context)
    for cte in with_clause.expressions:
        refuse_rest(cte, ("this", "alias"), context)
        relation = bind_relation(cte.this, context)
        columns = tuple(c.name for c in cte.args["alias"].columns)
        if columns and len(columns) != len(relation.names):
            message = f'"{cte.alias}" has {counted(len(relation.names), "column")}, not {len(columns)}'
            raise bind_error("SS216", message, cte.args["alias"])
        context = context.with_query(cte.alias, Relation(relation.node, columns or relation.names))
    return context


def refuse_sort(query: exp.Expr, context: Context) -> None:
    """Spark's sorts of partitions need all rows, and rows of a query come out as they are computed."""
    for key in _SORTS:
        sort = query.args.get(key)
        if sort is not None:
            message = f"{_SORTS[key]} needs all rows at once, and a query gives rows as they come"
            context.wrong("SS217", message, sort, _ORDER_HINT)


_SORTS = {"sort": "SORT BY", "distribute": "DISTRIBUTE BY", "cluster": "CLUSTER BY"}
_SORT_ARGS = tuple(_SORTS)


def _set_operation(query: exp.SetOperation, context: Context) -> Relation:
    refuse_sort(query, context)
    refuse_rest(query, ("this", "expression", "distinct", "with_", ARG, *_SORT_ARGS), context)
    relation = bind_set_operation(query, with_queries(query, context), bind_relation)
    return Relation(with_emit(clauses_of(query).emit, relation.node, query, context), relation.names)


def _parentheses(query: exp.Subquery, context: Context) -> Relation:
    refuse_sort(query, context)
    refuse_rest(query, ("this", "with_", "alias", ARG, *_SORT_ARGS), context)
    relation = bind_relation(query.this, with_queries(query, context))
    return Relation(with_emit(clauses_of(query).emit, relation.node, query, context), relation.names)
