"""Spark's query of a running job: watched, put to rest and started again; each start goes on from the checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs.lifecycle.coordinator import EndOfInput, EpochDeadline, EpochPace, after_the_end
from sqlstream.jobs.lifecycle.launch import Launch
from sqlstream.jobs.reports.progress import Progress, Waiting, advanced, cut_in
from sqlstream.spark.running import is_spark_gone
from sqlstream.udfs.spark.call import AFTER_THE_END

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# --- Epochs ----------------------------------------------------------------------------------------------------


_POLL_SECONDS = 0.05
_UNDER_WAY = ("Processing new data", "No new data but cleaning up state")  # Spark's words, from MicroBatchExecution
_WAITING = "Waiting for"


def under_way(query: StreamingQuery) -> bool:
    """True while a micro-batch is being computed or written."""
    return query.isActive and str(query.status["message"]).startswith(_UNDER_WAY)


def last_epoch(query: StreamingQuery) -> int:
    """The number of the last complete micro-batch that this query has reported, -1 before the first."""
    report = query.lastProgress
    return -1 if report is None else int(report["batchId"])


def wait_for_rest(query: StreamingQuery) -> None:
    """Until the micro-batch that is under way or about to begin, if any, is complete, or the query has ended.

    One that is stopped meanwhile may be written and not reported, so that its rows are never counted.
    """
    before = last_epoch(query)
    while query.isActive and not _waits(query) and last_epoch(query) == before:
        time.sleep(_POLL_SECONDS)


def wait_for_first_trigger(query: StreamingQuery) -> None:
    """Until a query that has just been started has looked for data once and written what there was."""
    while query.isActive and not _waits(query):
        time.sleep(_POLL_SECONDS)


def wait_for_all_there_is(query: StreamingQuery, before: int, ended: Callable[[], bool]) -> None:
    """Until what was there for a query without pauses when this was called is in a complete micro-batch.

    The micro-batch after the one under way has it all, also where more comes all the time; ``before`` is the number
    of the last complete one.
    """
    whole = Thread(target=_process_all, args=(query,), name="sqlstream-epoch", daemon=True)
    whole.start()
    while whole.is_alive() and last_epoch(query) < before + 2 and not ended():
        whole.join(_POLL_SECONDS)


def _waits(query: StreamingQuery) -> bool:
    return str(query.status["message"]).startswith(_WAITING)


def _process_all(query: StreamingQuery) -> None:
    with suppress(Exception):  # what the query fails with is the job's to tell
        query.processAllAvailable()


_REPORT_SECONDS = 1

OnReports = Callable[[Sequence[Mapping[str, Any]], int], None]
"""Gets the reports of micro-batches, old ones among them, and the number of the last one."""


class RunningQuery:
    """One query of Spark after the other, as a job needs them. ``stopping`` is set where none is to follow.

    The job's own thread watches them; other threads may stop the present one, or have it rest for a while.
    """

    def __init__(self, launch: Launch, deadline: EpochDeadline, stopping: Event, on_reports: OnReports) -> None:
        self.launch = launch
        self.progress = Progress()
        self._deadline = deadline
        self._stopping = stopping
        self._on_reports = on_reports
        self._not_gone_on: Exception | None = None
        self._cut: ExecutionError | None = None
        self._changing, self._counting = Lock(), Lock()
        self.present = launch.start()

    def stop(self) -> None:
        """Stop Spark's query; nothing follows where ``stopping`` is set before."""
        with self._changing:
            try:
                self.present.stop()
            except Exception as error:
                if not is_spark_gone(error):  # there is nothing left to stop then
                    raise

    def fail(self, error: SqlStreamError) -> None:
        """Stop Spark's query, and have the job's thread raise the error; for other threads."""
        with self._changing:
            self._not_gone_on = error
            self.present.stop()

    def read_to_end(self) -> None:
        """From the next start on, the query reads what is there now and then ends its input."""
        self.launch = replace(self.launch, bounded=True, end_of_input=EndOfInput.FINAL)

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Spark's query at rest after a micro-batch; it goes on afterwards, unless it had come to its end before.

        For other threads than the job's own, which meanwhile waits.
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
                    self._go_on_after_rest()

    def _go_on_after_rest(self) -> None:
        try:
            self.present = self.launch.start_after(self.present)
        except Exception as error:
            self._not_gone_on = error  # the job's thread would take the stopped query for one that has ended
            raise

    def complete_epoch(self) -> None:
        """Until what is there now is in a complete micro-batch."""
        if self.launch.bounded or not self.launch.interval_ms:
            wait_for_all_there_is(self.present, self.progress.last_batch, self._stopping.is_set)
        else:
            with self.at_rest():  # Spark's trigger fires when a query starts
                pass
            wait_for_first_trigger(self.present)

    @property
    def has_all_rows(self) -> bool:
        """True where the query has all rows that it will ever give."""
        row_limit = self.launch.row_limit
        return row_limit is not None and row_limit.reached(self.progress.rows_out)

    def report(self) -> None:
        """Take in what the present query has reported."""
        self._take_in(self.present)

    def _take_in(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or last["batchId"] <= self.progress.last_batch:
            return
        reports = query.recentProgress
        new = [report for report in reports if report["batchId"] > self.progress.last_batch]
        with self._counting:
            self.progress = advanced(self.progress, reports)
        if self.launch.watermarks is not None:
            self.launch.watermarks.keep(reports)
        if self.launch.idle is not None:
            self.launch.idle.take_in(new)
        self._cut = self._cut or next(filter(None, map(cut_in, new)), None)
        self._on_reports(reports, self.progress.last_batch)

    # --- the job's thread -------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Until Spark's query ends, and no other thread has started the next; raises what it failed with."""
        while True:
            query = self.present
            try:
                while not query.awaitTermination(_REPORT_SECONDS):
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
            with self._changing:  # whoever held it may have stopped the query in order to go on with another
                if self._not_gone_on is not None:
                    error, self._not_gone_on = self._not_gone_on, None
                    raise error
                if self.present is query:
                    return

    def start_again(self) -> bool:
        """Start Spark's query again as a new process would; False where the job has been stopped."""
        with self._changing:
            if self._stopping.is_set():
                return False
            self.present = self.launch.start_after(self.present)
        return True

    def go_on(self) -> None:
        """Start Spark's query again and watch it, unless the job has been stopped."""
        if self.start_again():
            self.watch()

    def count_restart(self) -> None:
        """Count one more restart in the progress."""
        with self._counting:
            self.progress = replace(self.progress, restarts=self.progress.restarts + 1)

    def report_waiting(self, waiting: tuple[Waiting, ...]) -> None:
        """Put into the progress what waits in the checkpoint for the next run."""
        with self._counting:
            self.progress = replace(self.progress, waiting=waiting)

    def _require_whole(self, query: StreamingQuery) -> None:
        """Stop a query one of whose files was cut while it was read."""
        if self._cut is not None:
            error, self._cut = self._cut, None
            with self._changing:
                query.stop()
            raise error

    def _require_sink(self, query: StreamingQuery) -> None:
        """Stop a query whose sink has lost what it keeps, before more rows are lost."""
        if self.progress.last_batch < 0 or self._stopping.is_set():
            return
        try:
            self.launch.require_sink(self.progress.last_batch)
        except SqlStreamError:
            with self._changing:
                query.stop()
            raise

    def _keep_deadline(self, query: StreamingQuery) -> None:
        """Give up an epoch that takes too long, and begin it again where that is tolerated."""
        if not self._deadline.is_over(under_way(query), self.progress.last_batch):
            return
        with self._changing:
            if self.present is query and not self._stopping.is_set():
                query.stop()
                self._take_in(query)
                self._deadline.give_up()
                self.present = self.launch.start_after(query)


# --- One run of a job, from its start to the end of its input --------------------------------------------------


_FIRST_PAUSE_S = 0.05


@dataclass(frozen=True)
class RunToEnd:
    """The work of a job's thread. ``pace``: for jobs that pause between epochs. ``stopping`` is set when the job is
    not to go on; ``count_waiting`` counts what stays in the checkpoint of a job that pauses at the end."""

    query: RunningQuery
    pace: EpochPace | None
    stopping: Event
    count_waiting: Callable[[], tuple[Waiting, ...]]

    @property
    def launch(self) -> Launch:
        """How the query was started last: one that is drained has ended input from then on."""
        return self.query.launch

    def started_clock(self) -> Thread | None:
        """The thread that ticks while the job runs, where something waits for processing time."""
        launch = self.launch
        if launch.bounded or not launch.clock:
            return None
        return launch.clock.start(
            launch.control, self.stopping, lambda: self.query.progress.pending != 0, self.query.fail
        )

    def run(self) -> None:
        """Raises what the query fails with, and an error where rows come behind the end of the input."""
        self._watch()
        launch = self.launch
        if launch.row_limit is not None and self.query.has_all_rows:
            launch.row_limit.keep()
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
            if self.launch.ended and AFTER_THE_END in str(error):
                raise after_the_end() from error
            raise

    def _go_on_in_pace(self) -> None:
        while self.pace is not None and not (self.stopping.is_set() or self.launch.bounded or self.query.has_all_rows):
            self.pace.rest()
            self.query.go_on()

    def _end_or_pause(self) -> None:
        """Let all fire that waits for the end of the input, or only what is due by now."""
        launch = self.launch
        if not launch.pauses:
            launch.end_input()
        elif launch.clock.tells_time:
            launch.clock.tick(launch.control)
        else:
            return
        self.query.go_on()

    def _drain(self) -> None:
        """Until no row waits for the answer to a lookup, which only a micro-batch can tell, nor for a barrier where the
        input has ended."""
        launch = self.launch
        pause_s, longest_s = _FIRST_PAUSE_S, launch.clock.interval_ms / 1000
        while self._rows_go_on() and not self.stopping.wait(min(pause_s, longest_s)):
            launch.clock.tick(launch.control)
            self.query.go_on()
            pause_s *= 2

    def _rows_go_on(self) -> bool:
        """True where rows may go on without more input, or no micro-batch has told yet."""
        launch, progress = self.launch, self.query.progress
        if not launch.pauses:
            return progress.pending != 0
        return any(progress.pending_by_operator.get(number, 1) for number in launch.clock.lookups)
