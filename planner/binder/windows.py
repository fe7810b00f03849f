"""Windows of time: measures, their legality, and table functions to AssignWindows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.nodes import Argument, Descriptor, Duration, Rows, TableArgument, TableFunction
from sqlstream.grammar.spans import mark, span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.tables import conversion_hint
from sqlstream.planner.durations import readable
from sqlstream.planner.intervals import NotAnInterval, fold, interval_ms, text_ms, whole_ms
from sqlstream.planner.naming import Names
from sqlstream.planner.nodes import (
    AssignTime,
    AssignWindows,
    Cumulate,
    Field,
    Hop,
    Node,
    Scan,
    Session,
    Tumble,
    Window,
    WindowColumns,
)
from sqlstream.planner.suggestions import did_you_mean

Measured = exp.Expr | Rows | Duration

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


@dataclass(frozen=True)
class Signature:
    """Parameters of a window function in positional order; the first two are DATA and TIMECOL."""

    measures: tuple[str, ...]
    optional: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return ("DATA", "TIMECOL", *self.measures, *self.optional, *self.refused)


SIGNATURES: Mapping[str, Signature] = {
    "TUMBLE": Signature(("SIZE",), ("OFFSET",)),
    "HOP": Signature(("SLIDE", "SIZE"), ("OFFSET",)),
    "CUMULATE": Signature(("STEP", "SIZE"), ("OFFSET",)),
    "SESSION": Signature(("GAP",), (), ("MAX_DURATION", "START_WHEN", "END_WHEN")),
}


# --- measures -------------------------------------------------------------------------------------------------


def window_of_measures(kind: str, values: Mapping[str, Measured], span: Span | None) -> Window:
    """The window of a kind (TUMBLE, …) from its measures by parameter name. BindError SS211, SS212."""
    milliseconds = {name: _milliseconds(kind, name, value, span) for name, value in values.items()}
    offset = milliseconds.get("OFFSET", 0)
    for name in SIGNATURES[kind].measures:
        if milliseconds[name] <= 0:
            message = f"{name.lower()} of {kind} must be positive, not {readable(milliseconds[name])}"
            raise bind_error("SS211", message, _span(values[name]) or span)
    match kind:
        case "TUMBLE":
            window: Window = Tumble(milliseconds["SIZE"], offset)
            _check_offset(kind, "size", milliseconds["SIZE"], offset, values, span)
        case "HOP":
            window = Hop(milliseconds["SLIDE"], milliseconds["SIZE"], offset)
            _check_hop(window, values, span)
            _check_offset(kind, "slide", window.slide_ms, offset, values, span)
        case "CUMULATE":
            window = Cumulate(milliseconds["STEP"], milliseconds["SIZE"], offset)
            _check_cumulate(window, values, span)
            _check_offset(kind, "size", window.size_ms, offset, values, span)
        case _:
            window = Session(milliseconds["GAP"])
    return window


def _milliseconds(kind: str, name: str, value: Measured, span: Span | None) -> int:
    if isinstance(value, Rows):
        raise unsupported.refusal("row measure", value.span)
    expression = value.expression if isinstance(value, Duration) else value
    at = span_of(expression) or span
    if kind == "SESSION" and expression.find(exp.Column, exp.Case, exp.If):
        raise unsupported.refusal("session gap", at)
    return interval_ms(expression, f"{name.lower()} of {kind}", at)


def _check_hop(hop: Hop, values: Mapping[str, Measured], span: Span | None) -> None:
    if hop.slide_ms > hop.size_ms:
        message = f"slide of HOP is {readable(hop.slide_ms)}, more than its size of {readable(hop.size_ms)}"
        hint = "Rows between two windows would be lost. The order is HOP(…, slide, size)."
        raise bind_error("SS211", message, _span(values["SLIDE"]) or span, hint)


def _check_cumulate(cumulate: Cumulate, values: Mapping[str, Measured], span: Span | None) -> None:
    if cumulate.size_ms % cumulate.step_ms:
        size, step = readable(cumulate.size_ms), readable(cumulate.step_ms)
        message = f"size of CUMULATE is {size}, which is no multiple of its step of {step}"
        raise bind_error("SS211", message, _span(values["SIZE"]) or span, "The order is CUMULATE(…, step, size).")


def _check_offset(
    kind: str, of: str, limit_ms: int, offset_ms: int, values: Mapping[str, Measured], span: Span | None
) -> None:
    if abs(offset_ms) >= limit_ms:
        message = f"offset of {kind} is {readable(offset_ms)}, but must be less than its {of} of {readable(limit_ms)}"
        raise bind_error("SS211", message, _span(values["OFFSET"]) or span)


def _span(value: Measured) -> Span | None:
    if isinstance(value, Rows):
        return value.span
    return span_of(value.expression if isinstance(value, Duration) else value)


def spark_window(name: str, call: exp.Expr, arguments: list[exp.Expr]) -> Window:
    """The window of Spark's ``window(ts, size [, slide [, start]])`` or ``session_window(ts, gap)``."""
    measures = [_spark_duration(name, a) for a in arguments[1:]]
    if name == "session_window":
        return window_of_measures("SESSION", {"GAP": measures[0]}, span_of(call))
    size, slide, offset = [*measures, *[None] * 3][:3]
    assert size is not None
    values: dict[str, Measured] = {"SIZE": size}
    if offset is not None:
        values["OFFSET"] = offset
    if slide is None or slide == size:
        return window_of_measures("TUMBLE", values, span_of(call))
    return window_of_measures("HOP", {"SLIDE": slide, **values}, span_of(call))


def _spark_duration(name: str, argument: exp.Expr) -> exp.Expr:
    """Spark takes text, which becomes an interval of milliseconds."""
    try:
        if isinstance(argument, exp.Literal) and argument.is_string:
            milliseconds = text_ms(argument.name)
        else:
            milliseconds = whole_ms(fold(argument))
    except NotAnInterval as error:
        if name == "session_window" and argument.find(exp.Column, exp.Case):
            raise unsupported.refusal("session gap", span_of(argument)) from None
        raise bind_error("SS212", f"duration of {name} {error.reason}", argument, error.hint) from None
    interval = exp.Interval(this=exp.Literal.string(str(milliseconds)), unit=exp.var("MILLISECOND"))
    found = span_of(argument)
    if found is not None:
        mark(interval, found.start, found.end)
    return interval


# --- time columns ---------------------------------------------------------------------------------------------


def time_field(column: exp.Expr, resolved: exp.Expr, scope: Scope, window: str) -> Field:
    """The time attribute that ``column`` stands for; BindError SS210 with what to write instead."""
    field = scope.fields.get(resolved.name) if isinstance(resolved, exp.Column) else None
    if field is not None and field.time is not None:
        return field
    if field is None:
        message = f"{window} needs a time attribute, not an expression"
        raise bind_error("SS210", message, column, "Compute the column in CREATE TABLE and declare a WATERMARK for it.")
    name = column.name
    if not (field.type.is_timestamp or field.type.is_unknown):
        message = f'{window} needs a time attribute, but column "{name}" is of type {field.type}'
        raise bind_error("SS210", message, column, _attributes(scope) or conversion_hint(name, field.type))
    message = f'column "{name}" has no watermark, so {window} cannot tell when a window is complete'
    lost = any(isinstance(n, AssignTime) for n in scope.node.walk())
    detail = "A time attribute may be renamed; any other expression of it is an ordinary column." if lost else None
    raise bind_error("SS210", message, column, _attributes(scope) or _watermark_hint(name, scope), detail)


def _attributes(scope: Scope) -> str | None:
    names = [f'"{c.name}"' for c in scope.columns if scope.fields[c.field].time is not None]
    return f"The time attributes here are {' and '.join(names)}." if names else None


def _watermark_hint(name: str, scope: Scope) -> str:
    tables = {n.table.name for n in scope.node.walk() if isinstance(n, Scan)}
    where = f' of "{tables.pop()}"' if len(tables) == 1 else ""
    return f"Add WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND to CREATE TABLE{where}."


def assign_windows(scope: Scope, window: Window, time: Field, partition_by: tuple[str, ...]) -> Scope:
    """The scope with each row once per window, and the window's columns visible."""
    assert time.time is not None
    names = Names(f.name for f in scope.node.schema)
    columns = WindowColumns(*(names.unique(n) for n in WINDOW_COLUMNS))
    node: Node = AssignWindows(scope.node, window, time.name, partition_by, columns, time.time)
    fields = (columns.start, columns.end, columns.time)
    tables = scope.tables
    table = tables[0] if len(tables) == 1 else None
    visible = tuple(Visible(n, f, table) for n, f in zip(WINDOW_COLUMNS, fields, strict=True))
    return scope.with_columns(node, visible)


# --- table functions ------------------------------------------------------------------------------------------


def arguments_by_name(function: TableFunction, context: Context) -> dict[str, Argument]:
    """The arguments of a window table function by parameter name. BindError SS220."""
    kind = function.name.upper()
    signature = SIGNATURES[kind]
    found: dict[str, Argument] = {}
    for position, argument in enumerate(function.arguments):
        name = _parameter(argument, position, kind, signature, bool(found) and _named(function, position))
        if name in found:
            raise bind_error("SS220", f"argument {name} of {kind} is given twice", argument.span)
        found[name] = argument
    for name in ("DATA", "TIMECOL", *signature.measures):
        if name not in found:
            hint = f"The arguments are {kind}({', '.join(_spelling(n, signature) for n in signature.names)})."
            raise bind_error("SS220", f"{kind} needs the argument {name}", function.span, hint)
    for name in signature.refused:
        if name in found:
            raise unsupported.refusal("session bound", found[name].span)
    _check_kinds(kind, found)
    return found


def _named(function: TableFunction, before: int) -> bool:
    return any(a.name is not None for a in function.arguments[:before])


def _parameter(argument: Argument, position: int, kind: str, signature: Signature, after_named: bool) -> str:
    if argument.name is None:
        if after_named:
            raise bind_error("SS220", "an argument by position cannot follow a named one", argument.span)
        if position >= len(signature.names) - len(signature.refused):
            raise bind_error("SS220", f"{kind} takes at most {position} arguments by position", argument.span)
        return signature.names[position]
    name = argument.name.upper()
    if name not in signature.names:
        hint = did_you_mean(name, signature.names, "arguments")
        raise bind_error("SS220", f'{kind} has no argument "{argument.name}"', argument.span, hint)
    return name


def _spelling(name: str, signature: Signature) -> str:
    shown = {"DATA": "TABLE t", "TIMECOL": "DESCRIPTOR(ts)"}.get(name, name.lower())
    return shown if name not in signature.optional + signature.refused else f"[{name} => {shown}]"


def _check_kinds(kind: str, found: Mapping[str, Argument]) -> None:
    for name, argument in found.items():
        wanted = {"DATA": TableArgument, "TIMECOL": Descriptor}.get(name)
        value = argument.value
        if wanted is not None and not isinstance(value, wanted):
            shown = "TABLE t" if name == "DATA" else "DESCRIPTOR(ts)"
            raise bind_error("SS220", f"argument {name} of {kind} must be {shown}", argument.span)
        if wanted is None and isinstance(value, (TableArgument, Descriptor)):
            raise bind_error("SS212", f"{name.lower()} of {kind} must be an interval", argument.span)


def measures_of(arguments: Mapping[str, Argument]) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for name, argument in arguments.items():
        value = argument.value
        if isinstance(value, (exp.Expr, Rows)):
            found[name] = value
    return found
