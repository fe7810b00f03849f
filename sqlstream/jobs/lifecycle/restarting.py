"""A job that fails and starts again, as often and after as long as its restart strategy says."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from threading import Event

from sqlstream.errors import SqlStreamError
from sqlstream.jobs.lifecycle.failure import is_cancellation, is_slow_start
from sqlstream.jobs.lifecycle.restart import Failures, RestartStrategy, after_failure

_SLOW_STARTS = 2


class Restarts:
    """The failures of one job, as ``told`` words them. ``stopping`` is set when the job is not to go on."""

    def __init__(
        self, strategy: RestartStrategy, told: Callable[[BaseException], SqlStreamError], stopping: Event
    ) -> None:
        self._strategy = strategy
        self._told = told
        self._stopping = stopping
        self._failures = Failures()
        self._slow_starts = 0
        self.last_failure: SqlStreamError | None = None

    def run(self, to_end: Callable[[], None], start_again: Callable[[], None], on_waiting: Callable[[], None]) -> None:
        """Run to the end; where that fails, wait, start again and run again. Raises what the job ends with.

        ``on_waiting`` is called before each wait. A start that fails counts as a failure of the job. That a Python
        process was slow to start is no failure twice, whatever the strategy: for some of them, as those that open
        state, Spark waits 10 s and no longer.
        """
        failed = False
        while True:
            try:
                if failed:
                    start_again()
                to_end()
                return
            except Exception as error:
                if not self._waited(error, on_waiting):
                    raise
                failed = True

    def _waited(self, error: Exception, on_waiting: Callable[[], None]) -> bool:
        """Whether the strategy lets the job go on; after the time that it says, or before, if the job is stopped."""
        if self._stopping.is_set() or is_cancellation(error):
            return False
        failure, now_ms = self._told(error), time.time_ns() // 1_000_000
        self.last_failure = failure
        if is_slow_start(error) and self._slow_starts < _SLOW_STARTS:
            self._slow_starts += 1
            on_waiting()
            return True
        self._failures, delay_ms = after_failure(self._strategy, self._failures, failure, now_ms, random.random())
        if delay_ms is None:
            return False
        on_waiting()
        return not self._stopping.wait(delay_ms / 1000)
