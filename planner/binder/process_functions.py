"""Process functions in FROM: their tables, keys, time and constants, and ProcessTable with the names of its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream.functions.coercion import incompatible
from sqlstream.grammar.nodes import Argument, Descriptor, TableFunction
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, types_of
from sqlstream.planner.binder.process_arguments import ON_TIME, UID, arguments_by_name, expected, signature_of
from sqlstream.planner.binder.process_tables import Bound, bound_table, check_keys, ordered_by_time, timed
from sqlstream.planner.binder.scope import Scope, scope_of
from sqlstream.planner.caching import cached_per_node
from sqlstream.planner.catalog import Function, TimeDomain
from sqlstream.planner.fields import Field, Item, Schema
from sqlstream.planner.naming import Names
from sqlstream.planner.node import Node
from sqlstream.planner.operators.process_table import ProcessTable
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.types import TIMESTAMP

ROWTIME = "rowtime"


def process_function(
    call: TableFunction, function: Function, context: Context, bind_source: Callable[[exp.Expr], Scope]
) -> Scope:
    """The rows of the function. BindError SS260 to SS268."""
    signature = signature_of(function)
    arguments = arguments_by_name(call, function)
    tables = [bound_table(arguments[t.name], t, call, context, bind_source) for t in signature.tables]
    context.stop_if_wrong()
    check_keys(call, function, tables)
    tables, domain = timed(arguments.get(ON_TIME), tables)
    in_order = ordered_by_time(tables)
    node = ProcessTable(
        tables=tuple(t.scope.node for t in tables),
        arguments=tuple(t.input for t in tables),
        function=function.name,
        uid=_uid(arguments.get(UID), function),
        results=(),
        constants=_constants(arguments, function, tables[0].scope, context),
        descriptors=_descriptors(arguments, function, tables),
        in_order=in_order,
        clock=signature.clock,
        domain=domain or TimeDomain.EVENT,
    )
    node = check_changes(node, context, *(t.written.span for t in tables))
    return _scope(call, function, node, tables, domain)


# --- other arguments ------------------------------------------------------------------------------------------


def _uid(argument: Argument | None, function: Function) -> str:
    """The text of uid, by default the name of the function. SS265."""
    if argument is None:
        return function.name
    value = argument.value
    if not isinstance(value, exp.Literal) or not value.is_string or not value.name:
        raise bind_error("SS265", "uid must be a text that is not empty", argument.span, "Write uid => 'alerts'.")
    return value.name


def _constants(
    arguments: dict[str, Argument], function: Function, scope: Scope, context: Context
) -> tuple[Item, ...]:  # fmt: skip
    """Arguments that are the same for all rows, cast to the types of their parameters. SS261."""
    items = []
    for name, kind in function.parameters:
        argument = arguments.get(name)
        if argument is None:
            continue
        assert isinstance(argument.value, exp.Expr), "arguments are of their kinds"
        if argument.value.find(exp.Column):
            hint = "The function reads columns of the rows that it gets."
            raise bind_error("SS261", f'argument "{name}" of "{function.name}" must be a constant', argument.span, hint)
        bound = bind(argument.value, scope, context, ClauseContext("a process function"))
        bound_type = types_of(scope, context).of(bound)
        if incompatible(bound_type, kind):
            message = f'argument "{name}" of "{function.name}" is {bound_type}, not {kind}'
            raise bind_error("SS261", message, argument.span, expected(function))
        items.append(Item(name, exp.cast(bound, kind.to_sqlglot()), kind))
    return tuple(items)


def _descriptors(
    arguments: dict[str, Argument], function: Function, tables: Sequence[Bound]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The columns that DESCRIPTOR arguments name, as the rows of some table call them. SS201."""
    return tuple(
        (name, _described(arguments[name].value, tables))
        for name in signature_of(function).descriptors
        if name in arguments
    )


def _described(value: object, tables: Sequence[Bound]) -> tuple[str, ...]:
    assert isinstance(value, Descriptor), "arguments are of their kinds"
    columns = {name.casefold(): name for table in tables for name in table.input.names}
    for column in value.columns:
        if column.name.casefold() not in columns:
            hint = did_you_mean(column.name, list(columns.values()), "columns")
            raise bind_error("SS201", f'column "{column.name}" of DESCRIPTOR does not exist', column, hint)
    return tuple(columns[column.name.casefold()] for column in value.columns)


# --- columns --------------------------------------------------------------------------------------------------


def _scope(
    call: TableFunction, function: Function, node: ProcessTable, tables: Sequence[Bound], domain: TimeDomain | None
) -> Scope:  # fmt: skip
    """The node with its columns: keys or all columns of the table, the function's, rowtime. SS268."""
    signature = signature_of(function)
    first = tables[0]
    shown = {c.field: c.name for c in reversed(first.scope.columns)}
    own = (
        tuple(c.field for c in first.scope.columns if c.starred) if signature.pass_through else first.input.partition_by
    )
    before = [first.scope.fields[name] for name in own]
    members = [m for m in function.returns.args if isinstance(m, tuple)]
    names = [*(shown[f.name] for f in before), *(n for n, _ in members), *([ROWTIME] if domain else [])]
    twice = next((n for n in names if [m.casefold() for m in names].count(n.casefold()) > 1), None)
    if twice is not None:
        message = f'the rows of "{call.name}" have {counted(2, "column")} "{twice}"'
        hint = (
            f"Rename the column in the rows of the function, or in a subquery: TABLE (SELECT …, {twice} AS x FROM t)."
        )
        raise bind_error("SS268", message, call.span, hint)
    unique = Names()
    wished = [unique.unique(name) for name in names]
    untimed = tuple(replace(f, name=n, time=None) for f, n in zip(before, wished, strict=False))
    results = tuple(Field(n, kind) for n, (_, kind) in zip(wished[len(before) :], members, strict=False))
    made = replace(node, results=results, rowtime=_rowtime(wished[-1], domain, signature.timeless))
    made = _passing(made, own, untimed, first) if signature.pass_through else replace(made, keys=untimed)
    return scope_of(Relation(made, tuple(names)), call.name)


def _passing(node: ProcessTable, own: tuple[str, ...], passed: Schema, table: Bound) -> ProcessTable:
    keys = tuple(table.scope.fields[name] for name in table.input.partition_by)
    return replace(node, arguments=(replace(node.arguments[0], passed=own),), passed=passed, keys=keys)


def _rowtime(name: str, domain: TimeDomain | None, timeless: bool) -> Field | None:
    """Rows of timers of processing time have no event time, and then the column is none that windows can wait for."""
    if domain is None:
        return None
    return Field(name, TIMESTAMP, timeless, None if timeless else domain)


def check_uids(plan: Node) -> None:
    """SS265 where two calls of a query have one uid, unless they are the same call."""
    by_uid: dict[str, ProcessTable] = {}
    for call in _calls(plan):
        other = by_uid.setdefault(call.uid, call)
        if other is not call and other != call:
            hint = f"Add uid => '{call.uid}-2' to one of the calls: it names the state of the call."
            message = f'two calls of process functions have the uid "{call.uid}"'
            raise bind_error("SS265", message, None, hint)


@cached_per_node
def _calls(plan: Node) -> tuple[ProcessTable, ...]:
    """The calls of process functions, top down, each object once."""
    own = (plan,) if isinstance(plan, ProcessTable) else ()
    below = [call for node in plan.inputs for call in _calls(node)]
    return tuple({id(call): call for call in (*own, *below)}.values())
