"""Background jobs that failed, in this process and in others: each is told once."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Event, Lock, Thread

from sqlstream.batch.run import BatchRun
from sqlstream.jobs import Job, JobState
from sqlstream.jobs.records.record import LOST
from sqlstream.jobs.records.submissions import Submission, SubmittedJob, submitted_job

_LOOK_SECONDS = 0.5
_NAME = re.compile(r"[A-Za-z_]\w*")


class BackgroundJobs:
    """The jobs that go on while other statements run; ``say`` gets the text of each failure, once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._failures: list[Callable[[], str | None]] = []
        self._lock = Lock()
        self._ended = Event()

    def add(self, job: Job | BatchRun) -> None:
        self._watch_for(lambda: failure_text(job) if job.state is JobState.FAILED else None)

    def add_submitted(self, submission: Submission) -> None:
        """A job that has a process of its own."""
        self._watch_for(lambda: submitted_failure(submitted_job(submission)))

    def _watch_for(self, failure: Callable[[], str | None]) -> None:
        with self._lock:
            self._failures.append(failure)

    def tell(self) -> None:
        """Say which have failed since the last time."""
        with self._lock:
            texts = [(failure, failure()) for failure in self._failures]
            self._failures = [failure for failure, text in texts if text is None]
        for _, text in texts:
            if text is not None:
                self._say(text)

    def watch(self, may_tell: Callable[[], bool]) -> None:
        """Tell from a thread of its own as well, whenever ``may_tell`` says that nothing else is being written."""
        Thread(target=self._watch, args=(may_tell,), name="sqlstream-failures", daemon=True).start()

    def _watch(self, may_tell: Callable[[], bool]) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            if may_tell():
                self.tell()

    def end(self) -> None:
        self._ended.set()


def failure_text(job: Job | BatchRun) -> str:
    """That a job failed, of what, and what shows more."""
    return f'job "{job.name}" failed\n{job.exception}\n"DESCRIBE JOB {name_in_statement(job.name)};" shows more'


def submitted_failure(job: SubmittedJob) -> str | None:
    """The same of a job that has a process of its own; None where it has not failed."""
    record = job.record
    if record.error is None:
        return None
    told = f'job "{record.name}" {"is lost" if record.status == LOST else "failed"}\n{": ".join(record.error)}'
    return f'{told}\nIts log is "{job.submission.log}"'


def name_in_statement(job: str) -> str:
    """The name of a job as statements about it take it."""
    return job if _NAME.fullmatch(job) else f"'{job}'"
