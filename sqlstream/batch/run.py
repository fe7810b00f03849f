"""A batch that runs: its rows, its end, its error. What shows a query asks it as it asks a ``Job``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from threading import Event, Thread
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from sqlstream.errors import SqlStreamError
from sqlstream.jobs.lifecycle.failure import is_cancellation
from sqlstream.jobs.lifecycle.job import JobState
from sqlstream.jobs.reports.progress import Progress, Share, tasks_done
from sqlstream.spark.running import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AGAIN_SECONDS = 0.2
_PACK = 10_000
"""Rows of a table of results: what shows them need not hold all as Python values."""


class BatchRun:
    """Runs ``work`` at once, on a thread of its own; its rows are the results. ``told`` makes the error of what went
    wrong, ``done`` is called at the end.

    There is no checkpoint: a batch that fails, or is stopped, has done nothing.
    """

    is_bounded = True
    waiting = None

    def __init__(
        self,
        name: str,
        spark: SparkSession,
        work: Callable[[], pa.Table | None],
        told: Callable[[BaseException], SqlStreamError],
        done: Callable[[], None],
    ) -> None:
        self.name = name
        self.id = str(uuid4())
        self.started = datetime.now(UTC)
        self._spark = spark
        self._work = work
        self._told = told
        self._done = done
        self._state = JobState.RUNNING
        self._error: SqlStreamError | None = None
        self._table: pa.Table | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"sqlstream-{name}", daemon=True)
        self._thread.start()

    @property
    def state(self) -> JobState:
        return self._state

    @property
    def exception(self) -> SqlStreamError | None:
        """Why the batch FAILED."""
        return self._error

    def progress(self) -> Progress:
        """The rows that came out, once all are there."""
        return Progress(rows_out=0 if self._table is None else self._table.num_rows)

    def share(self) -> Share | None:
        """How many tasks of what Spark does now are done; None where nobody knows."""
        return tasks_done(self._spark, self.id) if self._state is JobState.RUNNING else None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False where ``timeout`` seconds passed before. Raises the error of a FAILED batch."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """Give the batch up, if it has not ended."""
        self._stopping.set()
        while self._thread.is_alive():  # what it does next may not have begun yet
            self._cancel()
            self._thread.join(_AGAIN_SECONDS)

    def results(self) -> Iterator[pa.Table]:
        """All rows, when they are there. Raises the error of a FAILED batch."""
        self.wait()
        if self._table is not None and self._state is JobState.FINISHED:
            for start in range(0, max(1, self._table.num_rows), _PACK):
                yield self._table.slice(start, _PACK)

    def _be_cancellable(self) -> None:
        """On the thread that works. Tags of a classic session are known to the thread alone that adds them."""
        if is_connect(self._spark):
            self._spark.addTag(self.id)
        else:
            self._spark.sparkContext.setJobGroup(self.id, self.name, interruptOnCancel=True)

    def _cancel(self) -> None:
        if is_connect(self._spark):
            self._spark.interruptTag(self.id)
        else:
            self._spark.sparkContext.cancelJobGroup(self.id)

    def _run(self) -> None:
        try:
            self._be_cancellable()
            if not self._stopping.is_set():
                self._table = self._work()
            self._state = JobState.STOPPED if self._stopping.is_set() else JobState.FINISHED
        except Exception as error:
            if self._stopping.is_set() or is_cancellation(error):
                self._state = JobState.STOPPED
            else:
                self._error, self._state = self._told(error), JobState.FAILED
        finally:
            self._done()
