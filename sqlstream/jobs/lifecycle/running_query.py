"""Spark's query of a running job: watched, stopped and restarted; each start continues from the checkpoint."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import Watch
from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs.checkpoints.control import GIVE_UP_SECONDS
from sqlstream.jobs.lifecycle.coordinator import EndOfInput, EpochDeadline, EpochPace, after_the_end
from sqlstream.jobs.lifecycle.launch import Launch
from sqlstream.jobs.reports.progress import (
    FilesRead,
    Progress,
    Waiting,
    advanced,
    cut_in,
    has_run,
    micro_batches,
)
from sqlstream.spark.running import is_spark_gone
from sqlstream.udfs.spark.call import AFTER_THE_END

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger("sqlstream.jobs")

# --- Epochs ----------------------------------------------------------------------------------------------------


_POLL_SECONDS = 0.05
_UNDER_WAY = ("Processing new data", "No new data but cleaning up state")  # Spark's words, from MicroBatchExecution
_WAITING = "Waiting for"


def under_way(query: StreamingQuery) -> bool:
    """True while a micro-batch is being computed or written."""
    return query.isActive and str(query.status["message"]).startswith(_UNDER_WAY)


def last_epoch(query: StreamingQuery) -> int:
    """The number of the last complete micro-batch that this query has reported; -1 before the first."""
    report = query.lastProgress
    return -1 if report is None else int(report["batchId"]) - (not has_run(report))


def wait_for_rest(query: StreamingQuery) -> None:
    """Wait until no micro-batch runs: the current one, or one about to begin, is complete, or the query has ended.

    A micro-batch that is stopped earlier may be written but not reported, so that its rows are never counted.
    """
    before = last_epoch(query)
    while query.isActive and not _waits(query) and last_epoch(query) == before:
        time.sleep(_POLL_SECONDS)


def wait_for_first_trigger(query: StreamingQuery) -> None:
    """Wait until a query that has just been started has looked for data once and written the rows that it found."""
    while query.isActive and not _waits(query):
        time.sleep(_POLL_SECONDS)


def wait_for_all_there_is(query: StreamingQuery, before: int, ended: Callable[[], bool]) -> None:
    """Waits until the rows that are available now are in a complete micro-batch. For queries without pauses.

    Even if more rows arrive, that is at the latest the micro-batch after the current one. ``before`` is the number of
    the last complete one; ``ended`` returns True when the query has ended.
    """
    whole = Thread(target=_process_all, args=(query,), name="sqlstream-epoch", daemon=True)
    whole.start()
    while whole.is_alive() and last_epoch(query) < before + 2 and not ended():
        whole.join(_POLL_SECONDS)


def _waits(query: StreamingQuery) -> bool:
    return str(query.status["message"]).startswith(_WAITING)


def _process_all(query: StreamingQuery) -> None:
    with suppress(Exception):  # the job reports why the query fails
        query.processAllAvailable()


# --- Java objects that Python has dropped ----------------------------------------------------------------------
# Java keeps what Python has an object for, such as the plan and the figures of each micro-batch. py4j's objects are
# cycles, because each remembers the methods that were called on it, so they end with a full collection of Python's
# garbage collector; in a process that waits for Spark there are hours between two of these.


_COLLECTION_SECONDS = 20.0
_COLLECTION_BATCHES = 10


class DroppedObjects:
    """Collects Python's garbage as a job's micro-batches need it, some tenths of a second each time, so that Java's
    memory does not grow with their number. Does nothing where the process has switched its collector off.
    """

    def __init__(self) -> None:
        self._batches = 0
        self._last = time.monotonic()

    def free_after(self, batches: int) -> None:
        """Called after so many more micro-batches."""
        self._batches += batches
        now = time.monotonic()
        if self._batches >= _COLLECTION_BATCHES and now - self._last >= _COLLECTION_SECONDS and gc.isenabled():
            gc.collect()
            self._batches, self._last = 0, time.monotonic()


_REPORT_SECONDS, _LIMIT_SECONDS = 1, 0.1
"""How often reports are looked for; those of a query with LIMIT, which ends with its last row, more often."""

OnReports = Callable[[Sequence[Mapping[str, Any]], int], None]
"""Called with the reports of micro-batches, which may include old ones, and the number of the last one."""


class RunningQuery:
    """The queries of Spark that a job runs one after the other. After the event ``stopping`` is set none follows.

    The job's own thread watches the current one; other threads may stop it or suspend it for a while.
    """

    def __init__(self, launch: Launch, deadline: EpochDeadline, stopping: Event, on_reports: OnReports) -> None:
        self.launch = launch
        self.row_limit = launch.row_limit and launch.row_limit.started()
        self.progress = Progress()
        self._deadline = deadline
        self._stopping = stopping
        self._on_reports = on_reports
        self._error_of_other_thread: Exception | None = None
        self._cut: ExecutionError | None = None
        self._files = FilesRead()
        self._taken_in: tuple[int, str] | None = None
        self._dropped = DroppedObjects()
        self._changing, self._counting = Lock(), Lock()
        self.present = launch.start()

    def stop(self) -> None:
        """Stop Spark's query for good if ``stopping`` is set, else until the job's thread starts the next one."""
        with self._changing:
            try:
                self.present.stop()
            except Exception as error:
                if not is_spark_gone(error):
                    raise

    def fail(self, error: Exception) -> None:
        """Stops Spark's query and makes the job's thread raise ``error``. Called by other threads."""
        with self._changing:
            self._error_of_other_thread = error
            self.present.stop()

    def read_to_end(self) -> None:
        """Makes every query from the next start on read the available rows and then end its input."""
        self.launch = replace(self.launch, bounded=True, end_of_input=EndOfInput.FINAL)

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """A context manager that suspends Spark's query after a complete micro-batch, and restarts it at the end,
        unless it had ended before.

        For threads other than the job's own, which waits meanwhile.
        """
        wait_for_rest(self.present)
        with self._changing:
            active = self.present.isActive
            self.present.stop()
            self._take_in(self.present)
            try:
                yield
            finally:
                if active and not self._stopping.is_set():
                    self._restart_after_rest()

    def _restart_after_rest(self) -> None:
        try:
            self._start_after(self.present)
        except Exception as error:
            self._error_of_other_thread = error  # the job's thread would take the stopped query for one that has ended
            raise

    def _start_after(self, query: StreamingQuery) -> None:
        """Starts the query that follows one that has ended. The caller holds ``_changing``."""
        self.row_limit = self.row_limit and self.row_limit.started()
        self.present = self.launch.start_after(query)

    def complete_epoch(self) -> None:
        """Wait until the rows that are available now are in a complete micro-batch."""
        for watch in self.launch.watches:
            if watch.interval_ms is not None:
                watch.look()
        if self.launch.bounded or not self.launch.interval_ms:
            wait_for_all_there_is(self.present, self.progress.last_batch, self._stopping.is_set)
        else:
            with self.at_rest():  # Spark's trigger fires when a query starts
                pass
            wait_for_first_trigger(self.present)

    @property
    def has_all_rows(self) -> bool:
        """True if the query has LIMIT and has emitted all its rows."""
        return self.row_limit is not None and self.row_limit.reached(self.progress.rows_out)

    def report(self) -> None:
        """Adds the new reports of Spark's current query to the job's progress."""
        self._take_in(self.present)

    def _take_in(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or (mark := (last["batchId"], last["timestamp"])) == self._taken_in:
            return
        reports = micro_batches(query)
        new = [report for report in reports if report["batchId"] > self.progress.last_batch]
        if new:
            self._take(reports, new)
        self._taken_in = mark  # all that there is need not be asked for again

    def _take(self, reports: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> None:
        with self._counting:
            self.progress = advanced(self.progress, reports)
        if self.row_limit is not None:
            self.row_limit = self.row_limit.counted(self.progress.last_batch, self.progress.rows_out)
        if self.launch.watermarks is not None:
            self.launch.watermarks.keep(reports)
        if self.launch.lifted is not None:
            self.launch.lifted.take_in(new)
        if self.launch.idle is not None:
            self.launch.idle.take_in(new)
        if (changed := self._files.notice(new)) is not None:
            _LOG.warning("%s", changed)
        self._cut = self._cut or next(filter(None, map(cut_in, new)), None)
        self._on_reports(reports, self.progress.last_batch)
        self._dropped.free_after(len(new))

    # --- the job's thread -------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch until Spark's query ends and no other thread has started the next; raises the error of a failed
        query."""
        seconds = _REPORT_SECONDS if self.row_limit is None else _LIMIT_SECONDS
        while True:
            query = self.present
            try:
                while not query.awaitTermination(seconds):  # type: ignore[arg-type]  # it takes a float, too
                    self._take_in(query)
                    self._require_whole(query)
                    self._require_sink(query)
                    if self.launch.idle is not None:
                        self.launch.idle.look()
                    if self.has_all_rows:
                        self.stop()
                    elif self._deadline.is_set:
                        self._keep_deadline(query)
            finally:
                self._take_in(query)
            self._require_whole(query)
            self._require_sink(query)
            with self._changing:  # another thread may have replaced the query
                if self._error_of_other_thread is not None:
                    error, self._error_of_other_thread = self._error_of_other_thread, None
                    raise error
                if self.present is query:
                    return

    def start_again(self) -> bool:
        """Restart Spark's query from its checkpoint; False where the job has been stopped."""
        with self._changing:
            if self._stopping.is_set():
                return False
            self._start_after(self.present)
        return True

    def go_on(self) -> None:
        """Restart Spark's query and watch it, unless the job has been stopped."""
        if self.start_again():
            self.watch()

    def count_restart(self) -> None:
        """Count one more restart in the progress."""
        with self._counting:
            self.progress = replace(self.progress, restarts=self.progress.restarts + 1)

    def report_waiting(self, waiting: tuple[Waiting, ...]) -> None:
        """Records in the progress which windows and timers wait for the next run."""
        with self._counting:
            self.progress = replace(self.progress, waiting=waiting)

    def _require_whole(self, query: StreamingQuery) -> None:
        """Raise the error of a file that was truncated while it was read, after stopping the query."""
        if self._cut is not None:
            error, self._cut = self._cut, None
            with self._changing:
                query.stop()
            raise error

    def _require_sink(self, query: StreamingQuery) -> None:
        """Raise the error of a sink that has lost committed rows, after stopping the query."""
        if self.progress.last_batch < 0 or self._stopping.is_set():
            return
        try:
            self.launch.require_sink(self.progress.last_batch)
        except SqlStreamError:
            with self._changing:
                query.stop()
            raise

    def _keep_deadline(self, query: StreamingQuery) -> None:
        """Cancel an epoch that exceeds its timeout, and start it again if failures are tolerated."""
        if not self._deadline.is_over(under_way(query), self.progress.last_batch):
            return
        with self._changing:
            if self.present is query and not self._stopping.is_set():
                query.stop()
                self._take_in(query)
                self._deadline.give_up()
                self._start_after(query)


# --- One run of a job, from its start to the end of its input --------------------------------------------------


_FIRST_PAUSE_S = 0.05


@dataclass(frozen=True)
class RunToEnd:
    """Runs a job from its start to the end of its input, on the job's thread.

    ``pace``: the pauses of a job that pauses between epochs, else None. ``stopping`` is set when the job is to stop.
    ``count_waiting`` counts the windows and timers that remain in the checkpoint of a job that pauses at the end.
    """

    query: RunningQuery
    pace: EpochPace | None
    stopping: Event
    count_waiting: Callable[[], tuple[Waiting, ...]]

    @property
    def launch(self) -> Launch:
        """The ``Launch`` (plan, sink, checkpoint and clocks) from which Spark's query was last started. Draining a job
        replaces it and starts the query once more.
        """
        return self.query.launch

    def started_clock(self) -> Thread | None:
        """The thread that writes ticks of processing time while the job runs; None where no operator needs ticks."""
        launch = self.launch
        if launch.bounded or not launch.clock:
            return None
        return launch.clock.start(
            launch.control, self.stopping, lambda: self.query.progress.pending != 0, self.query.fail
        )

    def started_watches(self) -> list[Thread]:
        """The threads in which sources look for new input again and again, until the job ends: before each epoch, or
        more often if they say so.
        """
        intervals = ((watch, watch.interval_ms) for watch in self.launch.watches)
        pairs = ((watch, min(ms, self.launch.interval_ms)) for watch, ms in intervals if ms is not None)
        threads = [Thread(target=self._look, args=pair, daemon=True) for pair in pairs]
        for thread in threads:
            thread.start()
        return threads

    def _look(self, watch: Watch, interval_ms: int) -> None:
        last = time.monotonic()
        while not self.stopping.wait(max(interval_ms / 1000, _POLL_SECONDS)):
            try:
                watch.look()
                last = time.monotonic()
            except Exception as error:
                passes = isinstance(error, SqlStreamError)  # the disk may be full for a while
                if not passes or time.monotonic() - last > GIVE_UP_SECONDS:
                    self.query.fail(error)
                    last = time.monotonic()

    def run(self) -> None:
        """Run to the end. Raises the error of a failed query, and SS422 where rows arrive after the end of the
        input."""
        self._watch()
        launch = self.launch
        if self.query.row_limit is not None and self.query.has_all_rows:
            self.query.row_limit.keep()
            return
        if launch.ended and self.query.progress.rows_in:
            raise after_the_end()
        if launch.needs_flush and not self.stopping.is_set():
            self._end_or_pause()
        if launch.bounded and launch.clock.calls:
            self._drain()
        if launch.drained:
            raise after_the_end()
        if launch.pauses and not self.stopping.is_set():
            self.query.report_waiting(self.count_waiting())

    def _watch(self) -> None:
        try:
            self.query.watch()
            self._go_on_in_pace()
        except Exception as error:
            if (self.launch.ended or self.launch.end_planned) and AFTER_THE_END in str(error):
                raise after_the_end() from error
            raise

    def _go_on_in_pace(self) -> None:
        while self.pace is not None and not (self.stopping.is_set() or self.launch.bounded or self.query.has_all_rows):
            self.pace.rest()
            self.query.go_on()

    def _end_or_pause(self) -> None:
        """End the input so that all windows and timers fire, or fire only those that are due now."""
        launch = self.launch
        if launch.end_planned:
            launch.control.reach_end()
            return
        if not launch.pauses:
            launch.end_input()
        elif launch.clock.tells_time:
            launch.clock.tick(launch.control)
        else:
            return
        self.query.go_on()

    def _drain(self) -> None:
        """Run micro-batches until no row waits for the answer to a lookup, nor, after the end of the input, for a
        barrier."""
        launch = self.launch
        pause_s, longest_s = _FIRST_PAUSE_S, launch.clock.interval_ms / 1000
        while self._rows_go_on() and not self.stopping.wait(min(pause_s, longest_s)):
            launch.clock.tick(launch.control)
            self.query.go_on()
            pause_s *= 2

    def _rows_go_on(self) -> bool:
        """True where waiting rows may continue without more input, or no micro-batch has reported yet."""
        launch, progress = self.launch, self.query.progress
        if not launch.pauses:
            return progress.pending != 0
        return any(progress.pending_by_operator.get(number, 1) for number in launch.clock.lookups)
