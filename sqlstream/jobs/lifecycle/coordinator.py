"""When the epochs of a job begin and how long they may take: Flink's checkpoint coordinator.

An epoch is a micro-batch of Spark: it reads, computes, writes and checkpoints. The names are those of Flink's settings
``execution.checkpointing.*``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum
from threading import Condition
from typing import Any, Protocol

from sqlstream.errors import ExecutionError, SqlStreamError, repeating

TIMEOUT = "SS450"


class Retention(Enum):
    """After which ends of a job its checkpoint is kept, a setting as in Flink; ALWAYS by default."""

    ALWAYS = "ALWAYS"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"

    def keeps(self, status: str) -> bool:
        """Whether the checkpoint is retained after an end with ``status``: FINISHED, STOPPED or FAILED."""
        kept = {
            Retention.ALWAYS: ("FINISHED", "STOPPED", "FAILED"),
            Retention.RETAIN_ON_CANCELLATION: ("STOPPED", "FAILED"),
            Retention.DELETE_ON_CANCELLATION: ("FAILED",),
            Retention.NO_EXTERNALIZED_CHECKPOINTS: (),
        }
        return status in kept[self]


@dataclass(frozen=True)
class Checkpointing:
    """The checkpointing settings of a job. ``interval_ms`` is the time between the starts of two epochs, 0 for as fast
    as possible; ``min_pause_ms`` is the least time from the end of an epoch to the start of the next. An epoch that
    takes more than ``timeout_ms`` is cancelled, and the job fails when that happens more than ``tolerable_failures``
    times in a row."""

    interval_ms: int = 0
    min_pause_ms: int = 0
    timeout_ms: int | None = None
    tolerable_failures: int = 0
    retention: Retention = Retention.ALWAYS

    def rest_ms(self, started_ms: float, ended_ms: float) -> float:
        """How many milliseconds after ``ended_ms`` the next epoch begins, if the last one began at ``started_ms``."""
        return max(started_ms + self.interval_ms - ended_ms, self.min_pause_ms)


AT_ONCE = Checkpointing()
"""Each epoch follows the one before."""


class EpochPace:
    """Makes the pauses between the epochs of a job that has a minimum pause. Spark has no trigger for that, so each
    epoch is a separate run of Spark's query. Other threads may end a pause early, or wait for an epoch.
    """

    def __init__(self, checkpointing: Checkpointing) -> None:
        self._checkpointing = checkpointing
        self._changed = Condition()
        self._started_ms = _now_ms()
        self._runs = 0
        self._resting = False
        self._at_once = False
        self._over = False

    def rest(self) -> None:
        """Wait until the next run should begin; ``skip`` ends the pause."""
        with self._changed:
            self._runs += 1
            self._resting = True
            self._changed.notify_all()
            ended_ms = _now_ms()
            rest_ms = self._checkpointing.rest_ms(self._started_ms, ended_ms)
            self._changed.wait_for(lambda: self._at_once, rest_ms / 1000)
            self._at_once, self._resting = False, False
            self._started_ms = _now_ms()

    def skip(self) -> None:
        """End the pause, so that the next run begins at once."""
        with self._changed:
            self._at_once = True
            self._changed.notify_all()

    def run_at_once(self) -> None:
        """Request a run now, or right after the current one; returns when it has ended, or the job has."""
        with self._changed:
            wanted = self._runs + (1 if self._resting else 2)
            self._at_once = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or self._runs >= wanted)

    def end(self) -> None:
        """Called when the job has ended: threads that wait for an epoch return at once."""
        with self._changed:
            self._over = True
            self._changed.notify_all()


class EpochDeadline:
    """Measures whether the current epoch exceeds its timeout; polled about once a second."""

    def __init__(self, checkpointing: Checkpointing) -> None:
        self._checkpointing = checkpointing
        self._last = -1
        self._since: float | None = None
        self._given_up = 0

    @property
    def is_set(self) -> bool:
        """Whether epochs have a timeout."""
        return self._checkpointing.timeout_ms is not None

    def is_over(self, under_way: bool, last_epoch: int, now_ms: float | None = None) -> bool:
        """True if the current epoch has exceeded its timeout. ``under_way``: an epoch is running; ``last_epoch``: the
        number of the last complete one. ``now_ms``: the present time, for tests.
        """
        now_ms = _now_ms() if now_ms is None else now_ms
        if last_epoch > self._last:
            self._last, self._since, self._given_up = last_epoch, None, 0
        if not under_way:
            self._since = None
        elif self._since is None:
            self._since = now_ms
        timeout_ms = self._checkpointing.timeout_ms
        return timeout_ms is not None and self._since is not None and now_ms - self._since > timeout_ms

    def give_up(self) -> None:
        """Counts the current epoch as failed. Raises ExecutionError SS450 after too many failures in a row."""
        self._since = None
        self._given_up += 1
        if self._given_up <= self._checkpointing.tolerable_failures:
            return
        times = "" if self._given_up == 1 else f", {self._given_up} times in a row"
        seconds = (self._checkpointing.timeout_ms or 0) / 1000
        self._given_up = 0
        raise ExecutionError(
            TIMEOUT,
            f"an epoch took longer than {seconds:g} seconds{times}",
            hint="Raise 'execution.checkpointing.timeout' or 'execution.checkpointing.tolerable-failed-checkpoints', "
            "or give epochs less to do with a shorter interval.",
        )


def _now_ms() -> float:
    return time.monotonic() * 1000


# --- End of a bounded input ------------------------------------------------------------------------------------


ROWS_AFTER_END = repeating("SS422")


class EndOfInput(Enum):
    """The setting ``execution.end-of-input``.

    FINAL: the watermark goes to infinity, all windows and timers fire, and the job cannot be continued. PAUSE: pending
    windows and timers stay in the checkpoint, and the next run continues with them.
    """

    FINAL = "final"
    PAUSE = "pause"


def after_the_end() -> ExecutionError:
    """Returns the error SS422 for a job that is started again although its input has ended."""
    return ExecutionError(
        ROWS_AFTER_END,
        "an earlier run of the job has ended its input for good",
        detail="It was 'execution.end-of-input' = 'final', or STOP JOB … WITH DRAIN: the watermark went to infinity "
        "and all windows closed, so rows that come now are late.",
        hint="To read the rows of later runs too, start anew in another directory ('execution.checkpointing.dir') with "
        "SET 'execution.end-of-input' = 'pause', which keeps open windows for the next run.",
    )


# --- Restart strategies ----------------------------------------------------------------------------------------
# Frozen data and pure functions: the time, in milliseconds, and the random number of a jitter are passed in. See
# Flink's ``FixedDelay-``, ``ExponentialDelay-`` and ``FailureRateRestartBackoffTimeStrategy``.


@dataclass(frozen=True)
class Failures:
    """The times of a job's failures, oldest first, in milliseconds since 1970. It starts empty when the job is started,
    and when its back-off is reset.

    ``restart_ms`` is the time of the last restart, None before the first.
    """

    times_ms: tuple[int, ...] = ()
    restart_ms: int | None = None

    def at(self, now_ms: int, delay_ms: int) -> Failures:
        """Returns these failures and a new one at ``now_ms``, after which the job restarts ``delay_ms`` milliseconds
        later.
        """
        return Failures((*self.times_ms, now_ms), now_ms + delay_ms)


class RestartStrategy(Protocol):
    """Decides whether and when a failed job restarts. It is immutable; the failures so far are passed to its
    methods.
    """

    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        """In how many milliseconds a job restarts that fails at ``now_ms``; None if it does not restart. ``before`` are
        its earlier failures; ``chance`` is a random number from 0 (inclusive) to 1, for strategies that vary the delay.
        """
        ...

    def counted(self, before: Failures, now_ms: int) -> Failures:
        """Returns the failures of ``before`` that still count at ``now_ms``. A new failure then is not added."""
        ...


@dataclass(frozen=True)
class NoRestart:
    """The strategy without restarts: a failed job stays FAILED."""

    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        """None: the job does not restart."""
        return None

    def counted(self, before: Failures, now_ms: int) -> Failures:
        """All failures. This strategy does not depend on them."""
        return before


@dataclass(frozen=True)
class FixedDelay:
    """Up to ``attempts`` restarts, each ``wait_ms`` after the failure."""

    attempts: int = 1
    wait_ms: int = 1000

    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        """``wait_ms``, or None after the last attempt."""
        return self.wait_ms if len(before.times_ms) < self.attempts else None

    def counted(self, before: Failures, now_ms: int) -> Failures:
        """All failures: each one uses up an attempt, however long ago it was."""
        return before


@dataclass(frozen=True)
class ExponentialDelay:
    """Restarts with delays that grow by the factor ``multiplier`` from ``initial_ms`` to ``max_ms``. They start over at
    ``initial_ms`` when the job has run for ``reset_ms`` without a failure.

    ``attempts`` limits the number of restarts, None for no limit. ``jitter`` is the fraction of a delay by which it
    varies at random.
    """

    initial_ms: int = 1000
    max_ms: int = 60_000
    multiplier: float = 1.5
    reset_ms: int = 3_600_000
    jitter: float = 0.1
    attempts: int | None = None

    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        """The delay that follows from the number of failures, moved by the jitter; None after the last attempt."""
        number = len(before.times_ms)
        if self.attempts is not None and number >= self.attempts:
            return None
        delay = float(self.initial_ms)
        for _ in range(number):  # a power would overflow after a thousand failures
            delay = min(delay * self.multiplier, self.max_ms)
            if delay == self.max_ms:
                break
        moved = delay + delay * self.jitter * (2 * chance - 1)
        return round(min(max(moved, self.initial_ms), self.max_ms))

    def counted(self, before: Failures, now_ms: int) -> Failures:
        """The failures since the job last ran for ``reset_ms`` without one."""
        quiet = before.restart_ms is not None and now_ms - before.restart_ms >= self.reset_ms
        return Failures() if quiet else before


@dataclass(frozen=True)
class FailureRate:
    """Restarts a job ``wait_ms`` after a failure, up to ``failures`` times within any ``interval_ms``. After one more
    failure it stays FAILED.
    """

    failures: int = 1
    interval_ms: int = 60_000
    wait_ms: int = 1000

    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        """``wait_ms``, or None where the interval has too many failures."""
        return self.wait_ms if len(before.times_ms) < self.failures else None

    def counted(self, before: Failures, now_ms: int) -> Failures:
        """Returns ``before`` with only the failures of the last ``interval_ms`` before ``now_ms``. A new failure at
        ``now_ms`` is not added.
        """
        recent = tuple(time for time in before.times_ms if now_ms - time <= self.interval_ms)
        return replace(before, times_ms=recent)


NO_RESTART = NoRestart()


class Values(Protocol):
    """Settings that can be read like a mapping: by key in brackets."""

    def __getitem__(self, key: str) -> Any: ...


def restart_strategy(settings: Values) -> RestartStrategy:
    """The strategy of the settings ``restart-strategy.*``."""

    def of(kind: str, *names: str) -> tuple[Any, ...]:
        return tuple(settings[f"restart-strategy.{kind}.{name}"] for name in names)

    match settings["restart-strategy.type"]:
        case "fixed-delay":
            return FixedDelay(*of("fixed-delay", "attempts", "delay"))
        case "exponential-delay":
            delays = ("initial-backoff", "max-backoff", "backoff-multiplier", "reset-backoff-threshold")
            return ExponentialDelay(*of("exponential-delay", *delays, "jitter-factor", "attempts-before-reset-backoff"))
        case "failure-rate":
            return FailureRate(*of("failure-rate", "max-failures-per-interval", "failure-rate-interval", "delay"))
    return NO_RESTART


def after_failure(
    strategy: RestartStrategy, before: Failures, error: SqlStreamError, now_ms: int, chance: float
) -> tuple[Failures, int | None]:
    """Decides what happens to a job that has failed at ``now_ms`` with ``error``. ``chance``: a random number from 0 to
    1, for strategies that vary the delay.

    Returns a pair: the failures that count from now on, including this one, and the milliseconds until the job
    restarts, None if it stays FAILED.
    """
    before = strategy.counted(before, now_ms)
    delay_ms = strategy.delay_ms(before, now_ms, chance) if not error.repeats else None
    return before.at(now_ms, delay_ms or 0), delay_ms
