"""When windows fire, what they evict and what becomes of late rows: bound and frozen, part of window nodes.

Expressions name fields of the window node's input. Times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from sqlstream.planner.catalog import Table, TimeDomain

# --- triggers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EveryRows:
    count: int


@dataclass(frozen=True)
class EveryInterval:
    interval_ms: int
    domain: TimeDomain


@dataclass(frozen=True)
class When:
    condition: exp.Expression


Pulse = EveryRows | EveryInterval | When


@dataclass(frozen=True)
class AfterWatermark:
    """``delay_ms`` after the end of the window, that of the input for a global window.

    ``late`` None: a late row within ALLOW fires at once.

    The delay is at most ``LateData.allow_ms``: rows that arrive during it belong to the first firing.
    """

    early: Pulse | None = None
    late: Pulse | None = None
    delay_ms: int = 0


@dataclass(frozen=True)
class AfterProcessingTime:
    pass


@dataclass(frozen=True)
class Delta:
    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False


@dataclass(frozen=True)
class AfterSilence:
    interval_ms: int


@dataclass(frozen=True)
class OnBarrier:
    pass


@dataclass(frozen=True)
class Never:
    pass


@dataclass(frozen=True)
class EachBatch:
    """EMIT CHANGES: once per micro-batch for each window that the batch touched."""


@dataclass(frozen=True)
class PythonCall:
    """A Python class from CREATE FUNCTION with constant arguments."""

    function: str
    arguments: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True)
class UserTrigger:
    call: PythonCall


@dataclass(frozen=True)
class Purging:
    inner: Trigger


class Combinator(Enum):
    OR = "OR"
    AND = "AND"
    THEN = "THEN"


@dataclass(frozen=True)
class Combined:
    combinator: Combinator
    left: Trigger
    right: Trigger


Trigger = (
    EveryRows | EveryInterval | When | AfterWatermark | AfterProcessingTime | Delta | AfterSilence | OnBarrier | Never
    | EachBatch | UserTrigger | Purging | Combined
)  # fmt: skip


def simple_triggers(trigger: Trigger | None) -> Iterator[Trigger]:
    """What a trigger is made of: no combinators, and behind AFTER WATERMARK its early and late pulses."""
    waiting = [trigger]
    while waiting:
        match waiting.pop():
            case None:
                pass
            case Purging(inner=inner):
                waiting.append(inner)
            case Combined(left=left, right=right):
                waiting += (right, left)
            case AfterWatermark(early=early, late=late) as found:
                yield found
                waiting += (late, early)
            case found:
                yield found


class Accumulation(Enum):
    ACCUMULATING = "ACCUMULATING"
    DISCARDING = "DISCARDING"
    RETRACTING = "RETRACTING"


# --- evictors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeepRows:
    count: int


@dataclass(frozen=True)
class KeepInterval:
    """Rows less than ``interval_ms`` older than the newest stay."""

    interval_ms: int


@dataclass(frozen=True)
class EvictDelta:
    """A row leaves when the last row's value minus its own reaches the threshold."""

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False


@dataclass(frozen=True)
class UserEvictor:
    call: PythonCall


@dataclass(frozen=True)
class Eviction:
    evictor: KeepRows | KeepInterval | EvictDelta | UserEvictor
    after: bool = False


# --- late data ------------------------------------------------------------------------------------------------


class LateAction(Enum):
    DROP = "DROP"
    TO = "TO"
    FAIL = "FAIL"


@dataclass(frozen=True)
class LateData:
    """``table`` gets the late rows of TO: ``values`` has an expression for each of its physical columns, in order.

    They read the fields of the window node's input and its ``columns.start`` and ``columns.end``.
    """

    allow_ms: int = 0
    action: LateAction = LateAction.DROP
    table: Table | None = None
    values: tuple[exp.Expression, ...] = ()


# --- all of it ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Firing:
    """``trigger`` None is the default of the window: AFTER WATERMARK, AFTER PROCESSING TIME, or what a count needs."""

    trigger: Trigger | None = None
    accumulation: Accumulation = Accumulation.ACCUMULATING
    eviction: Eviction | None = None
    late: LateData = LateData()

    @property
    def is_default(self) -> bool:
        """True for one result per window, when it closes, and late rows dropped: all that the native gear can do."""
        return self == DEFAULT_FIRING

    @property
    def at_barriers(self) -> bool:
        """True where windows may fire when a barrier was aligned."""
        return any(isinstance(trigger, OnBarrier) for trigger in simple_triggers(self.trigger))


DEFAULT_FIRING = Firing()


def fires_again(firing: Firing) -> bool:
    """True where a window may give several results."""
    return firing.late.allow_ms > _delay_ms(firing) or firing.trigger not in (
        None,
        AfterProcessingTime(),
        AfterWatermark(delay_ms=_delay_ms(firing)),
        Never(),
    )


def _delay_ms(firing: Firing) -> int:
    return firing.trigger.delay_ms if isinstance(firing.trigger, AfterWatermark) else 0


def by_clock(trigger: Trigger) -> bool:
    """True where a simple trigger follows the clock of processing time."""
    match trigger:
        case AfterProcessingTime() | AfterSilence() | UserTrigger():
            return True
        case EveryInterval(domain=domain):
            return domain is TimeDomain.PROCESSING
    return False
