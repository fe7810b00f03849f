"""Windows and when they fire, as EXPLAIN says them."""

from __future__ import annotations

import re
from functools import lru_cache, singledispatch

from sqlglot import exp

from sqlstream.grammar.dialect import SqlStream
from sqlstream.planner import firing
from sqlstream.planner.durations import readable
from sqlstream.planner.firing import Firing, LateAction, PythonCall
from sqlstream.planner.windows import (
    CountWindow,
    Cumulate,
    GlobalWindow,
    Hop,
    Measure,
    RowCount,
    RowMeasured,
    Session,
    Tumble,
    UserWindow,
    Window,
)

_PLAIN = re.compile(r"[A-Za-z_]\w*")


def sql(expression: exp.Expr) -> str:
    """SQL with backticks only where a name needs them."""
    if isinstance(expression, exp.Column) and len(expression.parts) == 1:  # most of a plan, the same few over and over
        return _field(expression.name)
    return _spelled(expression.copy())


@lru_cache(4096)
def _field(name: str) -> str:
    return _spelled(exp.column(name, quoted=True))


def _spelled(own: exp.Expr) -> str:
    """The SQL of an expression that nobody else has."""
    for identifier in own.find_all(exp.Identifier):
        if _PLAIN.fullmatch(identifier.name):
            identifier.set("quoted", False)
    return own.sql(SqlStream, comments=False, copy=False)


# --- windows --------------------------------------------------------------------------------------------------


def window_text(window: Window) -> str:
    """``HOP slide 5 s size 10 s offset 1 s``."""
    match window:
        case Tumble(size_ms=size):
            return f"TUMBLE size {readable(size)}{_alignment(window)}"
        case Hop(slide_ms=slide, size_ms=size):
            return f"HOP slide {readable(slide)} size {readable(size)}{_alignment(window)}"
        case Cumulate(step_ms=step, size_ms=size):
            return f"CUMULATE step {readable(step)} size {readable(size)}{_alignment(window)}"
        case Session():
            return f"SESSION {_session(window)}"
        case CountWindow(size=size, slide=slide, full_only=full):
            sliding = f" slide {slide} rows" if slide != size else ""
            return f"COUNT WINDOW size {size} rows{sliding}{' full only' if full and slide != size else ''}"
        case RowMeasured(slide=slide_by, size=size_by, offset_ms=offset):
            return f"HOP slide {_measure(slide_by)} size {_measure(size_by)}{_offset(offset)}"
        case GlobalWindow():
            return "GLOBAL WINDOW"
        case UserWindow(call=call):
            return f"WINDOW USING {call_text(call)}"


def _alignment(window: Tumble | Hop | Cumulate) -> str:
    return _offset(window.offset_ms) + (f" in {window.zone}" if window.zone else "")


def _offset(milliseconds: int) -> str:
    return f" offset {readable(milliseconds)}" if milliseconds else ""


def _measure(measure: Measure) -> str:
    return f"{measure.count} rows" if isinstance(measure, RowCount) else readable(measure)


def _session(session: Session) -> str:
    gap = readable(session.gap_ms) if isinstance(session.gap_ms, int) else sql(interval_of(session.gap_ms))
    parts = [f"gap {gap}"]
    if session.max_duration_ms is not None:
        parts.append(f"max duration {readable(session.max_duration_ms)}")
    if session.start_when is not None:
        parts.append(f"start when {sql(session.start_when)}")
    if session.end_when is not None:
        parts.append(f"end when {sql(session.end_when)}")
    return " ".join(parts)


def interval_of(milliseconds: exp.Expression) -> exp.Expr:
    """The interval whose milliseconds the binder took: what the user wrote as the gap of a session."""
    for sum_ in milliseconds.find_all(exp.Add):
        interval = sum_.expression.unnest()
        assert isinstance(interval, exp.Expr)
        return interval
    return milliseconds


def call_text(call: PythonCall) -> str:
    return f"{call.function}({', '.join(map(sql, call.arguments))})"


# --- firing ---------------------------------------------------------------------------------------------------


def firing_text(fires: Firing) -> list[str]:
    """Clauses in the words of the dialect, those that are not the default."""
    parts: list[str] = []
    accumulation = fires.accumulation
    if fires.trigger is not None or accumulation is not firing.Accumulation.ACCUMULATING:
        trigger = fires.trigger.text if fires.trigger is not None else "AFTER WATERMARK"
        parts.append(f"TRIGGER {trigger} {accumulation.value}")
    if fires.eviction is not None:
        parts.append(f"EVICT {'AFTER' if fires.eviction.after else 'BEFORE'} {_evictor(fires.eviction.evictor)}")
    if fires.late != firing.LateData():
        parts.append(_late(fires.late))
    return parts


def _late(late: firing.LateData) -> str:
    allow = f" ALLOW {readable(late.allow_ms)}" if late.allow_ms else ""
    to = f" {late.table.name}" if late.action is LateAction.TO and late.table else ""
    return f"LATE DATA{allow} {late.action.value}{to}"


def _operand(trigger: firing.Trigger) -> str:
    text = trigger.text
    return f"({text})" if isinstance(trigger, firing.Combined) else text


def _delta(delta: firing.Delta | firing.EvictDelta) -> str:
    return f"{'ABSOLUTE ' if delta.absolute else ''}DELTA ({sql(delta.value)})"


def _evictor(evictor: firing.KeepRows | firing.KeepInterval | firing.EvictDelta | firing.UserEvictor) -> str:
    match evictor:
        case firing.KeepRows(count=count):
            return f"KEEP LAST {count} rows"
        case firing.KeepInterval(interval_ms=interval):
            return f"KEEP LAST {readable(interval)}"
        case firing.EvictDelta(threshold=threshold):
            return f"{_delta(evictor)} >= {sql(threshold)}"
        case firing.UserEvictor(call=call):
            return f"USING {call_text(call)}"
