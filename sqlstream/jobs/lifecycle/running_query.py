"""Spark's query of a running job: watched, put to rest and started again; each start goes on from the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs.lifecycle.coordinator import EpochDeadline
from sqlstream.jobs.lifecycle.end_of_input import EndOfInput
from sqlstream.jobs.lifecycle.epochs import under_way, wait_for_all_there_is, wait_for_first_trigger, wait_for_rest
from sqlstream.jobs.lifecycle.launch import Launch
from sqlstream.jobs.reports.progress import Progress, advanced, cut_in
from sqlstream.jobs.reports.waiting import Waiting
from sqlstream.spark.running import is_spark_gone

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

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
    def has_enough(self) -> bool:
        """True where the query has all rows that it will ever give."""
        enough = self.launch.enough
        return enough is not None and enough.reached(self.progress.rows_out)

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
                    if self.has_enough:
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
        with self._counting:
            self.progress = replace(self.progress, restarts=self.progress.restarts + 1)

    def tell_waiting(self, waiting: tuple[Waiting, ...]) -> None:
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
