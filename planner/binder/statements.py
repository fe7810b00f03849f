"""Statements and queries of every shape: queries to Output, INSERT to Insert; other statements are refused or left to
the session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

from sqlglot import exp

from sqlstream.errors import BindError, Diagnostic, SqlStreamError
from sqlstream.functions.result_types import common_type, incompatible
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.nodes import CreateView, Insert, Query, Statement, StatementSet, Use
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import ARG, clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.bad_rows import FAIL, BadAction, OnError
from sqlstream.planner.binder.aggregation import bind_distinct
from sqlstream.planner.binder.context import (
    DEFAULT_SETTINGS,
    BinderSettings,
    BindQuery,
    Context,
    Relation,
    bind_error,
    refuse_rest,
)
from sqlstream.planner.binder.firing import with_emit
from sqlstream.planner.binder.hints import with_hinted_options
from sqlstream.planner.binder.inserts import insert_into, table_to_write, without_partition
from sqlstream.planner.binder.ordering import bind_ordered, is_ordered, resolve_ranks
from sqlstream.planner.binder.process_functions import check_uids
from sqlstream.planner.binder.scope import names_under
from sqlstream.planner.binder.select import bind_select
from sqlstream.planner.binder.sources import bind_values
from sqlstream.planner.binder.tables import dead_letter_table
from sqlstream.planner.catalog import Catalog, Function, FunctionKind, TimeDomain, View
from sqlstream.planner.fields import Field, Item, UniqueNames, field_name, field_of
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.nodes import Correlate, Filter, Output, Project, Scan, Union, dead_letter_tables
from sqlstream.planner.nodes import Insert as InsertNode
from sqlstream.planner.nodes import StatementSet as StatementSetNode
from sqlstream.planner.operators.process_table import ProcessTable
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.row_values import differ_in_width
from sqlstream.planner.suggestions import counted
from sqlstream.planner.type_inference import cast
from sqlstream.udfs.changes import SetKind

# --- queries of every shape: SELECT, set operations, parentheses, WITH -------------------------------------------


_ORDER_HINT = (
    "Sort the rows where they are stored, or compute MAX_BY, MIN_BY or SORT_ARRAY(COLLECT_LIST(…)) in windows."
)


def bind_relation(query: exp.Expr, context: Context) -> Relation:
    """Binds a query. Returns its plan with the names of its columns."""
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
    """Returns the context in which the queries of WITH are known by name; each of them may read those before it.
    BindError SS216 for a wrong number of column names.
    """
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
    """Report SS217 for SORT BY, DISTRIBUTE BY and CLUSTER BY, which need all rows at the same time."""
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
    """Plans UNION, INTERSECT and EXCEPT; ``bind`` plans the queries that are combined.

    As in Flink and Spark, INTERSECT has precedence, and the others apply from left to right.
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
    """Binds UNION ALL of several queries. The result has the column names of the first one, and types that fit all.
    ``operator`` is the name in messages. Mistakes raise BindError SS219.
    """
    return Relation(Union(_with_common_types(branches, operator, context)), branches[0][0].names)


def compare_branches(left: Branch, right: Branch, kind: SetKind, context: Context) -> Relation:
    """Binds INTERSECT or EXCEPT of two queries. The result has the column names of the first one, and types that fit
    both. Mistakes raise BindError SS219.
    """
    left_rows, right_rows = _with_common_types((left, right), kind.value, context)
    return Relation(SetOperation(left_rows, right_rows, kind, context.settings.state_ttl_ms), left[0].names)


def _with_common_types(branches: Sequence[Branch], operator: str, context: Context) -> tuple[Project, ...]:
    first = branches[0][0]
    for relation, at in branches[1:]:
        if len(relation.names) != len(first.names):
            message = f"{operator} needs equally many columns: {len(first.names)} and {len(relation.names)}"
            raise bind_error("SS219", message, at)
    rows = list(zip(*(relation.fields for relation, _ in branches), strict=True))
    for name, row in zip(first.names, rows, strict=True):
        _check_types(name, row, branches, operator, context)
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
            if differ_in_width(fields[0].type, field.type):
                context.wrong("SS219", message, at, "Write as many values in each row.")
            else:
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


TOO_MANY_OPERATORS = "SS285"

CORE_MODULE = "core"
"""The only module, which holds all built-in functions."""


@on_deep_stack
def bind_query(query: exp.Expr, catalog: Catalog, settings: BinderSettings = DEFAULT_SETTINGS) -> Output:
    """Plans a query. Raises one SqlStreamError with all mistakes of a SELECT."""
    relation = _bind_whole(query, catalog, settings)
    output = Output(relation.node, relation.names, functions_on_error(relation.node, settings, catalog))
    return output if not dead_letter_tables(output) else _without_dead_letters(output)


def _without_dead_letters(output: Output) -> Output:
    """The query, which drops and counts bad rows: who only reads a table writes nothing, not even dead letters."""
    skipping = OnError(BadAction.SKIP)
    replaced: dict[int, Node] = {}  # a node that is read twice stays one

    def skipped(node: Node) -> Node:
        if id(node) not in replaced:
            inputs = tuple(map(skipped, node.inputs))
            new = node.replace_inputs(inputs) if inputs else node
            if isinstance(new, Scan) and new.on_error.table is not None:
                new = replace(new, on_error=skipping)
            replaced[id(node)] = new
        return replaced[id(node)]

    functions = output.functions if output.functions.table is None else skipping
    return Output(skipped(output.input), output.names, functions)


@on_deep_stack
def bind_insert(statement: Insert, catalog: Catalog, settings: BinderSettings = DEFAULT_SETTINGS) -> InsertNode:
    """Plans an INSERT. BindError SS202, SS205, SS206, SS216, SS295 for a table or columns that do not fit."""
    target = table_to_write(str(statement.target), statement.target.span, catalog)
    table = with_hinted_options(target, statement.hint, catalog, settings.dynamic_options)
    if target.distributed:
        raise unsupported.refusal("buckets", statement.target.span)
    if statement.conflict not in (None, "DEDUPLICATE"):
        raise unsupported.refusal("on conflict", statement.target.span)
    statement = without_partition(statement, catalog)
    relation = _bind_whole(statement.query, catalog, settings)
    insert = insert_into(table, statement.columns, relation, statement, settings)
    return replace(insert, functions=functions_on_error(insert, settings, catalog))


@on_deep_stack
def bind_view(statement: CreateView, catalog: Catalog, text: str) -> View:
    """Returns the view that CREATE VIEW defines; ``text`` is its script. The query is bound here once, so that its
    mistakes are reported when the view is created.
    """
    relation = _relation(statement.query, catalog)
    if statement.columns and len(statement.columns) != len(relation.names):
        message = f'view "{statement.name}" has {counted(len(relation.names), "column")}, not {len(statement.columns)}'
        raise bind_error("SS216", message, statement.name.span)
    names = Counter(n.casefold() for n in statement.columns or relation.names)
    for name in statement.columns or relation.names:
        if names[name.casefold()] > 1:
            hint = "Give the columns different names with AS."
            raise bind_error("SS205", f'view "{statement.name}" has two columns "{name}"', statement.name.span, hint)
    return View(str(statement.name), statement.query, statement.columns, text)


@on_deep_stack
def bind_statement(statement: Statement, catalog: Catalog, settings: BinderSettings = DEFAULT_SETTINGS) -> Node:
    """Plans a Query, Insert or StatementSet. UnsupportedError for statements that are not executed, TypeError for
    others without a plan.
    """
    match statement:
        case Query():
            return bind_query(statement.query, catalog, settings)
        case Insert():
            return bind_insert(statement, catalog, settings)
        case StatementSet():
            return bind_statement_set(statement, catalog, settings)
    refuse_statement(statement)
    raise TypeError(f"{type(statement).__name__} has no plan")


@on_deep_stack
def bind_statement_set(
    statements: StatementSet, catalog: Catalog, settings: BinderSettings = DEFAULT_SETTINGS
) -> StatementSetNode:
    """Plans a statement set. The mistakes of all inserts are reported at once. SS327 if its inserts wait for both event
    and processing time.
    """
    plans: list[InsertNode] = []
    problems: list[Diagnostic] = []
    for insert in statements.inserts:
        try:
            plans.append(bind_insert(insert, catalog, settings))
        except SqlStreamError as error:
            problems.extend(error.diagnostics)
    if problems:
        raise SqlStreamError.of(problems)
    plan = StatementSetNode(tuple(plans))
    _refuse_clocks_of_two_kinds(plan, statements)
    check_uids(plan)
    return plan


def refuse_statement(statement: Statement) -> None:
    """Raises UnsupportedError for a statement that parses but is not executed."""
    match statement:
        case Use(kind="MODULE") if str(statement.name).casefold() != CORE_MODULE:
            raise unsupported.refusal("module", statement.span, f'There is one module, "{CORE_MODULE}".')


def _relation(query: exp.Expr, catalog: Catalog, settings: BinderSettings = DEFAULT_SETTINGS) -> Relation:
    context = Context(catalog, settings=settings)
    try:
        relation = bind_relation(query, context)
    except SqlStreamError as error:
        context.report(error)
        raise SqlStreamError.of(context.problems) from None
    context.stop_if_wrong()
    _refuse_too_many_operators(relation.node, query)
    _refuse_mixed_time(relation.node)
    check_uids(relation.node)
    return relation


def _bind_whole(query: exp.Expr, catalog: Catalog, settings: BinderSettings) -> Relation:
    """The relation of a query that is no subquery: row numbers without a bound become OVER."""
    relation = _relation(query, catalog, settings)
    context = Context(catalog, settings=settings)
    node = resolve_ranks(relation.node, context)
    context.stop_if_wrong()
    return replace(relation, node=node)


_MOST_OPERATORS = 100_000


def _refuse_too_many_operators(node: Node, query: exp.Expr) -> None:
    """SS285. A query of WITH or a view counts wherever it is named: twenty that each name the previous one twice are a
    million operators."""
    number = node.operator_count
    if number > _MOST_OPERATORS:
        message = f"the query has {number:,} operators, more than {_MOST_OPERATORS:,}"
        detail = "Views and queries of WITH count wherever they are named."
        hint = "Insert the rows of a query that is named often into a table, and read the table."
        raise bind_error(TOO_MANY_OPERATORS, message, query, hint, detail)


def _refuse_mixed_time(node: Node) -> None:
    """A query waits for event time or processing time, not both: Spark has one watermark. SS327."""
    domains = _domains(node)
    if TimeDomain.PROCESSING in domains and len(domains) > 1:
        raise unsupported.refusal("mixed time", None)


@cached_per_node
def _domains(node: Node) -> frozenset[TimeDomain]:
    """The time domains that the operators of a plan wait for. Windows without a time column wait for none."""
    own: frozenset[TimeDomain] = frozenset()
    if isinstance(node, AssignWindows | WindowAggregate) and node.time is not None:
        own = frozenset({node.domain})
    if isinstance(node, ProcessTable) and node.timed:
        own = frozenset({node.domain})
    return own.union(*map(_domains, node.inputs))


def _refuse_clocks_of_two_kinds(plan: StatementSetNode, statements: StatementSet) -> None:
    """SS327 where two inserts of a statement set, which is one Spark query, wait for different time domains."""
    waiting = [(domains, insert) for insert in plan.inserts if (domains := _domains(insert))]
    clocked = next((i for domains, i in waiting if TimeDomain.PROCESSING in domains), None)
    timed = next((i for domains, i in waiting if TimeDomain.PROCESSING not in domains), None)
    if clocked is not None and timed is not None:
        detail = (
            f'INSERT INTO "{timed.table.name}" waits for event time and INSERT INTO "{clocked.table.name}" for '
            "processing time, but a statement set has one clock: make two sets of it."
        )
        raise unsupported.refusal("mixed time", statements.span, detail)


# --- 'sqlstream.functions.on-error' ---------------------------------------------------------------------------

NOT_TOLERANT = "SS244"
SETTING = "sqlstream.functions.on-error"

_TOLERANT_NODES: dict[FunctionKind, tuple[type[Node], ...]] = {
    FunctionKind.SCALAR: (Project, Filter, Correlate),
    FunctionKind.TABLE: (Correlate,),
}
"""The nodes whose calls of a function may fail for single rows. Process functions have a node of their own."""


def functions_on_error(plan: Node, settings: BinderSettings, catalog: Catalog) -> OnError:
    """What to do with a row for which a user's function in the plan raises an exception: fail, skip it, or write it to
    a table. FAIL if the plan calls none.

    BindError SS240, SS241 for the table of dead letters, SS244 for functions to which the setting does not apply.
    """
    action, name = settings.functions
    if action is BadAction.FAIL:
        return FAIL
    calls = [user_call for node in plan.walk() for user_call in _user_calls(node, catalog)]
    for node, function, call in calls:
        if not isinstance(node, _TOLERANT_NODES.get(function.kind, ())):
            _refuse_untolerated(function.name, call)
    if not calls and not any(isinstance(node, ProcessTable) for node in plan.walk()):
        return FAIL
    return OnError(action, None if name is None else dead_letter_table(name, "Python functions", catalog))


def _refuse_untolerated(name: str, call: exp.Expr) -> None:
    message = f'setting "{SETTING}" does not reach function "{name}" here'
    hint = (
        "It reaches scalar functions in SELECT and WHERE: call them in a subquery; aggregates need the setting 'fail'."
    )
    raise BindError(NOT_TOLERANT, message, span_of(call), hint=hint)


def _user_calls(node: Node, catalog: Catalog) -> Iterator[tuple[Node, Function, exp.Expr]]:
    for field in fields(node):
        for expression in _expressions_in(getattr(node, field.name)):
            for call in expression.find_all(exp.Anonymous):
                function = catalog.function(call.name)
                if function is not None:
                    yield node, function, call


def _expressions_in(value: object) -> Iterator[exp.Expr]:
    match value:
        case exp.Expr():
            yield value
        case Item():
            yield value.expression
        case tuple():
            for member in value:
                yield from _expressions_in(member)
