"""Table arguments of process functions: what the function sees of each, their keys, their times and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.functions.coercion import incompatible
from sqlstream.grammar.nodes import Argument, Descriptor, TableArgument, TableFunction
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind
from sqlstream.planner.binder.process_arguments import expected, signature_of
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.windows import time_field
from sqlstream.planner.catalog import Function, TimeDomain
from sqlstream.planner.operators.process_table import ProcessInput
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.types import DataType
from sqlstream.udfs.signature import TableParameter


@dataclass(frozen=True)
class Bound:
    """A table argument: what it is over, and what the function sees of it."""

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
    """What a typed row reads. SS266."""
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
    """State, timers and several tables need keys, which are as many and of the same types for all tables. SS262."""
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
    """ORDER BY the time, of all tables or none. SS263."""
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
