"""What ``sqlstream run`` shows of its jobs while they run: on a terminal in place, elsewhere in new lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from threading import Event, Thread
from typing import TYPE_CHECKING

from sqlstream.cli.job_status import JobStatus
from sqlstream.cli.progress import line_of, total
from sqlstream.cli.status import StatusLine

if TYPE_CHECKING:
    from sqlstream.batch.run import BatchRun
    from sqlstream.jobs.lifecycle.job import Job

_LINE_SECONDS = 2.0


class View:
    """Shows jobs until ``close``: a status line on a terminal, else new lines every two seconds."""

    def __init__(self, jobs: Sequence[Job | BatchRun]) -> None:
        self._jobs = jobs
        self._begin = time.monotonic()
        self._closed = Event()
        self._shown = [JobStatus(job, self._begin) for job in jobs]
        self._status = StatusLine(lambda: "\n".join(status.text() for status in self._shown), since=0)
        self._status.start()
        if not sys.stderr.isatty():
            Thread(target=self._lines, daemon=True).start()

    def hidden(self) -> AbstractContextManager[None]:
        """The lines are away while rows are written to the same terminal."""
        return self._status.hidden()

    def close(self) -> None:
        """Replace the lines by the totals."""
        self._closed.set()
        self._status.close()
        seconds = time.monotonic() - self._begin
        totals = "\n".join(total(job, seconds) for job in self._jobs)
        sys.stderr.write(totals + "\n")
        sys.stderr.flush()

    def _lines(self) -> None:
        while not self._closed.wait(_LINE_SECONDS):
            seconds = time.monotonic() - self._begin
            sys.stderr.write("\n".join(line_of(job, seconds) for job in self._jobs) + "\n")
            sys.stderr.flush()
