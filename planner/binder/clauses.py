"""The streaming clauses of a SELECT: those that ask for the default are accepted, the others refused."""

from __future__ import annotations

from sqlstream.grammar.nodes import (
    Accumulation,
    AfterProcessingTime,
    AfterWatermark,
    CountWindow,
    Emit,
    EmitKind,
    GlobalWindow,
    LateAction,
    LateData,
    StreamClauses,
    Trigger,
    UserWindow,
)
from sqlstream.planner.binder.context import Context
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.nodes import AssignWindows, Node, WindowAggregate


def check_clauses(clauses: StreamClauses, domain: TimeDomain | None, context: Context) -> None:
    """Refuse what is not the default; ``domain`` is that of the window that is aggregated, None without one."""
    match clauses.window:
        case CountWindow(span=span):
            context.refuse("count window", span)
        case GlobalWindow(span=span):
            context.refuse("global window", span)
        case UserWindow(span=span):
            context.refuse("user window", span)
    if clauses.trigger is not None:
        _check_trigger(clauses.trigger, domain, context)
    if clauses.evict is not None:
        context.refuse("evict", clauses.evict.span)
    if clauses.late_data is not None:
        _check_late_data(clauses.late_data, domain, context)


def check_emit(emit: Emit | None, node: Node, context: Context) -> None:
    """EMIT ON WINDOW CLOSE is what a query over windows does anyway."""
    if emit is None:
        return
    if emit.kind is not EmitKind.ON_WINDOW_CLOSE or emit.interval is not None:
        context.refuse("emit", emit.span)
    elif not any(isinstance(n, (WindowAggregate, AssignWindows)) for n in node.walk()):
        context.refuse("emit without window", emit.span)


def _check_trigger(trigger: Trigger, domain: TimeDomain | None, context: Context) -> None:
    expression = trigger.expression
    default = AfterProcessingTime if domain is TimeDomain.PROCESSING else AfterWatermark
    plain = isinstance(expression, default) and expression in (AfterWatermark(), AfterProcessingTime())
    if domain is None and plain:
        context.wrong("SS211", "TRIGGER needs a window", trigger.span, "Add a window such as TUMBLE to GROUP BY.")
    elif not plain:
        context.refuse("trigger", trigger.span)
    # A window that fires once accumulates and discards alike; RETRACTING would show row kinds of updates.
    elif trigger.accumulation is Accumulation.RETRACTING:
        context.refuse("trigger", trigger.span, "RETRACTING is executed for windows that fire several times.")


def _check_late_data(late: LateData, domain: TimeDomain | None, context: Context) -> None:
    if late.allow is not None or late.action not in (None, LateAction.DROP):
        context.refuse("late data", late.span)
    elif domain is None:
        context.wrong("SS211", "LATE DATA needs a window", late.span, "Add a window such as TUMBLE to GROUP BY.")
