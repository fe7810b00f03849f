"""When windows fire: TRIGGER, EMIT and the settings that mean the same, with what is legal for which window."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.errors import Span
from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.nodes import Emit, EmitKind, StreamClauses
from sqlstream.planner import firing
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.evicting import bind_eviction
from sqlstream.planner.binder.late_data import bind_late_data
from sqlstream.planner.binder.settings import EmitSettings
from sqlstream.planner.binder.triggers import COUNTED, Fired, bind_trigger, positive_ms
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.firing import Accumulation, Firing, Trigger
from sqlstream.planner.windows import GlobalWindow, Window


def bind_firing(clauses: StreamClauses, emit: Emit | None, fired: Fired) -> Firing:
    """What the clauses of a SELECT and the settings ask for. BindError SS226 to SS229."""
    bound_firing = _when(clauses, emit, fired)
    eviction = bind_eviction(clauses.evict, fired.scope, fired.context, timed=fired.has_time)
    if eviction is not None and isinstance(fired.window, COUNTED):
        assert clauses.evict is not None
        hint = "Write GROUP BY … GLOBAL WINDOW TRIGGER PURGING (EVERY n ROWS) EVICT …."
        raise bind_error("SS227", "a window measured in rows takes no EVICT", clauses.evict.span, hint)
    late = bind_late_data(clauses.late_data, fired.scope, fired.columns, fired.context)
    _check_late_data(clauses.late_data, fired)
    bound_firing = replace(
        bound_firing, eviction=eviction, late=_with_settings(late, clauses.late_data, bound_firing, fired)
    )
    _check_late_pulse(bound_firing, clauses)
    if clauses.trigger is None and emit is None:
        _check_late_settings(bound_firing, fired)
    return _normal(bound_firing, fired)


def _normal(bound_firing: Firing, fired: Fired) -> Firing:
    """A window that fires by default has no trigger, and one that fires once has nothing to accumulate.

    GLOBAL WINDOW has no default: AFTER WATERMARK there means the end of the input.
    """
    default = firing.AfterProcessingTime() if fired.clock else firing.AfterWatermark()
    if bound_firing.trigger == default and not isinstance(fired.window, GlobalWindow):
        bound_firing = replace(bound_firing, trigger=None)
    return bound_firing if bound_firing.fires_again else replace(bound_firing, accumulation=Accumulation.ACCUMULATING)


# --- which clause says when -----------------------------------------------------------------------------------


def _when(clauses: StreamClauses, emit: Emit | None, fired: Fired) -> Firing:
    trigger = clauses.trigger
    if trigger is not None:
        accumulation = Accumulation[trigger.accumulation.name] if trigger.accumulation else Accumulation.ACCUMULATING
        _check_one(trigger, emit)
        _check_triggered(fired.window, trigger.span)
        return Firing(bind_trigger(trigger.expression, fired, trigger.span), accumulation)
    if emit is not None:
        return _of_emit(emit, fired)
    if isinstance(fired.window, GlobalWindow):
        hint = "Add one, such as TRIGGER EVERY 100 ROWS, or PURGING (EVERY 100 ROWS) to start anew at each firing."
        raise bind_error("SS226", "GLOBAL WINDOW never closes, so it needs a TRIGGER", fired.span, hint)
    return _of_settings(fired)


def _check_one(trigger: syntax.Trigger, emit: Emit | None) -> None:
    if emit is None:
        return
    default = trigger.expression in (syntax.AfterWatermark(), syntax.AfterProcessingTime())
    if not (default and emit.kind is EmitKind.ON_WINDOW_CLOSE and emit.interval is None):
        raise bind_error("SS229", "TRIGGER and EMIT both say when windows fire", emit.span, "Keep one of the two.")


def _check_triggered(window: Window, span: Span) -> None:
    if isinstance(window, COUNTED):
        hint = "Write GROUP BY … GLOBAL WINDOW TRIGGER …, with EVICT KEEP LAST n ROWS for its size."
        raise bind_error("SS226", "a window measured in rows fires by its own count and takes no TRIGGER", span, hint)


def _of_emit(emit: Emit, fired: Fired) -> Firing:
    counted = isinstance(fired.window, COUNTED)
    endless = isinstance(fired.window, GlobalWindow)
    if emit.kind is EmitKind.ON_WINDOW_CLOSE and not endless and emit.interval is None:
        return Firing()
    if counted:
        raise bind_error(
            "SS229", "a window measured in rows emits when its rows are there", emit.span, "Leave EMIT out."
        )
    match emit.kind:
        case EmitKind.CHANGES:
            return Firing(firing.EachBatch(), Accumulation.RETRACTING)
        case EmitKind.EVERY:
            period = positive_ms(emit.interval, "the interval of EMIT EVERY", emit.span)
            every = firing.EveryInterval(period, TimeDomain.PROCESSING)
            return Firing(every if endless or fired.clock else firing.AfterWatermark(early=every))
    if endless:
        hint = "Write TRIGGER, EMIT CHANGES or EMIT EVERY."
        raise bind_error("SS229", "GLOBAL WINDOW never closes", emit.span, hint)
    assert emit.interval is not None
    if fired.clock:
        raise bind_error("SS229", "EMIT AFTER WATERMARK needs windows on event time", emit.span)
    delay = positive_ms(emit.interval, "the delay of EMIT", emit.span)
    return Firing(firing.AfterWatermark(delay_ms=delay))


def _of_settings(fired: Fired) -> Firing:
    """As in Flink, what the settings let fire again retracts its results. What a clause allows does not."""
    settings: EmitSettings = fired.context.settings
    if isinstance(fired.window, COUNTED):
        return Firing()
    early, late = (_pulse_of(ms) for ms in (settings.early_ms, settings.late_ms))
    if early is None and late is None:
        return Firing()
    if not fired.clock:
        return Firing(firing.AfterWatermark(early, late), Accumulation.RETRACTING)
    end = firing.AfterProcessingTime()
    trigger: Trigger = firing.Combined(firing.Combinator.OR, early, end) if early is not None else end
    return Firing(trigger, Accumulation.RETRACTING)


def _pulse_of(ms: int | None) -> firing.EveryRows | firing.EveryInterval | None:
    if ms is None:
        return None
    return firing.EveryInterval(ms, TimeDomain.PROCESSING) if ms else firing.EveryRows(1)


# --- late data ------------------------------------------------------------------------------------------------


def _check_late_data(clause: syntax.LateData | None, fired: Fired) -> None:
    if clause is None:
        return
    if isinstance(fired.window, (*COUNTED, GlobalWindow)):
        message = "LATE DATA needs windows that close at a time"
        raise bind_error("SS228", message, clause.span, "No row is late for a window of rows; leave LATE DATA out.")
    if fired.clock and (clause.allow is not None or clause.action is not None):
        raise bind_error("SS228", "no row is late in processing time", clause.span, "Leave LATE DATA out.")


def _with_settings(
    late: firing.LateData, clause: syntax.LateData | None, bound_firing: Firing, fired: Fired
) -> firing.LateData:
    """Lateness allowed by the settings, and at least the delay of EMIT AFTER WATERMARK."""
    allow = late.allow_ms
    if not _allows(clause) and not fired.clock and not isinstance(fired.window, GlobalWindow):
        counted = isinstance(fired.window, COUNTED)
        allow = 0 if counted else fired.context.settings.allowed_ms
    delay = bound_firing.trigger.delay_ms if isinstance(bound_firing.trigger, firing.AfterWatermark) else 0
    return replace(late, allow_ms=max(allow, delay))


def _allows(clause: syntax.LateData | None) -> bool:
    return clause is not None and clause.allow is not None


def _check_late_pulse(bound_firing: Firing, clauses: StreamClauses) -> None:
    trigger = bound_firing.trigger
    asked = clauses.trigger is not None and isinstance(trigger, firing.AfterWatermark) and trigger.late is not None
    if asked and not bound_firing.late.allow_ms:
        assert clauses.trigger is not None
        hint = "Add LATE DATA ALLOW INTERVAL '1' MINUTE."
        raise bind_error("SS226", "LATE fires for late rows, and none are allowed", clauses.trigger.span, hint)


def _check_late_settings(bound_firing: Firing, fired: Fired) -> None:
    """As in Flink, late firings need late rows, and time to come."""
    settings: EmitSettings = fired.context.settings
    if settings.late_ms is None or fired.clock or isinstance(fired.window, COUNTED):
        return
    hint = "SET 'table.exec.emit.allow-lateness' = '1 min', or write LATE DATA ALLOW."
    if not bound_firing.late.allow_ms:
        message = 'setting "table.exec.emit.late-fire.enabled" fires for late rows, and none are allowed'
        raise bind_error("SS237", message, fired.span, hint)
    if settings.late_ms > bound_firing.late.allow_ms:
        delay, allowed = readable(settings.late_ms), readable(bound_firing.late.allow_ms)
        message = f'setting "table.exec.emit.late-fire.delay" is {delay}, and rows may be late by {allowed} only'
        raise bind_error("SS238", message, fired.span, hint)
