"""Triggers over the rows of a window, with what is legal for which window."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.spans import span_of
from sqlstream.planner import firing
from sqlstream.planner.binder.barriers import require_barriers
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind_condition
from sqlstream.planner.binder.numbers import bind_number, constant_number
from sqlstream.planner.binder.python_calls import python_call
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.catalog import FunctionKind, TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.firing import Trigger
from sqlstream.planner.intervals import interval_ms
from sqlstream.planner.windows import CountWindow, RowMeasured, Window, WindowColumns

COUNTED = (CountWindow, RowMeasured)


@dataclass(frozen=True)
class Fired:
    """The windows that clauses speak of. ``scope`` has the rows below them, ``has_time`` where these carry a time."""

    window: Window
    columns: WindowColumns
    domain: TimeDomain
    has_time: bool
    scope: Scope
    context: Context
    span: Span | None

    @property
    def clock(self) -> bool:
        """True for windows of the clock, whose time no watermark tells."""
        return self.domain is TimeDomain.PROCESSING


def bind_trigger(trigger: syntax.TriggerExpr, fired: Fired, span: Span) -> Trigger:
    """The trigger over the fields of the rows below the window; ``span`` is that of the clause. BindError SS226."""
    match trigger:
        case syntax.Purging():
            return firing.Purging(bind_trigger(trigger.inner, fired, span))
        case syntax.Combined():
            left, right = (bind_trigger(t, fired, span) for t in (trigger.left, trigger.right))
            return firing.Combined(firing.Combinator[trigger.combinator.name], left, right)
    return _single_trigger(trigger, fired, span)


def _single_trigger(trigger: syntax.TriggerExpr, fired: Fired, span: Span) -> Trigger:
    match trigger:
        case syntax.EveryRows() | syntax.EveryInterval() | syntax.When():
            return _pulse(trigger, fired, span, early=False)
        case syntax.AfterWatermark():
            return _after_watermark(trigger, fired, span)
        case syntax.AfterProcessingTime():
            return firing.AfterProcessingTime()
        case syntax.AfterSilence():
            return firing.AfterSilence(positive_ms(trigger.interval, "the interval of SILENCE", span))
        case syntax.DeltaTrigger():
            value = bind_number(trigger.value, "DELTA", fired.scope, fired.context)
            threshold = constant_number(trigger.threshold, "DELTA", fired.scope, fired.context)
            return firing.Delta(value, threshold, trigger.absolute)
        case syntax.OnBarrier():
            require_barriers(fired.scope.node, trigger.span)
            return firing.OnBarrier()
        case syntax.Never():
            return firing.Never()
        case syntax.UserTrigger():
            return firing.UserTrigger(python_call(trigger.call, FunctionKind.TRIGGER, fired.scope, fired.context))
    raise TypeError(type(trigger).__name__)


def _after_watermark(trigger: syntax.AfterWatermark, fired: Fired, span: Span) -> firing.AfterWatermark:
    if fired.clock:
        hint = "Write AFTER PROCESSING TIME."
        raise bind_error("SS226", "windows on processing time have no watermark to fire after", span, hint)
    early, late = (_pulse(p, fired, span, early=True) if p is not None else None for p in (trigger.early, trigger.late))
    return firing.AfterWatermark(early, late)


def _pulse(pulse: syntax.Pulse, fired: Fired, span: Span, *, early: bool) -> firing.Pulse:
    match pulse:
        case syntax.EveryRows(count=count):
            if count <= 0:
                raise bind_error("SS226", f"EVERY {count} ROWS fires never", pulse.span, "Write 1 or more.")
            return firing.EveryRows(count)
        case syntax.EveryInterval():
            return _every_interval(pulse, fired, span, early=early)
        case syntax.When():
            return firing.When(bind_condition(pulse.condition, fired.scope, fired.context, ClauseContext("WHEN")))


def _every_interval(pulse: syntax.EveryInterval, fired: Fired, span: Span, *, early: bool) -> firing.EveryInterval:
    """In the window's own time unless said; as EARLY and LATE in processing time."""
    period = positive_ms(pulse.interval, "the interval of EVERY", span)
    if pulse.domain is syntax.Domain.EVENT and fired.clock:
        hint = "Leave EVENT TIME out, or build the window on event time."
        raise bind_error("SS226", "EVERY … EVENT TIME needs a window on event time", pulse.span, hint)
    clock = fired.clock or pulse.domain is syntax.Domain.PROCESSING or (early and pulse.domain is None)
    return firing.EveryInterval(period, TimeDomain.PROCESSING if clock else TimeDomain.EVENT)


def positive_ms(interval: exp.Expr | None, what: str, span: Span) -> int:
    assert interval is not None
    at = span_of(interval) or span
    length_ms = interval_ms(interval, what, at)
    if length_ms <= 0:
        raise bind_error("SS212", f"{what} must be positive, not {readable(length_ms)}", at)
    return length_ms
