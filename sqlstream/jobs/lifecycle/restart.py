"""Restart strategies: whether a failed job starts again, and after how long. Flink's, with its names and defaults.

Frozen data and pure functions: the time, in milliseconds, and the random number of a jitter are passed in. See Flink's
``FixedDelay-``, ``ExponentialDelay-`` and ``FailureRateRestartBackoffTimeStrategy``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlstream.errors import SqlStreamError


@dataclass(frozen=True)
class Failures:
    """``times_ms`` are those of failures since the job was started or its back-off was reset, the oldest first.

    ``restart_ms`` is when it started again last.
    """

    times_ms: tuple[int, ...] = ()
    restart_ms: int | None = None

    def at(self, now_ms: int, delay_ms: int) -> Failures:
        return Failures((*self.times_ms, now_ms), now_ms + delay_ms)


class RestartStrategy(Protocol):
    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        """How long a job that fails now waits until it starts again; None: it does not. ``chance`` is in [0, 1)."""
        ...

    def remembered(self, before: Failures, now_ms: int) -> Failures:
        """The failures before this one that still count."""
        ...


@dataclass(frozen=True)
class NoRestart:
    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        return None

    def remembered(self, before: Failures, now_ms: int) -> Failures:
        return before


@dataclass(frozen=True)
class FixedDelay:
    attempts: int = 1
    wait_ms: int = 1000

    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        return self.wait_ms if len(before.times_ms) < self.attempts else None

    def remembered(self, before: Failures, now_ms: int) -> Failures:
        return before


@dataclass(frozen=True)
class ExponentialDelay:
    """A job that has run for ``reset_ms`` since its last restart begins anew with ``initial_ms``.

    ``attempts`` None: it starts again without end. ``jitter`` is the part of a delay that chance adds or takes away.
    """

    initial_ms: int = 1000
    max_ms: int = 60_000
    multiplier: float = 1.5
    reset_ms: int = 3_600_000
    jitter: float = 0.1
    attempts: int | None = None

    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
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

    def remembered(self, before: Failures, now_ms: int) -> Failures:
        quiet = before.restart_ms is not None and now_ms - before.restart_ms >= self.reset_ms
        return Failures() if quiet else before


@dataclass(frozen=True)
class FailureRate:
    """At most ``failures`` within any ``interval_ms``; the next one is the end."""

    failures: int = 1
    interval_ms: int = 60_000
    wait_ms: int = 1000

    def delay_ms(self, before: Failures, now_ms: int, chance: float) -> int | None:
        return self.wait_ms if len(before.times_ms) < self.failures else None

    def remembered(self, before: Failures, now_ms: int) -> Failures:
        recent = tuple(time for time in before.times_ms if now_ms - time <= self.interval_ms)
        return replace(before, times_ms=recent)


NO_RESTART = NoRestart()


class Values(Protocol):
    """Settings by key."""

    def __getitem__(self, key: str) -> Any: ...


def restart_strategy(settings: Values) -> RestartStrategy:
    """The strategy that ``restart-strategy.*`` say."""

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
    """The failures that count from now on, and the milliseconds until the job starts again; None: it stays FAILED."""
    before = strategy.remembered(before, now_ms)
    delay_ms = strategy.delay_ms(before, now_ms, chance) if not error.repeats else None
    return before.at(now_ms, delay_ms or 0), delay_ms
