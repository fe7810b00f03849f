"""Sizes, slides, gaps and offsets of windows: from syntax to the window they make, and their legality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.nodes import Duration
from sqlstream.grammar.nodes import RowCount as RowsSyntax
from sqlstream.grammar.spans import mark_as, span_of
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, type_in
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.durations import readable
from sqlstream.planner.intervals import NotAnInterval, fold, interval_ms, text_ms, whole_ms
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
)

Measured = exp.Expr | RowsSyntax | Duration
Values = Mapping[str, Measured]


@dataclass(frozen=True)
class Row:
    """Where the expressions of a window are bound: the names of its input."""

    scope: Scope
    context: Context


def window_of_measures(kind: str, values: Values, span: Span | None, row: Row) -> Window:
    """The window of a kind (TUMBLE, …, COUNT_WINDOW) from its arguments by parameter name. BindError SS211, SS212."""
    if kind == "SESSION":
        return _session(values, span, row)
    measures = {name: _measure(kind, name, value, span) for name, value in values.items() if name in _MEASURES}
    for name in ("SIZE", "SLIDE", "STEP"):
        _check_positive(kind, name, measures.get(name), values, span)
    if any(isinstance(m, RowCount) for m in measures.values()) or kind == "COUNT_WINDOW":
        return _by_rows(kind, measures, values, span)
    zone = row.context.settings.zone
    return replace(_aligned(kind, {n: _ms(m) for n, m in measures.items()}, values, span), zone=zone)


_MEASURES = ("SIZE", "SLIDE", "STEP", "OFFSET")


def _measure(kind: str, name: str, value: Measured, span: Span | None) -> Measure:
    if isinstance(value, RowsSyntax):
        return RowCount(value.count)
    expression = value.expression if isinstance(value, Duration) else value
    return interval_ms(expression, f"{name.lower()} of {kind}", span_of(expression) or span)


def _ms(measure: Measure) -> int:
    assert isinstance(measure, int), "a measure in time"
    return measure


def _amount(measure: Measure) -> int:
    return measure.count if isinstance(measure, RowCount) else measure


def _shown(measure: Measure) -> str:
    return f"{measure.count} rows" if isinstance(measure, RowCount) else readable(measure)


def _check_positive(kind: str, name: str, measure: Measure | None, values: Values, span: Span | None) -> None:
    if measure is not None and _amount(measure) <= 0:
        message = f"{name.lower()} of {_words(kind)} must be positive, not {_shown(measure)}"
        raise bind_error("SS211", message, _span(values[name]) or span)


def _words(kind: str) -> str:
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
    _check_cumulate(ms["STEP"], size, values, span)
    # As in Flink, where the offset of CUMULATE may be any; windows repeat after their size.
    return Cumulate(ms["STEP"], size, offset if abs(offset) < size else offset % size)


def _check_slide(kind: str, slide: Measure, size: Measure, values: Values, span: Span | None) -> None:
    if type(slide) is type(size) and _amount(slide) > _amount(size):
        message = f"slide of {_words(kind)} is {_shown(slide)}, more than its size of {_shown(size)}"
        order = "HOP(…, slide, size)" if kind == "HOP" else "COUNT WINDOW (size SLIDE slide)"
        raise bind_error(
            "SS211",
            message,
            _span(values["SLIDE"]) or span,
            f"Rows between two windows would be lost. The order is {order}.",
        )


def _check_cumulate(step: int, size: int, values: Values, span: Span | None) -> None:
    if size % step:
        message = f"size of CUMULATE is {readable(size)}, which is no multiple of its step of {readable(step)}"
        raise bind_error("SS211", message, _span(values["SIZE"]) or span, "The order is CUMULATE(…, step, size).")


def _check_offset(kind: str, measure: str, limit_ms: int, offset_ms: int, values: Values, span: Span | None) -> None:
    if abs(offset_ms) >= limit_ms:
        message = (
            f"offset of {kind} is {readable(offset_ms)}, but must be less than its {measure} of {readable(limit_ms)}"
        )
        raise bind_error("SS211", message, _span(values["OFFSET"]) or span)


def _span(value: Measured) -> Span | None:
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
    offset = _ms(measures.get("OFFSET", 0))
    if offset and not isinstance(slide, int):
        raise bind_error("SS211", f"{kind} by rows takes no offset", _span(values["OFFSET"]) or span)
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
    raise bind_error("SS212", "FULL_ONLY of COUNT WINDOW must be TRUE or FALSE", _span(value))


# --- sessions -------------------------------------------------------------------------------------------------


def _session(values: Values, span: Span | None, row: Row) -> Session:
    gap = _gap(values["GAP"], span, row)
    longest = values.get("MAX_DURATION")
    duration = _checked_duration("MAX_DURATION", longest, span) if longest is not None else None
    start, end = (_condition(name, values.get(name), row) for name in ("START_WHEN", "END_WHEN"))
    return Session(gap, duration, start, end)


def _checked_duration(name: str, value: Measured, span: Span | None) -> int:
    if isinstance(value, RowsSyntax):
        raise bind_error("SS212", f"{name.lower()} of SESSION must be an interval, not rows", value.span)
    measure = _measure("SESSION", name, value, span)
    _check_positive("SESSION", name, measure, {name: value}, span)
    return _ms(measure)


def _gap(value: Measured, span: Span | None, row: Row) -> int | exp.Expression:
    """Milliseconds, or an expression of them where the gap depends on the row."""
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


def _condition(name: str, value: Measured | None, row: Row) -> exp.Expression | None:
    if value is None:
        return None
    if isinstance(value, RowsSyntax | Duration):
        raise bind_error("SS212", f"{name} of SESSION must be a condition", _span(value))
    return bind_condition(value, row.scope, row.context, ClauseContext(name))


# --- Spark's spellings ----------------------------------------------------------------------------------------


def spark_window(name: str, call: exp.Expr, arguments: list[exp.Expr], row: Row) -> Window:
    """The window of Spark's ``window(ts, size [, slide [, start]])`` or ``session_window(ts, gap)``."""
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
    """Spark takes text, which becomes an interval of milliseconds."""
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
