"""Background jobs that failed: each is told once."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Event, Lock, Thread

from sqlstream.jobs import Job, JobState

_LOOK_SECONDS = 0.5
_NAME = re.compile(r"[A-Za-z_]\w*")


class BackgroundJobs:
    """The jobs that go on while other statements run; ``say`` gets the text of each failure, once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._jobs: list[Job] = []
        self._lock = Lock()
        self._ended = Event()

    def add(self, job: Job) -> None:
        with self._lock:
            self._jobs.append(job)

    def tell(self) -> None:
        """Say which have failed since the last time."""
        with self._lock:
            failed = [job for job in self._jobs if job.state is JobState.FAILED]
            self._jobs = [job for job in self._jobs if job not in failed]
        for job in failed:
            self._say(failure_text(job))

    def watch(self, may_tell: Callable[[], bool]) -> None:
        """Tell from a thread of its own as well, whenever ``may_tell`` says that nothing else is being written."""
        Thread(target=self._watch, args=(may_tell,), name="sqlstream-failures", daemon=True).start()

    def _watch(self, may_tell: Callable[[], bool]) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            if may_tell():
                self.tell()

    def end(self) -> None:
        self._ended.set()


def failure_text(job: Job) -> str:
    """That a job failed, of what, and what shows more."""
    return f'job "{job.name}" failed\n{job.exception}\n"DESCRIBE JOB {name_in_statement(job.name)};" shows more'


def name_in_statement(job: str) -> str:
    """The name of a job as statements about it take it."""
    return job if _NAME.fullmatch(job) else f"'{job}'"
