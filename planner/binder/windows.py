"""Windows: the time attribute they need, their sizes, and window table functions in FROM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import BindError, Span
from sqlstream.grammar.nodes import Argument, Descriptor, Duration, TableArgument, TableFunction
from sqlstream.grammar.nodes import RowCount as RowsSyntax
from sqlstream.grammar.spans import mark_as, span_of
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, type_in
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.tables import conversion_hint
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.fields import Field, UniqueNames
from sqlstream.planner.intervals import NotAnInterval, fold, interval_ms, readable, text_ms, whole_ms
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Project, Scan, Union
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.join import RegularJoin
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.planner.windows import (
    AlignedWindow,
    CountWindow,
    Cumulate,
    Hop,
    Measure,
    RowCount,
    RowMeasured,
    Session,
    Tumble,
    Window,
    WindowColumns,
)

# --- the time attribute ---------------------------------------------------------------------------------------

TIME_LOST = "SS672"
WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


def time_field(column: exp.Expr, resolved: exp.Expr, scope: Scope, window: str) -> Field:
    """The field of the time attribute that ``column`` names (``resolved`` is its bound form). BindError SS210, SS672 if
    it is none, with hints that say what to write instead; ``window`` is the window's name in messages.
    """
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
    join = _lost_in(scope.node, field.name)
    if join is not None:
        raise _time_lost(join, name, window, column)
    message = f'column "{name}" has no watermark, so {window} cannot tell when a window is complete'
    lost = any(isinstance(n, AssignTime) for n in scope.node.walk())
    detail = "A time attribute may be renamed; any other expression of it is an ordinary column." if lost else None
    raise bind_error("SS210", message, column, _attributes(scope) or _watermark_hint(name, scope), detail)


def with_times_of_distinct(scope: Scope) -> Scope:
    """The scope in which the rows of a SELECT DISTINCT keep their event times as time attributes.

    That is correct if rows are only inserted, because a distinct row is then inserted once, when it first arrives.
    """
    node = _with_times(scope.node)
    return scope if node is scope.node else scope.over(node)


def _with_times(node: Node) -> Node:
    match node:
        case GroupAggregate(aggregates=(), grouping_sets=None) if node.input.changelog_mode == APPEND_ONLY:
            return _distinct_in_time(node, _with_times(node.input))
        case Project():
            below = _with_times(node.input)
            if below is node.input:
                return node
            times = {f.name: f.time for f in below.schema}
            named = {i.name: i.expression.name for i in node.items if isinstance(i.expression, exp.Column)}
            items = (replace(i, time=times[named[i.name]]) if i.name in named else i for i in node.items)
            return Project(below, tuple(items))
        case Filter() | Union():
            inputs = tuple(map(_with_times, node.inputs))
            changed = any(one is not other for one, other in zip(inputs, node.inputs, strict=True))
            agree = len({tuple(field.time for field in below.schema) for below in inputs}) == 1
            return node.with_inputs(inputs) if changed and agree else node
    return node


def _distinct_in_time(node: GroupAggregate, below: Node) -> Node:
    fields = {f.name: f for f in below.schema}
    time = next((key for key in node.keys if fields[key].time is TimeDomain.EVENT), None)
    if time is None:
        return node
    rows = Project(below, tuple(fields[key].as_item for key in node.keys))
    return Deduplicate(rows, node.keys, time, TimeDomain.PROCESSING, last=False, ttl_ms=node.ttl_ms)


def _lost_in(node: Node, name: str) -> RegularJoin | None:
    """The regular join at which the time attribute ``name`` of an input becomes an ordinary column."""
    if isinstance(node, Project):
        expression = next((item.expression for item in node.items if item.field.name == name), None)
        if not isinstance(expression, exp.Column):
            return None
        name = expression.name
    for below in node.inputs:
        field = next((f for f in below.schema if f.name == name), None)
        if field is None:
            continue
        if isinstance(node, RegularJoin) and field.time is not None:
            return node
        return _lost_in(below, name)
    return None


def _time_lost(join: RegularJoin, name: str, window: str, column: exp.Expr) -> BindError:
    """SS672: why rows of the join cannot be assigned to windows."""
    updates = join.changelog_mode != APPEND_ONLY
    what = "is updated later" if updates else "leaves when its partner comes"
    message = (
        f'column "{name}" is no time attribute above the {join.kind.value} JOIN without bounds on times, for {window}'
    )
    detail = f"A row of the join {what}, however far the watermark is then."
    hint = (
        "Bound the distance of time attributes of both sides in its condition, as in b.ts BETWEEN a.ts - INTERVAL '1' "
        "HOUR AND a.ts, or join the results of windows."
    )
    return bind_error(TIME_LOST, message, column, hint, detail)


def _attributes(scope: Scope) -> str | None:
    names = [f'"{c.name}"' for c in scope.columns if scope.fields[c.field].time is not None]
    return f"The time attributes here are {' and '.join(names)}." if names else None


def _watermark_hint(name: str, scope: Scope) -> str:
    tables = {n.table.name for n in scope.node.walk() if isinstance(n, Scan)}
    marked = watermarked_columns(scope)
    if tables <= marked.keys():
        return attribute_kept_hint(marked)
    where = f' of "{tables.pop()}"' if len(tables) == 1 else ""
    return f"Add WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND to CREATE TABLE{where}."


def watermarked_columns(scope: Scope) -> dict[str, str]:
    """A dictionary from each table with a watermark, among those from which the scope's rows come, to the table's
    watermark column.
    """
    times = (n for n in scope.node.walk() if isinstance(n, AssignTime) and n.domain is TimeDomain.EVENT)
    return {n.table: n.column for n in times}


def attribute_kept_hint(marked: Mapping[str, str]) -> str:
    """Returns the hint for a window or join that lacks a time attribute because a subquery selects the table's time
    column inside an expression: "select it as it is". ``marked`` maps tables to their watermark columns.
    """
    columns = " and ".join(f'"{column}" of "{table}"' for table, column in marked.items())
    have = "have" if len(marked) > 1 else "has"
    return f"{columns} {have} a WATERMARK: select it as it is, not in an expression, in each query above the table."


def default_time(scope: Scope) -> Field | None:
    """The time attribute for a window without one: event time, else ingestion time, else PROCTIME(), else None."""
    times = [f for f in scope.node.schema if f.time is not None and any(c.field == f.name for c in scope.columns)]
    preferred = (TimeDomain.EVENT, TimeDomain.INGESTION, TimeDomain.PROCESSING)
    return min(times, key=lambda f: preferred.index(f.time or TimeDomain.PROCESSING), default=None)


def assign_windows(scope: Scope, window: Window, time: Field | None, partition_by: tuple[str, ...]) -> Scope:
    """Adds a window to the plan: returns the scope in which each row is repeated once per window, with the window's
    columns. Without ``time``, windows follow the clock of processing time.
    """
    names = UniqueNames(f.name for f in scope.node.schema)
    columns = WindowColumns(*(names.unique(n) for n in WINDOW_COLUMNS))
    domain = time.time if time is not None and time.time is not None else TimeDomain.PROCESSING
    node = AssignWindows(scope.node, window, time.name if time is not None else None, partition_by, columns, domain)
    fields = (columns.start, columns.end, columns.time)
    tables = scope.tables
    table = tables[0] if len(tables) == 1 else None
    visible = tuple(Visible(n, f, table) for n, f in zip(WINDOW_COLUMNS, fields, strict=True))
    return scope.with_columns(node, visible)


# --- window table functions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Signature:
    """The parameters of a window table function such as TUMBLE.

    Every call gives the table, then its time column if the function is ``timed``, then ``measures`` (sizes and slides).
    ``optional`` ones may follow by position or name; ``named`` ones are given by name only.
    """

    measures: tuple[str, ...]
    optional: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    timed: bool = True

    @property
    def required(self) -> tuple[str, ...]:
        """Parameters that every call must give."""
        return ("DATA", *(("TIMECOL",) if self.timed else ()), *self.measures)

    @property
    def positional(self) -> tuple[str, ...]:
        """Parameters that may be given by position, in order."""
        return (*self.required, *self.optional)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters."""
        return (*self.positional, *self.named)


SIGNATURES: Mapping[str, Signature] = {
    "TUMBLE": Signature(("SIZE",), ("OFFSET",)),
    "HOP": Signature(("SLIDE", "SIZE"), ("OFFSET",)),
    "CUMULATE": Signature(("STEP", "SIZE"), ("OFFSET",)),
    "SESSION": Signature(("GAP",), (), ("MAX_DURATION", "START_WHEN", "END_WHEN")),
    "COUNT_WINDOW": Signature(("SIZE",), ("SLIDE",), ("FULL_ONLY",), timed=False),
}


def window_function(function: TableFunction, context: Context, bind_source: Callable[[exp.Expr], Scope]) -> Scope:
    """Binds a window table function such as TUMBLE in FROM. Returns the scope in which each row of its table is
    repeated once per window. ``bind_source`` binds the table. Mistakes raise BindError SS210, SS211, SS212, SS220.
    """
    kind = function.name.upper()
    arguments = arguments_by_name(function)
    data = arguments["DATA"].value
    assert isinstance(data, TableArgument)
    scope = bind_source(data.source)
    if "TIMECOL" in arguments:
        scope = with_times_of_distinct(scope)
    if data.order_by:
        context.refuse("syntax", data.span, f"It is ORDER BY in TABLE of {kind}.")
    window = window_of_measures(kind, measures_of(arguments), function.span, WindowInput(scope, context))
    partition_by = _partition_by(kind, window, data, scope, context)
    time = _time_argument(kind, arguments, scope)
    if time is None and isinstance(window, RowMeasured):
        raise bind_error("SS210", f"{kind} with a measure in time needs a time attribute", function.span)
    assigned = assign_windows(scope, window, time, partition_by)
    return assigned.over(check_changes(assigned.node, context, function.span))


def _time_argument(kind: str, arguments: Mapping[str, Argument], scope: Scope) -> Field | None:
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


# --- their arguments ------------------------------------------------------------------------------------------


def arguments_by_name(function: TableFunction) -> dict[str, Argument]:
    """The arguments of a window table function by parameter name. Mistakes raise BindError SS220."""
    kind = function.name.upper()
    signature = SIGNATURES[kind]
    by_parameter: dict[str, Argument] = {}
    for position, argument in enumerate(function.arguments):
        after_named = any(a.name is not None for a in function.arguments[:position])
        name = _parameter(argument, position, kind, signature, after_named)
        if name in by_parameter:
            raise bind_error("SS220", f"argument {name} of {kind} is given twice", argument.span)
        by_parameter[name] = argument
    for name in signature.required:
        if name not in by_parameter:
            hint = f"The arguments are {kind}({', '.join(_spelling(n, signature) for n in signature.names)})."
            raise bind_error("SS220", f"{kind} needs the argument {name}", function.span, hint)
    _check_kinds(kind, by_parameter)
    return by_parameter


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
    """Those arguments that are expressions or numbers of rows (sizes, slides, gaps), as a dictionary by parameter
    name.
    """
    measures: dict[str, Measured] = {}
    for name, argument in arguments.items():
        value = argument.value
        if isinstance(value, (exp.Expr, RowsSyntax)):
            measures[name] = value
    return measures


# --- sizes, slides, gaps and offsets --------------------------------------------------------------------------

Measured = exp.Expr | RowsSyntax | Duration
Values = Mapping[str, Measured]


@dataclass(frozen=True)
class WindowInput:
    """The rows to which a window is applied, as the scope and context in which its arguments are bound."""

    scope: Scope
    context: Context


def window_of_measures(kind: str, values: Values, span: Span | None, row: WindowInput) -> Window:
    """Makes the window of a kind (TUMBLE, …, COUNT_WINDOW). ``values`` are the arguments by parameter name, ``row`` the
    rows over which they are bound. Mistakes raise BindError SS211, SS212.
    """
    if kind == "SESSION":
        return _session(values, span, row)
    measures = {name: _measure(kind, name, value, span) for name, value in values.items() if name in _MEASURES}
    for name in ("SIZE", "SLIDE", "STEP"):
        _check_positive(kind, name, measures.get(name), values, span)
    if any(isinstance(m, RowCount) for m in measures.values()) or kind == "COUNT_WINDOW":
        return _by_rows(kind, measures, values, span)
    zone = row.context.settings.zone
    return replace(_aligned(kind, {n: _duration_ms(m) for n, m in measures.items()}, values, span), zone=zone)


_MEASURES = ("SIZE", "SLIDE", "STEP", "OFFSET")


def _measure(kind: str, name: str, value: Measured, span: Span | None) -> Measure:
    if isinstance(value, RowsSyntax):
        return RowCount(value.count)
    expression = value.expression if isinstance(value, Duration) else value
    return interval_ms(expression, f"{name.lower()} of {kind}", span_of(expression) or span)


def _duration_ms(measure: Measure) -> int:
    assert isinstance(measure, int), "a measure in time"
    return measure


def _amount(measure: Measure) -> int:
    return measure.count if isinstance(measure, RowCount) else measure


def _shown(measure: Measure) -> str:
    return f"{measure.count} rows" if isinstance(measure, RowCount) else readable(measure)


def _check_positive(kind: str, name: str, measure: Measure | None, values: Values, span: Span | None) -> None:
    if measure is not None and _amount(measure) <= 0:
        message = f"{name.lower()} of {_kind_words(kind)} must be positive, not {_shown(measure)}"
        raise bind_error("SS211", message, _span_of_measure(values[name]) or span)


def _kind_words(kind: str) -> str:
    return "COUNT WINDOW" if kind == "COUNT_WINDOW" else kind


# --- windows of time ------------------------------------------------------------------------------------------


def _aligned(kind: str, ms: Mapping[str, int], values: Values, span: Span | None) -> AlignedWindow:
    offset, size = ms.get("OFFSET", 0), ms["SIZE"]
    match kind:
        case "TUMBLE":
            _check_offset(kind, "size", size, offset, values, span)
            return Tumble(size, offset)
        case "HOP":
            _check_slide(kind, ms["SLIDE"], size, values, span)
            _check_offset(kind, "slide", ms["SLIDE"], offset, values, span)
            return Hop(ms["SLIDE"], size, offset)
    if size % ms["STEP"]:
        step = readable(ms["STEP"])
        message = f"size of CUMULATE is {readable(size)}, which is no multiple of its step of {step}"
        raise bind_error("SS211", message, _span_of_measure(values["SIZE"]) or span, _CUMULATE_HINT)
    # As in Flink, CUMULATE takes any offset; its windows repeat after their size.
    return Cumulate(ms["STEP"], size, offset if abs(offset) < size else offset % size)


def _check_slide(kind: str, slide: Measure, size: Measure, values: Values, span: Span | None) -> None:
    if type(slide) is type(size) and _amount(slide) > _amount(size):
        message = f"slide of {_kind_words(kind)} is {_shown(slide)}, more than its size of {_shown(size)}"
        order = "HOP(…, slide, size)" if kind == "HOP" else "COUNT WINDOW (size SLIDE slide)"
        raise bind_error(
            "SS211",
            message,
            _span_of_measure(values["SLIDE"]) or span,
            f"Rows between two windows would be lost. The order is {order}.",
        )


_CUMULATE_HINT = "The order is CUMULATE(…, step, size)."


def _check_offset(kind: str, measure: str, limit_ms: int, offset_ms: int, values: Values, span: Span | None) -> None:
    if abs(offset_ms) >= limit_ms:
        message = (
            f"offset of {kind} is {readable(offset_ms)}, but must be less than its {measure} of {readable(limit_ms)}"
        )
        raise bind_error("SS211", message, _span_of_measure(values["OFFSET"]) or span)


def _span_of_measure(value: Measured) -> Span | None:
    if isinstance(value, RowsSyntax):
        return value.span
    return span_of(value.expression if isinstance(value, Duration) else value)


# --- windows of rows ------------------------------------------------------------------------------------------


def _by_rows(kind: str, measures: Mapping[str, Measure], values: Values, span: Span | None) -> Window:
    if kind == "CUMULATE":
        raise bind_error("SS211", "CUMULATE is measured in time, not in rows", span, "Write HOP or COUNT WINDOW.")
    size = measures["SIZE"]
    slide = measures.get("SLIDE", size)
    if isinstance(size, int) and isinstance(slide, int):
        hint = "Write TUMBLE or HOP for windows of time."
        raise bind_error("SS211", "a count window needs a size or a slide in rows", span, hint)
    _check_slide(kind, slide, size, values, span)
    offset = _duration_ms(measures.get("OFFSET", 0))
    if offset and not isinstance(slide, int):
        raise bind_error("SS211", f"{kind} by rows takes no offset", _span_of_measure(values["OFFSET"]) or span)
    if isinstance(slide, int):
        _check_offset(kind, "slide", slide, offset, values, span)
    full_only = _flag(values.get("FULL_ONLY"))
    if isinstance(size, RowCount) and isinstance(slide, RowCount):
        return CountWindow(size.count, slide.count, full_only and size != slide)
    if full_only:
        raise bind_error("SS211", "FULL ONLY needs a size and a slide in rows", span)
    return RowMeasured(size, slide, offset)


def _flag(value: Measured | None) -> bool:
    if value is None or isinstance(value, exp.Boolean):
        return value is not None and bool(value.this)
    raise bind_error("SS212", "FULL_ONLY of COUNT WINDOW must be TRUE or FALSE", _span_of_measure(value))


# --- sessions -------------------------------------------------------------------------------------------------


def _session(values: Values, span: Span | None, row: WindowInput) -> Session:
    gap = _gap(values["GAP"], span, row)
    longest = values.get("MAX_DURATION")
    duration = _checked_duration("MAX_DURATION", longest, span) if longest is not None else None
    start, end = (_session_condition(name, values.get(name), row) for name in ("START_WHEN", "END_WHEN"))
    return Session(gap, duration, start, end)


def _checked_duration(name: str, value: Measured, span: Span | None) -> int:
    if isinstance(value, RowsSyntax):
        raise bind_error("SS212", f"{name.lower()} of SESSION must be an interval, not rows", value.span)
    measure = _measure("SESSION", name, value, span)
    _check_positive("SESSION", name, measure, {name: value}, span)
    return _duration_ms(measure)


def _gap(value: Measured, span: Span | None, row: WindowInput) -> int | exp.Expression:
    """The gap in milliseconds, or an expression for it where it depends on the row."""
    expression = value.expression if isinstance(value, Duration) else value
    if isinstance(expression, RowsSyntax) or not expression.find(exp.Column, exp.Case, exp.If):
        return _checked_duration("GAP", value, span)
    bound = bind(expression, row.scope, row.context, ClauseContext("SESSION"))
    gap_type = type_in(row.scope, row.context, bound)
    if not (gap_type.is_unknown or gap_type.name in ("INTERVAL", "VOID")):
        hint = "Write CAST(… AS INTERVAL) for a text, n * INTERVAL '1' SECOND for a number."
        raise bind_error("SS212", f"gap of SESSION must be an interval, not {gap_type}", expression, hint)
    epoch = exp.Anonymous(this="timestamp_millis", expressions=[exp.Literal.number(0)])
    later = exp.Add(this=epoch, expression=exp.paren(bound, copy=False))
    return exp.Anonymous(this="unix_millis", expressions=[later])


def _session_condition(name: str, value: Measured | None, row: WindowInput) -> exp.Expression | None:
    if value is None:
        return None
    if isinstance(value, RowsSyntax | Duration):
        raise bind_error("SS212", f"{name} of SESSION must be a condition", _span_of_measure(value))
    return bind_condition(value, row.scope, row.context, ClauseContext(name))


# --- Spark's window() and session_window() --------------------------------------------------------------------


def spark_window(name: str, call: exp.Expr, arguments: list[exp.Expr], row: WindowInput) -> Window:
    """Makes the window of Spark's ``window(ts, size [, slide [, start]])`` or ``session_window(ts, gap)`` from its
    arguments.
    """
    span = span_of(call)
    if name == "session_window":
        return window_of_measures("SESSION", {"GAP": _spark_gap(arguments[1])}, span, row)
    size, slide, offset = [*(_spark_duration(name, a) for a in arguments[1:]), *[None] * 3][:3]
    assert size is not None
    values: dict[str, Measured] = {"SIZE": size}
    if offset is not None:
        values["OFFSET"] = offset
    if slide is None or slide == size:
        return window_of_measures("TUMBLE", values, span, row)
    return window_of_measures("HOP", {"SLIDE": slide, **values}, span, row)


def _spark_gap(argument: exp.Expr) -> exp.Expr:
    return argument if argument.find(exp.Column, exp.Case, exp.If) else _spark_duration("session_window", argument)


def _spark_duration(name: str, argument: exp.Expr) -> exp.Expr:
    """A duration that Spark takes as text, as an interval of milliseconds."""
    try:
        if isinstance(argument, exp.Literal) and argument.is_string:
            milliseconds = text_ms(argument.name)
        else:
            milliseconds = whole_ms(fold(argument))
    except NotAnInterval as error:
        raise bind_error("SS212", f"duration of {name} {error.reason}", argument, error.hint) from None
    interval = exp.Interval(this=exp.Literal.string(str(milliseconds)), unit=exp.var("MILLISECOND"))
    mark_as(interval, argument)
    return interval
