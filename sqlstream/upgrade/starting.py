"""What starts the jobs of scripts for an upgrade: a process of our own, or a command of whoever runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sqlstream.errors import ExecutionError
from sqlstream.jobs.records.record import process_here
from sqlstream.jobs.records.submissions import (
    Submission,
    failure_of,
    new_folder,
    script_of,
    started_process,
    write_submission,
)
from sqlstream.upgrade.exchange import FAILED

_END_SECONDS = 60.0


@dataclass
class OwnProcess:
    """Starts a command as a process of its own, which goes on when this one ends. It is a submission, so that
    ``sqlstream jobs`` lists the job with its log.

    ``job`` and ``checkpoint``: the name and the folder of its first job. ``shown``: its scripts, without secrets.
    """

    command: Sequence[str]
    job: str
    checkpoint: str
    shown: str
    _submission: Submission | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the command."""
        folder, submitted = new_folder(self.job), time.time()
        script_of(folder).write_text(self.shown, encoding="utf-8")
        process = started_process(folder, self.command, os.environ)
        self._submission = Submission(
            folder, self.job, self.checkpoint, process_here(process.pid), submitted, self.shown
        )
        process.returncode = 0  # nobody waits for it here; else Python warns
        write_submission(self._submission)

    @property
    def log(self) -> str:
        """The file with what the process says; empty before it has started."""
        return "" if self._submission is None else str(self._submission.log)

    def failure(self) -> str | None:
        """Why the process has ended; None while it runs, and where it has ended well."""
        submission = self._submission
        if submission is None or not submission.is_over or submission.exit_status == 0:
            return None
        return ": ".join(failure_of(submission))

    def stop(self) -> None:
        """Interrupts the process and waits for its end; kills it where that takes too long."""
        submission = self._submission
        if submission is None or submission.is_over:
            return
        for number, seconds in ((signal.SIGINT, _END_SECONDS), (signal.SIGKILL, 5.0)):
            with suppress(ProcessLookupError):
                os.killpg(submission.process.pid, number)
            if submission.process.ends_within(seconds):
                return


@dataclass(frozen=True)
class ShellCommand:
    """Runs a command line of the shell that makes somebody else start the jobs, such as ``systemctl start shop``."""

    text: str

    def start(self) -> None:
        """Run the command to its end. Raises ExecutionError SS479 where it fails."""
        done = subprocess.run(self.text, shell=True, check=False, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip() or None
            raise ExecutionError(FAILED, f'"{self.text}" has ended with exit status {done.returncode}', detail=said)

    def failure(self) -> str | None:
        """None: only the records of the jobs say what has become of them."""
        return None

    def stop(self) -> None:
        """Nothing: the jobs have been stopped by requests."""
