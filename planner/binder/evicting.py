"""EVICT: what leaves a window at a firing."""

from __future__ import annotations

from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.spans import span_of
from sqlstream.planner import firing
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.numbers import bind_number, constant_number
from sqlstream.planner.binder.python_calls import python_call
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.durations import readable
from sqlstream.planner.intervals import interval_ms


def bind_eviction(
    clause: syntax.Evict | None, scope: Scope, context: Context, *, timed: bool
) -> firing.Eviction | None:
    """The evictor over the fields of ``scope``; ``timed`` where its rows have a time. BindError SS227."""
    if clause is None:
        return None
    return firing.Eviction(_evictor(clause, scope, context, timed=timed), clause.after)


def _evictor(
    clause: syntax.Evict, scope: Scope, context: Context, *, timed: bool
) -> firing.KeepRows | firing.KeepInterval | firing.EvictDelta | firing.UserEvictor:
    match clause.evictor:
        case syntax.KeepLast(measure=syntax.RowCount(count=count)):
            if count <= 0:
                raise bind_error("SS227", "KEEP LAST 0 ROWS keeps nothing", clause.span, "Write 1 or more.")
            return firing.KeepRows(count)
        case syntax.KeepLast(measure=syntax.Duration(expression=interval)):
            return _keep_interval(interval_ms(interval, "the interval of KEEP LAST", span_of(interval)), clause, timed)
        case syntax.DeltaEvictor() as delta:
            value = bind_number(delta.value, "DELTA", scope, context)
            return firing.EvictDelta(value, constant_number(delta.threshold, "DELTA", scope, context), delta.absolute)
        case syntax.UserEvictor(call=call):
            return firing.UserEvictor(python_call(call, FunctionKind.EVICTOR, scope, context))
    raise TypeError(type(clause.evictor).__name__)


def _keep_interval(interval: int, clause: syntax.Evict, timed: bool) -> firing.KeepInterval:
    if interval <= 0:
        raise bind_error("SS227", f"KEEP LAST must be positive, not {readable(interval)}", clause.span)
    if not timed:
        hint = "Declare a WATERMARK, or a column pt AS PROCTIME(), in CREATE TABLE, or keep a number of rows."
        raise bind_error("SS227", "KEEP LAST of an interval needs rows with a time attribute", clause.span, hint)
    return firing.KeepInterval(interval)
