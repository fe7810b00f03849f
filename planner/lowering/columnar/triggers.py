"""Triggers and evictors of the plan as those of kernels; their expressions become columns of the input."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream.errors import UnsupportedError
from sqlstream.planner import firing
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.columnar.inputs import Inputs
from sqlstream.planner.lowering.columnar.user_classes import user_class
from sqlstream.udfs import evictors, triggers
from sqlstream.udfs.kernel import Domain


def domain_of(domain: TimeDomain) -> Domain:
    return Domain.PROCESSING if domain is TimeDomain.PROCESSING else Domain.EVENT


def default_trigger(domain: Domain) -> triggers.Trigger:
    return triggers.AfterProcessingTime() if domain is Domain.PROCESSING else triggers.AfterWatermark()


def trigger_of(trigger: firing.Trigger, inputs: Inputs, time: str) -> triggers.Trigger:
    """``time``: the column with the rows' event times, in microseconds."""
    match trigger:
        case firing.AfterWatermark(early=early, late=late):
            return triggers.AfterWatermark(
                triggers.Never() if early is None else _pulse(early, inputs, time),
                triggers.AtOnce() if late is None else _pulse(late, inputs, time),
            )
        case firing.Purging(inner=inner):
            return triggers.Purging(trigger_of(inner, inputs, time))
        case firing.Combined(combinator=combinator, left=left, right=right):
            return _COMBINED[combinator](trigger_of(left, inputs, time), trigger_of(right, inputs, time))
    return _simple(trigger, inputs, time)


_COMBINED: dict[firing.Combinator, Callable[[triggers.Trigger, triggers.Trigger], triggers.Trigger]] = {
    firing.Combinator.OR: triggers.Or,
    firing.Combinator.AND: triggers.And,
    firing.Combinator.THEN: triggers.Then,
}


def _simple(trigger: firing.Trigger, inputs: Inputs, time: str) -> triggers.Trigger:
    match trigger:
        case firing.EveryRows(count=count):
            return triggers.EveryRows(count)
        case firing.EveryInterval(interval_ms=interval, domain=domain):
            return triggers.EveryInterval(interval * 1000, domain_of(domain), time)
        case firing.When(condition=condition):
            return triggers.When(inputs.add(condition, "BOOLEAN"))
        case firing.Delta(value=value, threshold=threshold, absolute=absolute):
            return triggers.Delta(inputs.add(value, "DOUBLE"), inputs.add(threshold, "DOUBLE"), absolute)
        case firing.AfterSilence(interval_ms=interval):
            return triggers.AfterDelay(interval * 1000, renewed=True)
        case firing.UserTrigger(call=call):
            user = user_class(call, inputs.rows, inputs)
            return triggers.User(user.name, user.implementation, user.arguments, user.columns, time)
    if type(trigger) in _PLAIN:
        return _PLAIN[type(trigger)]
    raise UnsupportedError("SS396", f"the trigger {type(trigger).__name__} is not executed")


_PLAIN: dict[type[firing.Trigger], triggers.Trigger] = {
    firing.AfterProcessingTime: triggers.AfterProcessingTime(),
    firing.Never: triggers.Never(),
    firing.OnBarrier: triggers.OnBarrier(),
    firing.EachBatch: triggers.EachBatch(),
}


def _pulse(pulse: firing.Pulse, inputs: Inputs, time: str) -> triggers.Trigger:
    """EARLY and LATE: an interval of processing time runs from the first row of the pane."""
    if isinstance(pulse, firing.EveryInterval) and pulse.domain is TimeDomain.PROCESSING:
        return triggers.AfterDelay(pulse.interval_ms * 1000)
    return trigger_of(pulse, inputs, time)


def evictor_of(eviction: firing.Eviction, inputs: Inputs, time: str) -> evictors.Evictor:
    after = eviction.after
    match eviction.evictor:
        case firing.KeepRows(count=count):
            return evictors.KeepRows(count, after)
        case firing.KeepInterval(interval_ms=interval):
            return evictors.KeepInterval(interval * 1000, time, after)
        case firing.EvictDelta(value=value, threshold=threshold, absolute=absolute):
            value_name, threshold_name = inputs.add(value, "DOUBLE"), inputs.add(threshold, "DOUBLE")
            return evictors.EvictDelta(value_name, threshold_name, absolute, after)
        case firing.UserEvictor(call=call):
            user = user_class(call, inputs.rows, inputs)
            return evictors.User(user.name, user.implementation, user.arguments, user.columns, after)
