"""Statements: queries to Output, INSERT to Insert; the others are refused or left to the session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace

from sqlglot import exp

from sqlstream.errors import BindError, Diagnostic, SqlStreamError
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.nodes import CreateView, Insert, Query, Statement, StatementSet, Use
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.bad_rows import FAIL, BadAction, OnError
from sqlstream.planner.binder.context import DEFAULT_SETTINGS, BinderSettings, Context, Relation, bind_error
from sqlstream.planner.binder.hints import with_hinted_options
from sqlstream.planner.binder.inserts import insert_into, table_to_write, without_partition
from sqlstream.planner.binder.ordering import resolve_ranks
from sqlstream.planner.binder.process_functions import check_uids
from sqlstream.planner.binder.queries import bind_relation
from sqlstream.planner.binder.tables import dead_letter_table
from sqlstream.planner.catalog import Catalog, Function, FunctionKind, TimeDomain, View
from sqlstream.planner.fields import Item
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.nodes import Correlate, Filter, Output, Project
from sqlstream.planner.nodes import Insert as InsertNode
from sqlstream.planner.nodes import StatementSet as StatementSetNode
from sqlstream.planner.operators.process_table import ProcessTable
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.suggestions import counted

TOO_MANY_OPERATORS = "SS285"

CORE_MODULE = "core"
"""The only module, which holds all built-in functions."""


@on_deep_stack
def bind_query(query: exp.Expr, catalog: Catalog, settings: BinderSettings = DEFAULT_SETTINGS) -> Output:
    """The plan of a query. SqlStreamError with all mistakes of one SELECT."""
    relation = _bind_whole(query, catalog, settings)
    return Output(relation.node, relation.names, functions_on_error(relation.node, settings, catalog))


@on_deep_stack
def bind_insert(statement: Insert, catalog: Catalog, settings: BinderSettings = DEFAULT_SETTINGS) -> InsertNode:
    """The plan of INSERT INTO. SS202, SS205, SS206, SS216, SS295."""
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
    """The view of CREATE VIEW. Its query is bound here once, so that mistakes are reported when it is created."""
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
    """The plan of a Query, Insert or StatementSet; UnsupportedError for statements about jobs and modules."""
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
    """The plan of a statement set; reports the mistakes of all inserts at once. SS327 where they wait for two
    clocks."""
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
    """UnsupportedError for statements that parse and are not executed."""
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
    """The action for rows for which a function of the plan raises an exception; FAIL where it calls none.

    BindError SS240, SS241 for the table of dead letters, SS244 for functions that the setting does not apply to.
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
