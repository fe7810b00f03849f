"""Process functions in FROM: their tables, keys, time and constants, and ProcessTable with the names of its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar.nodes import Argument, Descriptor, TableArgument, TableFunction
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import Place, bind, types_of
from sqlstream.planner.binder.process_arguments import ON_TIME, UID, arguments_by_name, expected, signature_of
from sqlstream.planner.binder.scope import Scope, Visible, scope_of
from sqlstream.planner.binder.windows import time_field
from sqlstream.planner.catalog import APPEND_ONLY, Function, TimeDomain
from sqlstream.planner.functions.coercion import incompatible
from sqlstream.planner.naming import Names
from sqlstream.planner.nodes import Field, Item, Node, ProcessInput, ProcessTable, Schema
from sqlstream.planner.properties import changelog_mode
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.types import TIMESTAMP, DataType
from sqlstream.udfs.signature import TableParameter

ROWTIME = "rowtime"


@dataclass(frozen=True)
class Bound:
    """A table argument: what it is over, and what the function sees of it."""

    scope: Scope
    written: TableArgument
    input: ProcessInput


def process_function(
    call: TableFunction, function: Function, context: Context, bind_source: Callable[[exp.Expr], Scope]
) -> Scope:
    """The rows of the function. BindError SS260 to SS268."""
    signature = signature_of(function)
    arguments = arguments_by_name(call, function)
    tables = [_table(arguments[t.name], t, call, context, bind_source) for t in signature.tables if t.name in arguments]
    context.stop_if_wrong()
    _check_keys(call, function, tables)
    tables, domain = _timed(arguments.get(ON_TIME), tables)
    in_order = _in_order(tables)
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
    return _scope(call, function, node, tables, domain)


# --- tables ---------------------------------------------------------------------------------------------------


def _table(
    argument: Argument,
    parameter: TableParameter,
    call: TableFunction,
    context: Context,
    bind_source: Callable[[exp.Expr], Scope],
) -> Bound:
    written = argument.value
    assert isinstance(written, TableArgument), "arguments are of their kinds"
    scope = bind_source(written.source)
    if changelog_mode(scope.node) != APPEND_ONLY:
        context.refuse("changelog input", argument.span, "The query below updates its results.")
    seen = [c for c in scope.columns if c.starred]
    types: tuple[DataType, ...] = ()
    if parameter.columns is not None:
        seen = [_column(name, kind, scope, call, argument) for name, kind in parameter.columns]
        types = tuple(kind for _, kind in parameter.columns)
        names = tuple(name for name, _ in parameter.columns)
    else:
        names = tuple(c.name for c in seen)
    fields = tuple(c.field for c in seen)
    return Bound(
        scope, written, ProcessInput(parameter.name, fields, names, types, _keys(written, scope, call, context))
    )


def _column(name: str, kind: DataType, scope: Scope, call: TableFunction, argument: Argument) -> Visible:
    """What a typed row reads. SS266."""
    found = scope.find(name)
    if len(found) != 1:
        hint = did_you_mean(name, [c.name for c in scope.columns], "columns")
        many = "is ambiguous" if found else "does not exist"
        message = f'column "{name}" {many} in the table of "{call.name}", whose rows have it'
        raise bind_error("SS266", message, argument.span, hint)
    own = scope.fields[found[0].field].type
    if incompatible(own, kind):
        message = f'column "{name}" in the table of "{call.name}" is {own}, not {kind}'
        raise bind_error("SS266", message, argument.span, f"Convert it: TABLE (SELECT …, CAST({name} AS {kind}) …).")
    return found[0]


def _keys(written: TableArgument, scope: Scope, call: TableFunction, context: Context) -> tuple[str, ...]:
    bound = [bind(e, scope, context, Place("PARTITION BY")) for e in written.partition_by]
    for key, expression in zip(bound, written.partition_by, strict=True):
        if not isinstance(key, (exp.Column, exp.Null)):
            hint = "Compute it in a subquery: TABLE (SELECT …, expression AS k FROM t)."
            context.wrong("SS262", f'PARTITION BY of "{call.name}" must name columns', expression, hint)
    return tuple(dict.fromkeys(key.name for key in bound if isinstance(key, exp.Column)))


def _check_keys(call: TableFunction, function: Function, tables: Sequence[Bound]) -> None:
    """State, timers and several tables need keys, which are as many and of the same types for all tables. SS262."""
    signature = signature_of(function)
    first = tables[0]
    if not first.input.partition_by and (signature.keyed or len(tables) > 1):
        why = "has state or timers" if signature.keyed else "reads several tables"
        message = f'"{call.name}" {why} and needs PARTITION BY'
        raise bind_error("SS262", message, first.written.span, expected(function))
    wanted = [first.scope.fields[k].type for k in first.input.partition_by]
    for table in tables[1:]:
        found = [table.scope.fields[k].type for k in table.input.partition_by]
        if found != wanted:
            given = [f"({', '.join(map(str, kinds))})" if kinds else "nothing" for kinds in (wanted, found)]
            message = f'the tables of "{call.name}" are partitioned by {given[0]} and {given[1]}'
            hint = "Give all tables keys of the same types, in the same order, with CAST in a subquery where needed."
            raise bind_error("SS262", message, table.written.span, hint)


# --- time -----------------------------------------------------------------------------------------------------


def _timed(argument: Argument | None, tables: list[Bound]) -> tuple[list[Bound], TimeDomain | None]:
    """The tables with the time of their rows, one of the columns that on_time names for each. SS264."""
    if argument is None:
        return tables, None
    descriptor = argument.value
    assert isinstance(descriptor, Descriptor), "on_time is a descriptor"
    timed = [_with_time(table, descriptor) for table in tables]
    used = {column.name.casefold() for _, column in timed}
    unused = [c for c in descriptor.columns if c.name.casefold() not in used]
    if unused:
        message = f'on_time names "{unused[0].name}", which is not needed: each table has one time'
        raise bind_error("SS264", message, unused[0])
    domains = {field.time for (field, _) in ((t.scope.fields[t.input.time or ""], t) for t, _ in timed)}
    if len(domains) > 1 or TimeDomain.PROCESSING in domains:
        hint = "Processing time is ctx.processing_time, in a class with processing_time = True."
        raise bind_error("SS264", "on_time must name columns of event time", descriptor.span, hint)
    return [t for t, _ in timed], domains.pop()


def _with_time(table: Bound, descriptor: Descriptor) -> tuple[Bound, exp.Identifier]:
    found = [c for c in descriptor.columns if table.scope.find(c.name)]
    if len(found) != 1:
        names = [c.name for c in table.scope.columns]
        hint = did_you_mean(descriptor.columns[0].name, names, "columns") if not found else "Name one for each table."
        message = f'on_time must name one column of the table of "{table.input.parameter}", not {len(found)}'
        raise bind_error("SS264", message, descriptor.span, hint)
    column = exp.column(found[0].copy())
    field = time_field(column, table.scope.resolve(column), table.scope, "on_time")
    return replace(table, input=replace(table.input, time=field.name)), found[0]


def _in_order(tables: Sequence[Bound]) -> bool:
    """ORDER BY the time, of all tables or none. SS263."""
    ordered = [t for t in tables if t.written.order_by]
    for table in ordered:
        order = table.written.order_by
        key = order[0]
        by = key.this if isinstance(key, exp.Ordered) else key
        descending = isinstance(key, exp.Ordered) and bool(key.args.get("desc"))
        named = table.scope.resolve(by).name if isinstance(by, exp.Column) and table.input.time is not None else None
        if named is None or named != table.input.time or len(order) > 1 or descending:
            hint = "Write ORDER BY ts and on_time => DESCRIPTOR(ts), with PARTITION BY before it."
            message = "ORDER BY in TABLE must name the column of on_time, ascending, and nothing else"
            raise bind_error("SS263", message, span_of(key) or table.written.span, hint)
        if not table.input.partition_by:
            raise bind_error("SS263", "ORDER BY in TABLE needs PARTITION BY", span_of(key) or table.written.span)
    if ordered and len(ordered) < len(tables):
        message = "ORDER BY must stand in all tables of the call, or in none"
        raise bind_error("SS263", message, ordered[0].written.span)
    return bool(ordered)


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
        bound = bind(argument.value, scope, context, Place("a process function"))
        found = types_of(scope, context).of(bound)
        if incompatible(found, kind):
            message = f'argument "{name}" of "{function.name}" is {found}, not {kind}'
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
    known = {name.casefold(): name for table in tables for name in table.input.names}
    for column in value.columns:
        if column.name.casefold() not in known:
            hint = did_you_mean(column.name, list(known.values()), "columns")
            raise bind_error("SS201", f'column "{column.name}" of DESCRIPTOR does not exist', column, hint)
    return tuple(known[column.name.casefold()] for column in value.columns)


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
    found: dict[str, ProcessTable] = {}
    for node in plan.walk():
        if isinstance(node, ProcessTable):
            other = found.setdefault(node.uid, node)
            if other is not node and other != node:
                hint = f"Add uid => '{node.uid}-2' to one of the calls: it names the state of the call."
                message = f'two calls of process functions have the uid "{node.uid}"'
                raise bind_error("SS265", message, None, hint)
