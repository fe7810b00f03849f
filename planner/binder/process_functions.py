"""Process functions in FROM: their tables, keys, times and constants, and the columns of their result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.functions.result_types import incompatible
from sqlstream.grammar.nodes import Argument, Descriptor, RowCount, TableArgument, TableFunction
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, types_of
from sqlstream.planner.binder.scope import Scope, Visible, scope_of
from sqlstream.planner.binder.windows import time_field
from sqlstream.planner.catalog import Function, TimeDomain
from sqlstream.planner.fields import Field, Item, Schema, UniqueNames
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.operators.process_table import ProcessInput, ProcessTable
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.types import TIMESTAMP, DataType
from sqlstream.udfs.signature import ProcessSignature, TableParameter

ROWTIME = "rowtime"


def process_function(
    call: TableFunction, function: Function, context: Context, bind_source: Callable[[exp.Expr], Scope]
) -> Scope:
    """Binds a call of a process function (Flink's process table function) in FROM. Returns the scope of the rows that
    it emits. Mistakes raise BindError SS201, SS260 to SS266, SS268.
    """
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


# --- columns of the result ------------------------------------------------------------------------------------


def _scope(
    call: TableFunction, function: Function, node: ProcessTable, tables: Sequence[Bound], domain: TimeDomain | None
) -> Scope:  # fmt: skip
    """The scope of the node: the keys or all columns of the table, then those of the function, then rowtime. SS268."""
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
    unique = UniqueNames()
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
    """The column rowtime. Rows of processing-time timers have NULL in it, and then it is no time attribute."""
    if domain is None:
        return None
    return Field(name, TIMESTAMP, timeless, None if timeless else domain)


# --- arguments by parameter -----------------------------------------------------------------------------------

ON_TIME = "on_time"
UID = "uid"


def signature_of(function: Function) -> ProcessSignature:
    """The signature that the class of a process function declares."""
    assert function.process is not None, f'"{function.name}" is a process function'
    return function.process


def arguments_by_name(call: TableFunction, function: Function) -> dict[str, Argument]:
    """The arguments of a process function's call, as a dictionary by parameter name. Mistakes raise BindError SS260,
    SS261.
    """
    signature = signature_of(function)
    names = (*signature.parameters, ON_TIME, UID)
    by_parameter: dict[str, Argument] = {}
    for position, argument in enumerate(call.arguments):
        name = _parameter(argument, position, call, function, names)
        if name in by_parameter:
            raise _wrong(f'argument "{name}" of "{call.name}" is given twice', argument, function)
        by_parameter[name] = argument
    for name in signature.parameters:
        if name not in by_parameter and name not in signature.optional:
            raise bind_error("SS260", f'"{call.name}" needs the argument "{name}"', call.span, expected(function))
    _check_kinds(call, function, by_parameter)
    return by_parameter


def _parameter(
    argument: Argument, position: int, call: TableFunction, function: Function, names: tuple[str, ...]
) -> str:
    if argument.name is None:
        if any(a.name is not None for a in call.arguments[:position]):
            raise _wrong("an argument by position cannot follow a named one", argument, function)
        if position >= len(names):
            raise _wrong(f'"{call.name}" takes at most {len(names)} arguments', argument, function)
        return names[position]
    spellings = {name.casefold(): name for name in names}
    name = spellings.get(argument.name.casefold())
    if name is None:
        hint = " ".join(filter(None, (did_you_mean(argument.name, names, "arguments"), expected(function))))
        raise bind_error("SS260", f'"{call.name}" has no argument "{argument.name}"', argument.span, hint)
    return name


def _check_kinds(call: TableFunction, function: Function, arguments: Mapping[str, Argument]) -> None:
    signature = signature_of(function)
    tables = {table.name for table in signature.tables}
    for name, argument in arguments.items():
        value = argument.value
        is_descriptor = name == ON_TIME or name in signature.descriptors
        wanted = "TABLE t" if name in tables else "DESCRIPTOR(…)" if is_descriptor else "a constant"
        kinds = {"TABLE t": TableArgument, "DESCRIPTOR(…)": Descriptor, "a constant": exp.Expr}
        if not isinstance(value, kinds[wanted]) or isinstance(value, RowCount):
            message = f'argument "{name}" of "{call.name}" must be {wanted}'
            raise bind_error("SS261", message, argument.span, expected(function))


def expected(function: Function) -> str:
    """The hint that shows how to call a process function: ``Write f(input => TABLE t PARTITION BY k, …).``"""
    signature = signature_of(function)
    keys = " PARTITION BY k" if signature.keyed or len(signature.tables) > 1 else ""
    shown = {table.name: f"TABLE t{keys}" for table in signature.tables}
    shown |= dict.fromkeys(signature.descriptors, "DESCRIPTOR(c)")
    shown |= {name: str(kind) for name, kind in function.parameters}
    texts = [f"{name} => {shown[name]}" for name in signature.parameters]
    optional = set(signature.optional)
    texts = [f"[{t}]" if name in optional else t for name, t in zip(signature.parameters, texts, strict=True)]
    texts += ["[on_time => DESCRIPTOR(ts)]", "[uid => 'id']"]
    return f"Write {function.name}({', '.join(texts)})."


def _wrong(message: str, argument: Argument, function: Function) -> Exception:
    return bind_error("SS260", message, argument.span, expected(function))


# --- tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A bound table argument of a process function: the scope of the table, the argument as written, and the columns
    and keys that the function reads.
    """

    scope: Scope
    written: TableArgument
    input: ProcessInput


def bound_table(
    argument: Argument,
    parameter: TableParameter,
    call: TableFunction,
    context: Context,
    bind_source: Callable[[exp.Expr], Scope],
) -> Bound:
    """Binds a table argument of a process function. BindError SS262, SS266 if the table's columns and keys do not fit
    the ``parameter`` that the function declares.
    """
    written = argument.value
    assert isinstance(written, TableArgument), "arguments are of their kinds"
    scope = bind_source(written.source)
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
    """The column of the table for a column of the function's typed rows. SS266."""
    matching = scope.find(name)
    if len(matching) != 1:
        hint = did_you_mean(name, [c.name for c in scope.columns], "columns")
        many = "is ambiguous" if matching else "does not exist"
        message = f'column "{name}" {many} in the table of "{call.name}", whose rows have it'
        raise bind_error("SS266", message, argument.span, hint)
    own = scope.fields[matching[0].field].type
    if incompatible(own, kind):
        message = f'column "{name}" in the table of "{call.name}" is {own}, not {kind}'
        raise bind_error("SS266", message, argument.span, f"Convert it: TABLE (SELECT …, CAST({name} AS {kind}) …).")
    return matching[0]


def _keys(written: TableArgument, scope: Scope, call: TableFunction, context: Context) -> tuple[str, ...]:
    bound = [bind(e, scope, context, ClauseContext("PARTITION BY")) for e in written.partition_by]
    for key, expression in zip(bound, written.partition_by, strict=True):
        if not isinstance(key, (exp.Column, exp.Null)):
            hint = "Compute it in a subquery: TABLE (SELECT …, expression AS k FROM t)."
            context.wrong("SS262", f'PARTITION BY of "{call.name}" must name columns', expression, hint)
    return tuple(dict.fromkeys(key.name for key in bound if isinstance(key, exp.Column)))


def check_keys(call: TableFunction, function: Function, tables: Sequence[Bound]) -> None:
    """Checks PARTITION BY: a function with state, timers or several tables needs it, with keys of the same types for
    all tables. Mistakes raise BindError SS262.
    """
    signature = signature_of(function)
    first = tables[0]
    if not first.input.partition_by and (signature.keyed or len(tables) > 1):
        why = "has state or timers" if signature.keyed else "reads several tables"
        message = f'"{call.name}" {why} and needs PARTITION BY'
        raise bind_error("SS262", message, first.written.span, expected(function))
    wanted = [first.scope.fields[k].type for k in first.input.partition_by]
    for table in tables[1:]:
        types = [table.scope.fields[k].type for k in table.input.partition_by]
        if types != wanted:
            given = [f"({', '.join(map(str, kinds))})" if kinds else "nothing" for kinds in (wanted, types)]
            message = f'the tables of "{call.name}" are partitioned by {given[0]} and {given[1]}'
            hint = "Give all tables keys of the same types, in the same order, with CAST in a subquery where needed."
            raise bind_error("SS262", message, table.written.span, hint)


# --- time -----------------------------------------------------------------------------------------------------


def timed(argument: Argument | None, tables: list[Bound]) -> tuple[list[Bound], TimeDomain | None]:
    """Binds ``on_time``, the argument that names one time column per table. Returns a pair: the tables, each with its
    time column set, and the time domain (always event time). Without the argument the tables are unchanged and the
    domain is None. BindError SS264 for wrong columns.
    """
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
    matching = [c for c in descriptor.columns if table.scope.find(c.name)]
    if len(matching) != 1:
        names = [c.name for c in table.scope.columns]
        hint = (
            did_you_mean(descriptor.columns[0].name, names, "columns") if not matching else "Name one for each table."
        )
        message = f'on_time must name one column of the table of "{table.input.parameter}", not {len(matching)}'
        raise bind_error("SS264", message, descriptor.span, hint)
    column = exp.column(matching[0].copy())
    field = time_field(column, table.scope.resolve(column), table.scope, "on_time")
    return replace(table, input=replace(table.input, time=field.name)), matching[0]


def ordered_by_time(tables: Sequence[Bound]) -> bool:
    """True if all table arguments have ORDER BY, False if none has. BindError SS263 if only some have it, or if it is
    not the table's ``on_time`` column, ascending.
    """
    ordered = [t for t in tables if t.written.order_by]
    for table in ordered:
        order = table.written.order_by
        key = order[0]
        expression = key.this if isinstance(key, exp.Ordered) else key
        descending = isinstance(key, exp.Ordered) and bool(key.args.get("desc"))
        named = (
            table.scope.resolve(expression).name
            if isinstance(expression, exp.Column) and table.input.time is not None
            else None
        )
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
    """The uid that names the state of the call, by default the name of the function. SS265."""
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
    """The columns that DESCRIPTOR arguments name, spelled as in the tables. SS201."""
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


# --- calls of a whole query -----------------------------------------------------------------------------------


def check_uids(plan: Node) -> None:
    """BindError SS265 where two calls of a plan have the same uid, unless they are the same call."""
    by_uid: dict[str, ProcessTable] = {}
    for call in _calls(plan):
        other = by_uid.setdefault(call.uid, call)
        if other is not call and other != call:
            hint = f"Add uid => '{call.uid}-2' to one of the calls: it names the state of the call."
            message = f'two calls of process functions have the uid "{call.uid}"'
            raise bind_error("SS265", message, None, hint)


@cached_per_node
def _calls(plan: Node) -> tuple[ProcessTable, ...]:
    """The calls of process functions in a plan, top down, each object once."""
    own = (plan,) if isinstance(plan, ProcessTable) else ()
    below = [call for node in plan.inputs for call in _calls(node)]
    return tuple({id(call): call for call in (*own, *below)}.values())
