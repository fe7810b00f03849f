"""When windows fire, what they evict and what becomes of late rows: bound and frozen, part of window nodes.

Expressions name fields of the window node's input. Times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner import firing
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.first_result import _ordinal
from sqlstream.planner.explain.window_text import _delta
from sqlstream.planner.explain.window_text import _operand
from sqlstream.planner.explain.window_text import call_text
from sqlstream.planner.explain.window_text import sql

# --- triggers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EveryRows:
    count: int

    @property
    def first_firing_text(self) -> str:
        return f"with the {_ordinal(self.count)} row of a window"

    @property
    def text(self) -> str:
        return f"EVERY {self.count} rows"


@dataclass(frozen=True)
class EveryInterval:
    interval_ms: int
    domain: TimeDomain

    @property
    def first_firing_text(self) -> str:
        return f"within {readable(self.interval_ms)} of {self.domain.value}"

    @property
    def text(self) -> str:
        return f"EVERY {readable(self.interval_ms)} {self.domain.value}"


@dataclass(frozen=True)
class When:
    condition: exp.Expression

    @property
    def first_firing_text(self) -> str:
        return f"with the first row of {sql(self.condition)}"

    @property
    def text(self) -> str:
        return f"WHEN {sql(self.condition)}"


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

    @property
    def first_firing_text(self) -> str:
        if self.early is not None:
            return self.early.first_firing_text
        later = f"{readable(self.delay_ms)} after" if self.delay_ms else "at"
        return f"when the watermark is {later} the end of the window"

    @property
    def text(self) -> str:
        delay = f" WITH DELAY {readable(self.delay_ms)}" if self.delay_ms else ""
        early = f" EARLY {self.early.text}" if self.early else ""
        late = f" LATE {self.late.text}" if self.late else ""
        return f"AFTER WATERMARK{delay}{early}{late}"


@dataclass(frozen=True)
class AfterProcessingTime:

    first_firing_text = "when the clock passes the end of the window"

    text = "AFTER PROCESSING TIME"


@dataclass(frozen=True)
class Delta:
    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False

    @property
    def first_firing_text(self) -> str:
        return f"when {sql(self.value)} has moved by more than {sql(self.threshold)}"

    @property
    def text(self) -> str:
        return f"{_delta(self)} > {sql(self.threshold)}"


@dataclass(frozen=True)
class AfterSilence:
    interval_ms: int

    @property
    def first_firing_text(self) -> str:
        return f"{readable(self.interval_ms)} after the last row"

    @property
    def text(self) -> str:
        return f"AFTER {readable(self.interval_ms)} OF SILENCE"


@dataclass(frozen=True)
class OnBarrier:

    first_firing_text = "at the first barrier"

    text = "ON BARRIER"


@dataclass(frozen=True)
class Never:

    first_firing_text = "never"

    text = "NEVER"


@dataclass(frozen=True)
class EachBatch:
    """EMIT CHANGES: once per micro-batch for each window that the batch touched."""

    first_firing_text = "with each micro-batch"

    text = "each micro-batch"


@dataclass(frozen=True)
class PythonCall:
    """A Python class from CREATE FUNCTION with constant arguments."""

    function: str
    arguments: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True)
class UserTrigger:
    call: PythonCall

    @property
    def first_firing_text(self) -> str:
        return f"when {self.call.function} says so"

    @property
    def text(self) -> str:
        return f"USING {call_text(self.call)}"


@dataclass(frozen=True)
class Purging:
    inner: Trigger

    @property
    def first_firing_text(self) -> str:
        return self.inner.first_firing_text

    @property
    def text(self) -> str:
        return f"PURGING ({self.inner.text})"


class Combinator(Enum):
    OR = "OR"
    AND = "AND"
    THEN = "THEN"


@dataclass(frozen=True)
class Combined:
    combinator: Combinator
    left: Trigger
    right: Trigger

    @property
    def first_firing_text(self) -> str:
        if self.combinator is Combinator.THEN:
            return self.left.first_firing_text
        return f"{self.left.first_firing_text} {self.combinator.value.lower()} {self.right.first_firing_text}"

    @property
    def text(self) -> str:
        left, right = (_operand(t) for t in (self.left, self.right))
        return f"{left} {self.combinator.value} {right}"


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

    @property
    def fires_again(self) -> bool:
        """True where a window may give several results."""
        return self.late.allow_ms > self._delay_ms or self.trigger not in (
            None,
            AfterProcessingTime(),
            AfterWatermark(delay_ms=self._delay_ms),
            Never(),
        )

    @property
    def _delay_ms(self) -> int:
        return self.trigger.delay_ms if isinstance(self.trigger, AfterWatermark) else 0


DEFAULT_FIRING = Firing()


def by_clock(trigger: Trigger) -> bool:
    """True where a simple trigger follows the clock of processing time."""
    match trigger:
        case AfterProcessingTime() | AfterSilence() | UserTrigger():
            return True
        case EveryInterval(domain=domain):
            return domain is TimeDomain.PROCESSING
    return False
