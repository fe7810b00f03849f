"""A query over finished data that runs: its rows, its end and its error, with the interface of a ``Job``."""

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
"""Rows per table of results, so that a reader need not hold all as Python values."""


class BatchRun:
    """Runs ``work`` on a thread of its own; the rows that it returns are the results. ``error_of`` translates what it
    raises, ``done`` is called at the end.

    There is no checkpoint: a batch that fails or is stopped has no effect.
    """

    is_bounded = True
    waiting = None

    def __init__(
        self,
        name: str,
        spark: SparkSession,
        work: Callable[[], pa.Table | None],
        error_of: Callable[[BaseException], SqlStreamError],
        done: Callable[[], None],
    ) -> None:
        self.name = name
        self.id = str(uuid4())
        self.started = datetime.now(UTC)
        self._spark = spark
        self._work = work
        self._error_of = error_of
        self._done = done
        self._state = JobState.RUNNING
        self._error: SqlStreamError | None = None
        self._table: pa.Table | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"sqlstream-{name}", daemon=True)
        self._thread.start()

    @property
    def state(self) -> JobState:
        """The state of the run, as of a job."""
        return self._state

    @property
    def exception(self) -> SqlStreamError | None:
        """Why the batch FAILED."""
        return self._error

    def progress(self) -> Progress:
        """The number of rows of the result, 0 until the end."""
        return Progress(rows_out=0 if self._table is None else self._table.num_rows)

    def share(self) -> Share | None:
        """How many tasks of the running Spark jobs are done; None where that is not known."""
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
        """Cancel the batch, if it has not ended, and wait for its end."""
        self._stopping.set()
        while self._thread.is_alive():  # what it does next may not have begun yet
            self._cancel()
            self._thread.join(_AGAIN_SECONDS)

    def results(self) -> Iterator[pa.Table]:
        """All rows, once the batch has ended. Raises the error of a FAILED batch."""
        self.wait()
        if self._table is not None and self._state is JobState.FINISHED:
            for start in range(0, max(1, self._table.num_rows), _PACK):
                yield self._table.slice(start, _PACK)

    def _be_cancellable(self) -> None:
        """Tag the Spark jobs of the running thread; a classic session cancels by job group, Connect by tag."""
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
                self._error, self._state = self._error_of(error), JobState.FAILED
        finally:
            self._done()
