"""JOIN LATERAL SNAPSHOT(input => TABLE t): each row of the left side beside the row that its key has when it comes."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.grammar.nodes import Argument, Descriptor, TableArgument, TableFunction
from sqlstream.grammar.trees import table_function_of
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.windows import time_field
from sqlstream.planner.suggestions import did_you_mean

NAME = "SNAPSHOT"
_PARAMETERS = ("input", "on_time")
_HINT = "Write FROM o JOIN LATERAL SNAPSHOT(input => TABLE t) AS t ON o.k = t.k."
_ALL_AT_ONCE = (
    "Nothing waits for a table to be loaded here: a micro-batch reads all rows that are there, and those of the table "
    "count before those on the left."
)


def snapshot_of(source: exp.Expr, context: Context) -> TableFunction | None:
    """The call of SNAPSHOT that stands in FROM; None for other sources, and where a function of that name is made."""
    function = table_function_of(source) if isinstance(source, exp.Table) else None
    named = function is not None and function.name.upper() == NAME
    return function if named and context.catalog.function(NAME) is None else None


def snapshot(call: TableFunction, bind_source: Callable[[exp.Expr], Scope]) -> Scope:
    """The table whose present rows are joined. BindError SS210, SS220."""
    arguments = _by_name(call)
    table = arguments["input"].value
    assert isinstance(table, TableArgument)
    if table.partition_by or table.order_by:
        message = f"TABLE of {NAME} takes no PARTITION BY and ORDER BY"
        raise bind_error("SS220", message, table.span, "Compare the key in ON.")
    scope = bind_source(table.source)
    if "on_time" in arguments:
        descriptor = arguments["on_time"].value
        assert isinstance(descriptor, Descriptor)
        column = exp.column(descriptor.columns[0].copy())
        time_field(column, scope.resolve(column), scope, NAME)
    return scope


def without_left(call: TableFunction) -> BindError:
    """The error that nothing stands before SNAPSHOT."""
    return bind_error("SS220", f"{NAME} joins the rows on its left, and there are none", call.span, _HINT)


def _by_name(call: TableFunction) -> dict[str, Argument]:
    arguments: dict[str, Argument] = {}
    for position, argument in enumerate(call.arguments):
        name = _name(argument, position)
        if name in arguments:
            raise bind_error("SS220", f'argument "{name}" of {NAME} is given twice', argument.span)
        arguments[name] = argument
    if "input" not in arguments or not isinstance(arguments["input"].value, TableArgument):
        raise bind_error("SS220", f"{NAME} needs the argument input, which is TABLE t", call.span, _HINT)
    time = arguments.get("on_time")
    if time is not None and not (isinstance(time.value, Descriptor) and len(time.value.columns) == 1):
        raise bind_error("SS220", f"on_time of {NAME} must be DESCRIPTOR(ts)", time.span)
    return arguments


def _name(argument: Argument, position: int) -> str:
    if argument.name is None:
        if position < len(_PARAMETERS):
            return _PARAMETERS[position]
        raise bind_error("SS220", f"{NAME} takes at most {len(_PARAMETERS)} arguments", argument.span, _HINT)
    name = argument.name.lower()
    if name not in _PARAMETERS:
        hint = did_you_mean(name, _PARAMETERS, "arguments") or _HINT
        detail = _ALL_AT_ONCE if name.startswith("load_") else None
        raise bind_error("SS220", f'{NAME} has no argument "{argument.name}"', argument.span, hint, detail)
    return name
