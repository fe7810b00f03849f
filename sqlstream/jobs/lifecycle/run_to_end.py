"""One run of a job, from its start to the end of its input: watched, flushed where that is wanted, and drained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

from sqlstream.jobs.lifecycle.coordinator import EpochPace
from sqlstream.jobs.lifecycle.end_of_input import after_the_end
from sqlstream.jobs.lifecycle.launch import Launch
from sqlstream.jobs.lifecycle.running_query import RunningQuery
from sqlstream.jobs.reports.waiting import Waiting
from sqlstream.udfs.spark.call import AFTER_THE_END

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
        if launch.enough is not None and self.query.has_enough:
            launch.enough.keep()
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
            self.query.tell_waiting(self.count_waiting())

    def _watch(self) -> None:
        try:
            self.query.watch()
            self._go_on_in_pace()
        except Exception as error:
            if self.launch.ended and AFTER_THE_END in str(error):
                raise after_the_end() from error
            raise

    def _go_on_in_pace(self) -> None:
        while self.pace is not None and not (self.stopping.is_set() or self.launch.bounded or self.query.has_enough):
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
