"""Window table functions in FROM: their arguments by name, and AssignWindows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.grammar.nodes import Argument, Descriptor, RowCount, TableArgument, TableFunction
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind
from sqlstream.planner.binder.measures import Measured, Row, window_of_measures
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.windows import assign_windows, default_time, time_field
from sqlstream.planner.fields import Field
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.planner.windows import AlignedWindow, RowMeasured, Window


@dataclass(frozen=True)
class Signature:
    """Parameters of a window function: positional ones in order, after the table and, where ``timed``, the time.

    ``named`` ones are given by name only.
    """

    measures: tuple[str, ...]
    optional: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    timed: bool = True

    @property
    def required(self) -> tuple[str, ...]:
        return ("DATA", *(("TIMECOL",) if self.timed else ()), *self.measures)

    @property
    def positional(self) -> tuple[str, ...]:
        return (*self.required, *self.optional)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.positional, *self.named)


SIGNATURES: Mapping[str, Signature] = {
    "TUMBLE": Signature(("SIZE",), ("OFFSET",)),
    "HOP": Signature(("SLIDE", "SIZE"), ("OFFSET",)),
    "CUMULATE": Signature(("STEP", "SIZE"), ("OFFSET",)),
    "SESSION": Signature(("GAP",), (), ("MAX_DURATION", "START_WHEN", "END_WHEN")),
    "COUNT_WINDOW": Signature(("SIZE",), ("SLIDE",), ("FULL_ONLY",), timed=False),
}


def window_function(function: TableFunction, context: Context, bind_source: Callable[[exp.Expr], Scope]) -> Scope:
    """The table with each row once per window. BindError SS210, SS211, SS212, SS220."""
    kind = function.name.upper()
    arguments = arguments_by_name(function)
    data = arguments["DATA"].value
    assert isinstance(data, TableArgument)
    scope = bind_source(data.source)
    if data.order_by:
        context.refuse("syntax", data.span, f"It is ORDER BY in TABLE of {kind}.")
    window = window_of_measures(kind, measures_of(arguments), function.span, Row(scope, context))
    partition_by = _partition_by(kind, window, data, scope, context)
    time = _time(kind, arguments, scope)
    if time is None and isinstance(window, RowMeasured):
        raise bind_error("SS210", f"{kind} with a measure in time needs a time attribute", function.span)
    assigned = assign_windows(scope, window, time, partition_by)
    return assigned.over(check_changes(assigned.node, context, function.span))


def _time(kind: str, arguments: Mapping[str, Argument], scope: Scope) -> Field | None:
    if "TIMECOL" not in arguments:
        return default_time(scope)
    descriptor = arguments["TIMECOL"].value
    assert isinstance(descriptor, Descriptor)
    if len(descriptor.columns) != 1:
        raise bind_error("SS220", f"DESCRIPTOR of {kind} must name one column", descriptor.span)
    column = exp.column(descriptor.columns[0].copy())
    return time_field(column, scope.resolve(column), scope, kind)


def _partition_by(kind: str, window: Window, data: TableArgument, scope: Scope, context: Context) -> tuple[str, ...]:
    if data.partition_by and isinstance(window, AlignedWindow):
        hint = "Group by the columns instead: GROUP BY k, window_start, window_end."
        raise bind_error("SS220", f"{kind} takes no PARTITION BY", data.span, hint)
    bound = [bind(e, scope, context, ClauseContext("PARTITION BY")) for e in data.partition_by]
    for key, written in zip(bound, data.partition_by, strict=True):
        if not isinstance(key, (exp.Column, exp.Null)):
            hint = "Compute it in a subquery: TABLE (SELECT …, expression AS k FROM t)."
            context.wrong("SS220", f"PARTITION BY of {kind} must name columns", written, hint)
    return tuple(key.name for key in bound if isinstance(key, exp.Column))


# --- arguments ------------------------------------------------------------------------------------------------


def arguments_by_name(function: TableFunction) -> dict[str, Argument]:
    """The arguments of a window table function by parameter name. BindError SS220."""
    kind = function.name.upper()
    signature = SIGNATURES[kind]
    by_parameter: dict[str, Argument] = {}
    for position, argument in enumerate(function.arguments):
        name = _parameter(argument, position, kind, signature, bool(by_parameter) and _named(function, position))
        if name in by_parameter:
            raise bind_error("SS220", f"argument {name} of {kind} is given twice", argument.span)
        by_parameter[name] = argument
    for name in signature.required:
        if name not in by_parameter:
            hint = f"The arguments are {kind}({', '.join(_spelling(n, signature) for n in signature.names)})."
            raise bind_error("SS220", f"{kind} needs the argument {name}", function.span, hint)
    _check_kinds(kind, by_parameter)
    return by_parameter


def _named(function: TableFunction, before: int) -> bool:
    return any(a.name is not None for a in function.arguments[:before])


def _parameter(argument: Argument, position: int, kind: str, signature: Signature, after_named: bool) -> str:
    if argument.name is None:
        if after_named:
            raise bind_error("SS220", "an argument by position cannot follow a named one", argument.span)
        if position >= len(signature.positional):
            raise bind_error("SS220", f"{kind} takes at most {position} arguments by position", argument.span)
        return signature.names[position]
    name = argument.name.upper()
    if name not in signature.names:
        hint = did_you_mean(name, signature.names, "arguments")
        raise bind_error("SS220", f'{kind} has no argument "{argument.name}"', argument.span, hint)
    return name


def _spelling(name: str, signature: Signature) -> str:
    shown = {"DATA": "TABLE t", "TIMECOL": "DESCRIPTOR(ts)"}.get(name, name.lower())
    return shown if name not in signature.optional + signature.named else f"[{name} => {shown}]"


def _check_kinds(kind: str, arguments: Mapping[str, Argument]) -> None:
    for name, argument in arguments.items():
        wanted = {"DATA": TableArgument, "TIMECOL": Descriptor}.get(name)
        value = argument.value
        if wanted is not None and not isinstance(value, wanted):
            shown = "TABLE t" if name == "DATA" else "DESCRIPTOR(ts)"
            raise bind_error("SS220", f"argument {name} of {kind} must be {shown}", argument.span)
        if wanted is None and isinstance(value, (TableArgument, Descriptor)):
            raise bind_error("SS212", f"{name.lower()} of {kind} must be an interval", argument.span)


def measures_of(arguments: Mapping[str, Argument]) -> dict[str, Measured]:
    measures: dict[str, Measured] = {}
    for name, argument in arguments.items():
        value = argument.value
        if isinstance(value, (exp.Expr, RowCount)):
            measures[name] = value
    return measures
