"""Failures: background jobs of this process and of others, each reported once, and suggestions of errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from sqlstream.batch.run import BatchRun
from sqlstream.grammar.quoting import quote_name
from sqlstream.jobs import Job, JobState
from sqlstream.jobs.records.record import LOST
from sqlstream.jobs.records.submissions import Submission, SubmittedJob, submitted_job

if TYPE_CHECKING:
    from sqlstream.errors import SqlStreamError

_LOOK_SECONDS = 0.5
_NAME = re.compile(r"[A-Za-z_]\w*")


class BackgroundJobs:
    """Reports failures of jobs that run in the background of the shell. ``say`` is called once for each failure, with
    its text.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._failures: list[Callable[[], str | None]] = []
        self._lock = Lock()
        self._ended = Event()

    def add(self, job: Job | BatchRun) -> None:
        """Watches a job of this process, to report its failure."""
        self._watch_for(lambda: failure_text(job) if job.state is JobState.FAILED else None)

    def add_submitted(self, submission: Submission) -> None:
        """Watches a job that runs in a process of its own, to report its failure."""
        self._watch_for(lambda: submitted_failure(submitted_job(submission)))

    def _watch_for(self, failure: Callable[[], str | None]) -> None:
        with self._lock:
            self._failures.append(failure)

    def tell(self) -> None:
        """Reports the failures that have happened since the last call."""
        with self._lock:
            texts = [(failure, failure()) for failure in self._failures]
            self._failures = [failure for failure, text in texts if text is None]
        for _, text in texts:
            if text is not None:
                self._say(text)

    def watch(self, may_tell: Callable[[], bool]) -> None:
        """Starts a thread that also reports failures between calls of ``tell``, whenever ``may_tell`` returns True
        because nothing else is being printed.
        """
        Thread(target=self._watch, args=(may_tell,), name="sqlstream-failures", daemon=True).start()

    def _watch(self, may_tell: Callable[[], bool]) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            if may_tell():
                self.tell()

    def end(self) -> None:
        """Stop watching the jobs."""
        self._ended.set()


def failure_text(job: Job | BatchRun) -> str:
    """The message that a job of this process has failed: its name, its error, and the DESCRIBE statement that shows
    more.
    """
    return f'job "{job.name}" failed\n{job.exception}\n"DESCRIBE JOB {name_in_statement(job.name)};" shows more'


def submitted_failure(job: SubmittedJob) -> str | None:
    """The message that a job in a process of its own has failed or is lost: its name, its error and its log file. None
    where it has not failed.
    """
    record = job.record
    if record.error is None:
        return None
    told = f'job "{record.name}" {"is lost" if record.status == LOST else "failed"}\n{": ".join(record.error)}'
    return f'{told}\nIts log is "{job.submission.log}"'


def name_in_statement(job: str) -> str:
    """The name of a job as it must be written in a statement: in quotes where necessary."""
    return job if _NAME.fullmatch(job) else f"'{job}'"


# --- Suggestions of errors, accepted with one key --------------------------------------------------------------


TAKE_IT = "Tab at the empty prompt types it again as suggested."

_SUGGESTED = re.compile(r'Did you mean "([^"]+)"\?')
_QUOTES = "'`"


def mended(error: SqlStreamError) -> str | None:
    """Returns the SQL text of the statement that caused the error, with the mistake corrected as the error suggests;
    None unless the error has exactly one suggestion.
    """
    first = error.diagnostic
    suggested = _SUGGESTED.fullmatch(first.hint or "")
    if suggested is None or first.span is None or first.source is None:
        return None
    wrong = first.source[first.span.start : first.span.end]
    quote = wrong[:1] if wrong[:1] in _QUOTES else ""
    word = suggested[1]
    if quote:
        spelled = f"{quote}{word}{quote}"
    elif re.fullmatch(r"\w+", wrong):
        spelled = quote_name(word)
    else:
        return None  # a function with its arguments, a command: what of it is wrong the place does not tell
    return first.source[: first.span.start] + spelled + first.source[first.span.end :]
