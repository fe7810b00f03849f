"""When windows fire, what they evict and what becomes of late rows: bound and frozen, part of window nodes.

Expressions name fields of the window node's input. Times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.intervals import ordinal, readable

# --- triggers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BaseTrigger:
    """The base of all triggers, which decide when a window emits a result."""

    @property
    def text(self) -> str:
        """The trigger in the words of the dialect: ``EVERY 10 rows OR AFTER WATERMARK``."""
        raise NotImplementedError

    @property
    def first_firing_text(self) -> str:
        """When the trigger first fires, in words: ``with the 10th row of a window``."""
        raise NotImplementedError


@dataclass(frozen=True)
class SimpleTrigger(BaseTrigger):
    """The base of triggers that contain no other triggers."""

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        """The expressions that the trigger computes for each row."""
        return ()

    @property
    def follows_clock(self) -> bool:
        """True where the trigger may fire by the clock of processing time."""
        return False


@dataclass(frozen=True)
class EveryRows(SimpleTrigger):
    """Fires after each ``count`` rows of a window."""

    count: int

    @property
    def first_firing_text(self) -> str:
        return f"with the {ordinal(self.count)} row of a window"

    @property
    def text(self) -> str:
        return f"EVERY {self.count} rows"


@dataclass(frozen=True)
class EveryInterval(SimpleTrigger):
    """Fires every ``interval_ms`` milliseconds of event time or processing time (``domain``)."""

    interval_ms: int
    domain: TimeDomain

    @property
    def follows_clock(self) -> bool:
        return self.domain is TimeDomain.PROCESSING

    @property
    def first_firing_text(self) -> str:
        return f"within {readable(self.interval_ms)} of {self.domain.value}"

    @property
    def text(self) -> str:
        return f"EVERY {readable(self.interval_ms)} {self.domain.value}"


@dataclass(frozen=True)
class When(SimpleTrigger):
    """Fires at each row that meets the condition."""

    condition: exp.Expression

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        return (self.condition,)

    @property
    def first_firing_text(self) -> str:
        return f"with the first row of {sql(self.condition)}"

    @property
    def text(self) -> str:
        return f"WHEN {sql(self.condition)}"


Pulse = EveryRows | EveryInterval | When


@dataclass(frozen=True)
class AfterWatermark(SimpleTrigger):
    """Fires when the watermark is ``delay_ms`` milliseconds after the end of the window; for a global window at the end
    of the input.

    ``early`` says when it fires before that, None for never. ``late`` says when it fires again for late rows that LATE
    DATA ALLOW admits; None: at each of them. The delay is at most ``LateData.allow_ms``: rows that arrive during it
    belong to the first firing.
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
class AfterProcessingTime(SimpleTrigger):
    """Fires when the processing-time clock passes the end of the window."""

    follows_clock = True

    first_firing_text = "when the clock passes the end of the window"

    text = "AFTER PROCESSING TIME"


@dataclass(frozen=True)
class Delta(SimpleTrigger):
    """Fires at a row whose value exceeds that of the row that fired last by more than the threshold. ``absolute``: also
    if it is smaller by more than that.
    """

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        return self.value, self.threshold

    @property
    def first_firing_text(self) -> str:
        return f"when {sql(self.value)} has moved by more than {sql(self.threshold)}"

    @property
    def text(self) -> str:
        return f"{_delta_text(self)} > {sql(self.threshold)}"


@dataclass(frozen=True)
class AfterSilence(SimpleTrigger):
    """Fires when no row has arrived for the given interval of processing time."""

    interval_ms: int

    follows_clock = True

    @property
    def first_firing_text(self) -> str:
        return f"{readable(self.interval_ms)} after the last row"

    @property
    def text(self) -> str:
        return f"AFTER {readable(self.interval_ms)} OF SILENCE"


@dataclass(frozen=True)
class OnBarrier(SimpleTrigger):
    """Fires when a barrier of ALIGN BARRIERS in the query has arrived on all channels."""

    first_firing_text = "at the first barrier"

    text = "ON BARRIER"


@dataclass(frozen=True)
class Never(SimpleTrigger):
    """Never fires."""

    first_firing_text = "never"

    text = "NEVER"


@dataclass(frozen=True)
class EachBatch(SimpleTrigger):
    """EMIT CHANGES: fires once per micro-batch for each window to which the batch added rows."""

    first_firing_text = "with each micro-batch"

    text = "each micro-batch"


@dataclass(frozen=True)
class PythonCall:
    """A call of a user's Python class, which CREATE FUNCTION has declared, with constant arguments."""

    function: str
    arguments: tuple[exp.Expression, ...] = ()

    @property
    def text(self) -> str:
        """The call as SQL: ``mine(1, 'a')``."""
        return f"{self.function}({', '.join(map(sql, self.arguments))})"


@dataclass(frozen=True)
class UserTrigger(SimpleTrigger):
    """A trigger of a user's Python class, which decides at rows and at times of the watermark or the clock whether it
    fires.
    """

    call: PythonCall

    follows_clock = True

    @property
    def first_firing_text(self) -> str:
        return f"when {self.call.function} says so"

    @property
    def text(self) -> str:
        return f"USING {self.call.text}"


@dataclass(frozen=True)
class Purging(BaseTrigger):
    """Clears the window's state whenever ``inner`` fires."""

    inner: Trigger

    @property
    def first_firing_text(self) -> str:
        return self.inner.first_firing_text

    @property
    def text(self) -> str:
        return f"PURGING ({self.inner.text})"


class Combinator(Enum):
    """How two triggers are combined: OR, AND or THEN."""

    OR = "OR"
    AND = "AND"
    THEN = "THEN"


@dataclass(frozen=True)
class Combined(BaseTrigger):
    """Two triggers combined. OR: it fires when either one does. AND: when both have fired since the last firing. THEN:
    the left one fires once, from then on the right one decides.
    """

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
        left, right = (f"({t.text})" if isinstance(t, Combined) else t.text for t in (self.left, self.right))
        return f"{left} {self.combinator.value} {right}"


Trigger = (
    EveryRows | EveryInterval | When | AfterWatermark | AfterProcessingTime | Delta | AfterSilence | OnBarrier | Never
    | EachBatch | UserTrigger | Purging | Combined
)  # fmt: skip


def simple_triggers(trigger: Trigger | None) -> Iterator[SimpleTrigger]:
    """Yields the triggers of which a trigger is composed by OR, AND, THEN and PURGING. AFTER WATERMARK is followed by
    its early and late triggers.
    """
    waiting = [trigger]
    while waiting:
        match waiting.pop():
            case None:
                pass
            case Purging(inner=inner):
                waiting.append(inner)
            case Combined(left=left, right=right):
                waiting += (right, left)
            case AfterWatermark(early=early, late=late) as watermark:
                yield watermark
                waiting += (late, early)
            case simple:
                yield simple


class Accumulation(Enum):
    """What a later firing of a window emits: all rows so far, new rows only, or all after a retraction."""

    ACCUMULATING = "ACCUMULATING"
    DISCARDING = "DISCARDING"
    RETRACTING = "RETRACTING"


# --- evictors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BaseEvictor:
    """The base of all evictors, which remove rows from a window before or after it is aggregated."""

    @property
    def text(self) -> str:
        """The evictor in the words of the dialect: ``KEEP LAST 10 rows``."""
        raise NotImplementedError


@dataclass(frozen=True)
class KeepRows(BaseEvictor):
    """Keeps the newest ``count`` rows of a window."""

    count: int

    @property
    def text(self) -> str:
        return f"KEEP LAST {self.count} rows"


@dataclass(frozen=True)
class KeepInterval(BaseEvictor):
    """Keeps the rows of a window that are less than ``interval_ms`` milliseconds older than the newest."""

    interval_ms: int

    @property
    def text(self) -> str:
        return f"KEEP LAST {readable(self.interval_ms)}"


@dataclass(frozen=True)
class EvictDelta(BaseEvictor):
    """Removes those rows whose value is less than that of the window's last row, by the threshold or more.
    ``absolute``: also those whose value is greater by as much.
    """

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False

    @property
    def text(self) -> str:
        return f"{_delta_text(self)} >= {sql(self.threshold)}"


@dataclass(frozen=True)
class UserEvictor(BaseEvictor):
    """An evictor whose removals a user's Python class decides."""

    call: PythonCall

    @property
    def text(self) -> str:
        return f"USING {self.call.text}"


@dataclass(frozen=True)
class Eviction:
    """EVICT: removes rows from a window before, or ``after``, it is aggregated."""

    evictor: KeepRows | KeepInterval | EvictDelta | UserEvictor
    after: bool = False

    @property
    def text(self) -> str:
        """The clause EVICT as SQL."""
        return f"EVICT {'AFTER' if self.after else 'BEFORE'} {self.evictor.text}"


def _delta_text(delta: Delta | EvictDelta) -> str:
    return f"{'ABSOLUTE ' if delta.absolute else ''}DELTA ({sql(delta.value)})"


# --- late data ------------------------------------------------------------------------------------------------


class LateAction(Enum):
    """What happens to rows that are too late for their window."""

    DROP = "DROP"
    TO = "TO"
    FAIL = "FAIL"


@dataclass(frozen=True)
class LateData:
    """The clause LATE DATA. ``table`` is the table of TO, which receives late rows, None without one; ``values`` has an
    expression for each of its physical columns, in order.

    These expressions read the fields of the window node's input, and its ``columns.start`` and ``columns.end``.
    """

    allow_ms: int = 0
    action: LateAction = LateAction.DROP
    table: Table | None = None
    values: tuple[exp.Expression, ...] = ()

    @property
    def text(self) -> str:
        """The clause LATE DATA as SQL."""
        allow = f" ALLOW {readable(self.allow_ms)}" if self.allow_ms else ""
        to = f" {self.table.name}" if self.action is LateAction.TO and self.table else ""
        return f"LATE DATA{allow} {self.action.value}{to}"


# --- all of it ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Firing:
    """When a window fires, and what its firings emit. ``trigger`` None is the window's default: AFTER WATERMARK, AFTER
    PROCESSING TIME, or every n rows for windows that count rows.
    """

    trigger: Trigger | None = None
    accumulation: Accumulation = Accumulation.ACCUMULATING
    eviction: Eviction | None = None
    late: LateData = LateData()

    @property
    def is_default(self) -> bool:
        """True for one result per window, when it closes, with late rows dropped, which is all that the native engine
        supports.
        """
        return self == DEFAULT_FIRING

    @property
    def at_barriers(self) -> bool:
        """True where windows may fire when a barrier of ALIGN BARRIERS has arrived on all channels."""
        return any(isinstance(trigger, OnBarrier) for trigger in simple_triggers(self.trigger))

    @property
    def follows_clock(self) -> bool:
        """True where windows may fire by the clock of processing time."""
        return any(trigger.follows_clock for trigger in simple_triggers(self.trigger))

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        """The expressions that triggers, evictors and late data compute for each row."""
        triggers = [e for trigger in simple_triggers(self.trigger) for e in trigger.expressions]
        evictor = self.eviction.evictor if self.eviction is not None else None
        evicting = (evictor.value, evictor.threshold) if isinstance(evictor, EvictDelta) else ()
        return (*triggers, *evicting, *self.late.values)

    @property
    def fields_read(self) -> set[str]:
        """The names of the fields that triggers, evictors and late data read. They may include the window's bounds,
        which only late data can read.
        """
        return set().union(*map(columns_of, self.expressions))

    @property
    def texts(self) -> list[str]:
        """The clauses as SQL, without those that are the default."""
        texts: list[str] = []
        if self.trigger is not None or self.accumulation is not Accumulation.ACCUMULATING:
            trigger = self.trigger.text if self.trigger is not None else "AFTER WATERMARK"
            texts.append(f"TRIGGER {trigger} {self.accumulation.value}")
        if self.eviction is not None:
            texts.append(self.eviction.text)
        if self.late != LateData():
            texts.append(self.late.text)
        return texts

    @property
    def fires_again(self) -> bool:
        """True if a window may emit results several times."""
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
