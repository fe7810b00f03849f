"""Queries of every shape: SELECT, set operations, parentheses, WITH."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream.functions.result_types import common_type, incompatible
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import ARG, clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.aggregation import bind_distinct
from sqlstream.planner.binder.context import BindQuery, Context, Relation, bind_error, refuse_rest
from sqlstream.planner.binder.firing import with_emit
from sqlstream.planner.binder.ordering import bind_ordered, is_ordered
from sqlstream.planner.binder.scope import names_under
from sqlstream.planner.binder.select import bind_select
from sqlstream.planner.binder.sources import bind_values
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Field, Item, UniqueNames, field_name, field_of
from sqlstream.planner.nodes import Project, Union
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.planner.type_inference import cast
from sqlstream.udfs.changes import SetKind

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
    """The context with the queries of WITH, each of which sees those before it. SS216."""
    with_clause = query.args.get("with_")
    if with_clause is None:
        return context
    if with_clause.args.get("recursive"):  # a query that names itself has no columns yet
        raise unsupported.refusal("recursive", span_of(with_clause))
    refuse_rest(with_clause, ("expressions",), context)
    for cte in with_clause.expressions:
        refuse_rest(cte, ("this", "alias"), context)
        relation = bind_relation(cte.this, context)
        names = names_under(cte.args["alias"], cte.alias, relation.names)
        context = context.with_query(cte.alias, Relation(relation.node, names))
    return context


def refuse_sort(query: exp.Expr, context: Context) -> None:
    """Report SS217 for SORT BY, DISTRIBUTE BY and CLUSTER BY, which need all rows at once."""
    for key in () if context.settings.any_order else _SORTS:
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


# --- UNION, INTERSECT and EXCEPT ------------------------------------------------------------------------------

Branch = tuple[Relation, exp.Expr]


Operand = exp.Expr | Branch
"""A query that is not bound yet, or its relation and syntax."""


_OPERATOR_ARGS = ("this", "expression", "distinct")


def bind_set_operation(query: exp.SetOperation, context: Context, bind: BindQuery) -> Relation:
    """The plan of UNION, INTERSECT and EXCEPT; ``bind`` binds the operands.

    As in Flink and Spark, INTERSECT binds its operands first, the others apply from left to right.
    """
    operands, operators = _operands_in_order(query, context)
    _apply_intersects(operands, operators, context, bind)
    while operators:
        count = _operators_of_union(operators)
        query = operators[count - 1] if count else operators[0]
        count = max(count, 1)
        bound = [_bound_operand(operand, context, bind) for operand in operands[: count + 1]]
        operands[: count + 1] = [(_apply_operator(query, bound, context), query)]
        del operators[:count]
    return _bound_operand(operands[0], context, bind)[0]


def _operands_in_order(query: exp.SetOperation, context: Context) -> tuple[list[Operand], list[exp.SetOperation]]:
    """The operands from left to right and the operators between them. The parser nests them from left to right whatever
    the operators are; a query in parentheses is one operand."""
    operands: list[Operand] = []
    operators: list[exp.SetOperation] = []
    leftmost: exp.Expr = query
    while isinstance(leftmost, exp.SetOperation) and (leftmost is query or _is_without_parentheses(leftmost)):
        if leftmost is not query:
            refuse_rest(leftmost, _OPERATOR_ARGS, context)
        operators.insert(0, leftmost)
        operands.insert(0, leftmost.right)
        leftmost = leftmost.left
    return [leftmost, *operands], operators


def _is_without_parentheses(query: exp.SetOperation) -> bool:
    """Whether an operation has no WITH or other clauses of its own, which it could only have in parentheses."""
    return {key for key, value in query.args.items() if value} <= set(_OPERATOR_ARGS)


def _apply_intersects(
    operands: list[Operand], operators: list[exp.SetOperation], context: Context, bind: BindQuery
) -> None:
    position = 0
    while position < len(operators):
        query = operators[position]
        if not isinstance(query, exp.Intersect):
            position += 1
            continue
        pair = [_bound_operand(operand, context, bind) for operand in operands[position : position + 2]]
        operands[position : position + 2] = [(_apply_operator(query, pair, context), query)]
        del operators[position]


def _operators_of_union(operators: list[exp.SetOperation]) -> int:
    """How many of the first operators make one union: only UNION ALLs, or unions up to the last distinct one."""
    unions = 0
    while unions < len(operators) and isinstance(operators[unions], exp.Union):
        unions += 1
    distinct = [position for position in range(unions) if operators[position].args.get("distinct")]
    return distinct[-1] + 1 if distinct else unions


def _bound_operand(operand: Operand, context: Context, bind: BindQuery) -> Branch:
    return operand if isinstance(operand, tuple) else (bind(operand, context), operand)


def _apply_operator(query: exp.SetOperation, branches: list[Branch], context: Context) -> Relation:
    distinct = bool(query.args.get("distinct"))
    if isinstance(query, exp.Union):
        united = union_all(branches, "UNION" if distinct else "UNION ALL", context)
        return bind_distinct(united, query, (), context) if distinct else united
    left, right = branches
    return compare_branches(
        left, right, SetKind(f"{type(query).__name__.upper()}{'' if distinct else ' ALL'}"), context
    )


# --- branches with common types -------------------------------------------------------------------------------


def union_all(branches: Sequence[Branch], operator: str, context: Context) -> Relation:
    """UNION ALL of branches, with the names of the first one and common types. ``operator`` is for messages. SS219."""
    return Relation(Union(_with_common_types(branches, operator, context)), branches[0][0].names)


def compare_branches(left: Branch, right: Branch, kind: SetKind, context: Context) -> Relation:
    """INTERSECT or EXCEPT of two branches, with the names of the first one and common types. SS219."""
    left_rows, right_rows = _with_common_types((left, right), kind.value, context)
    return Relation(SetOperation(left_rows, right_rows, kind, context.settings.state_ttl_ms), left[0].names)


def _with_common_types(branches: Sequence[Branch], operator: str, context: Context) -> tuple[Project, ...]:
    first = branches[0][0]
    for relation, at in branches[1:]:
        if len(relation.names) != len(first.names):
            message = f"{operator} needs equally many columns: {len(first.names)} and {len(relation.names)}"
            raise bind_error("SS219", message, at)
    rows = list(zip(*(relation.fields for relation, _ in branches), strict=True))
    for name, fields in zip(first.names, rows, strict=True):
        _check_types(name, fields, branches, operator, context)
    names = UniqueNames()
    wishes = (names.unique(field_name(n, field_of(n))) for n in first.names)
    wanted = tuple(_common_field(name, row) for name, row in zip(wishes, rows, strict=True))
    return tuple(Project(relation.node, tuple(map(_common_item, relation.fields, wanted))) for relation, _ in branches)


def _check_types(
    name: str, fields: Sequence[Field], branches: Sequence[Branch], operator: str, context: Context
) -> None:
    for field, (_, at) in zip(fields[1:], branches[1:], strict=True):
        if incompatible(fields[0].type, field.type):
            message = f'column "{name}" of {operator} is {fields[0].type} and {field.type}'
            context.wrong("SS219", message, at, f"Convert one of them, as in CAST({name} AS STRING).")


def _common_field(name: str, fields: Sequence[Field]) -> Field:
    domains: set[TimeDomain | None] = {f.time for f in fields}
    time = fields[0].time if len(domains) == 1 else None
    return Field(name, common_type(f.type for f in fields), any(f.nullable for f in fields), time)


def _common_item(field: Field, wanted: Field) -> Item:
    value: exp.Expression = field_of(field.name)
    if field.type != wanted.type and not wanted.type.is_unknown:
        value = cast(value, wanted.type)
    return Item(wanted.name, value, wanted.type, wanted.nullable, wanted.time)
