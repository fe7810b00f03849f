"""When the epochs of a job begin and how long they may take: Flink's checkpoint coordinator.

An epoch is a micro-batch of Spark: it reads, computes, writes and checkpoints. The names are those of Flink's settings
``execution.checkpointing.*``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from threading import Condition

from sqlstream.errors import ExecutionError

TIMEOUT = "SS450"


class Retention(Enum):
    """When the checkpoint of an ended job is kept, as in Flink; ALWAYS by default."""

    ALWAYS = "ALWAYS"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"

    def keeps(self, status: str) -> bool:
        """``status``: how the job has ended, FINISHED, STOPPED or FAILED."""
        kept = {
            Retention.ALWAYS: ("FINISHED", "STOPPED", "FAILED"),
            Retention.RETAIN_ON_CANCELLATION: ("STOPPED", "FAILED"),
            Retention.DELETE_ON_CANCELLATION: ("FAILED",),
            Retention.NO_EXTERNALIZED_CHECKPOINTS: (),
        }
        return status in kept[self]


@dataclass(frozen=True)
class Checkpointing:
    """The settings of a job. ``interval_ms`` is the time from the start of an epoch to that of the next, 0 for as fast
    as possible; ``min_pause_ms`` the least time from the end of one to the start of the next; an epoch that takes more
    than ``timeout_ms`` is given up, and the job fails when that happens more than ``tolerable_failures`` times in a
    row."""

    interval_ms: int = 0
    min_pause_ms: int = 0
    timeout_ms: int | None = None
    tolerable_failures: int = 0
    retention: Retention = Retention.ALWAYS

    def rest_ms(self, started_ms: float, ended_ms: float) -> float:
        """How long after ``ended_ms`` the next epoch begins."""
        return max(started_ms + self.interval_ms - ended_ms, self.min_pause_ms)


AT_ONCE = Checkpointing()
"""Each epoch follows the one before."""


class EpochPace:
    """Pauses between the epochs of a job with a minimum pause, for which Spark has no trigger: each epoch is a run
    of Spark's query of its own. Other threads than the job's may ask for an epoch at once."""

    def __init__(self, checkpointing: Checkpointing) -> None:
        self._checkpointing = checkpointing
        self._changed = Condition()
        self._started_ms = _now_ms()
        self._runs = 0
        self._resting = False
        self._at_once = False
        self._over = False

    def rest(self) -> None:
        """After a run, until the next one should begin; ``skip`` ends it."""
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
        with self._changed:
            self._at_once = True
            self._changed.notify_all()

    def run_at_once(self) -> None:
        """A run that begins now or follows the one under way at once; returns when it has ended, or the job has."""
        with self._changed:
            wanted = self._runs + (1 if self._resting else 2)
            self._at_once = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or self._runs >= wanted)

    def end(self) -> None:
        """No more runs will come."""
        with self._changed:
            self._over = True
            self._changed.notify_all()


class EpochDeadline:
    """Whether the epoch under way takes too long; to be asked about once a second."""

    def __init__(self, checkpointing: Checkpointing) -> None:
        self._checkpointing = checkpointing
        self._last = -1
        self._since: float | None = None
        self._given_up = 0

    @property
    def is_set(self) -> bool:
        return self._checkpointing.timeout_ms is not None

    def is_over(self, under_way: bool, last_epoch: int, now_ms: float | None = None) -> bool:
        """``under_way``: an epoch is, and ``last_epoch`` is the last complete one."""
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
        """Count an epoch as failed; ExecutionError SS450 where that were too many in a row."""
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
