"""Who is told what becomes of a job: metrics, traces, logs and lineage.

A job runs whatever its observers do: what one of them raises is logged once, and the observer is asked on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from datetime import datetime
    from enum import Enum

    from sqlstream.errors import SqlStreamError
    from sqlstream.jobs.reports.progress import Progress
    from sqlstream.planner.node import Node

_LOG = logging.getLogger("sqlstream.jobs")


class ObservedJob(Protocol):
    """What observers know of a job, which is ``lifecycle.job.Job``."""

    @property
    def name(self) -> str:
        """The name of the job."""
        ...

    @property
    def id(self) -> str:
        """The id, which is the same for all runs from one checkpoint."""
        ...

    @property
    def plan(self) -> Node:
        """The plan that runs."""
        ...

    @property
    def checkpoint_path(self) -> str:
        """The folder of the job's checkpoint."""
        ...

    @property
    def started(self) -> datetime:
        """When this run was started."""
        ...

    @property
    def state(self) -> Enum:
        """The ``JobState`` now."""
        ...

    @property
    def exception(self) -> SqlStreamError | None:
        """The error that ended the job; None unless it FAILED."""
        ...

    def progress(self) -> Progress:
        """Totals of the job up to the last micro-batch."""
        ...


CURRENT_JOB: ContextVar[ObservedJob | None] = ContextVar("job", default=None)
"""The job whose thread this is."""

Report = Mapping[str, Any]
"""Spark's report of a micro-batch."""


class JobObserver(Protocol):
    """Is called from the threads of one job, in this order: start, then epochs and failures, and the end."""

    def on_start(self, job: ObservedJob) -> None:
        """The job's first query of Spark has started."""
        ...

    def on_epochs(self, job: ObservedJob, reports: Sequence[Report]) -> None:
        """Epochs are complete; ``reports`` are Spark's, oldest first, each epoch once."""
        ...

    def on_failure(self, job: ObservedJob, error: SqlStreamError) -> None:
        """The job has failed; it restarts from its checkpoint, or ends."""
        ...

    def on_end(self, job: ObservedJob) -> None:
        """The job has ended; ``job.state`` and ``job.exception`` say how."""
        ...


class JobObservers:
    """The observers of one job. None of them can fail the job."""

    def __init__(self, observers: Iterable[JobObserver] = ()) -> None:
        self._observers = tuple(observers)
        self._last_epoch = -1
        self._failed: set[int] = set()
        self._reporting = Lock()

    def start(self, job: ObservedJob) -> None:
        """Report that the job has started."""
        self._each(lambda observer: observer.on_start(job))

    def epochs(self, job: ObservedJob, reports: Iterable[Report]) -> None:
        """Report complete epochs; those that were reported before are left out."""
        with self._reporting:
            new = [report for report in reports if int(report["batchId"]) > self._last_epoch]
            if new:
                new.sort(key=lambda report: int(report["batchId"]))
                self._last_epoch = int(new[-1]["batchId"])
                self._each(lambda observer: observer.on_epochs(job, new))

    def failure(self, job: ObservedJob, error: SqlStreamError) -> None:
        """Report a failure of the job."""
        self._each(lambda observer: observer.on_failure(job, error))

    def end(self, job: ObservedJob) -> None:
        """Report the end of the job."""
        self._each(lambda observer: observer.on_end(job))

    def _each(self, call: Callable[[JobObserver], None]) -> None:
        for number, observer in enumerate(self._observers):
            try:
                call(observer)
            except Exception as error:
                if number not in self._failed:
                    self._failed.add(number)
                    _LOG.warning("%s fails, and the job goes on: %r", type(observer).__name__, error)
