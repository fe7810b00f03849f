"""Jobs that a shell has started as processes of their own: what each left in the user's state folder.

A submission is a folder with the script, what its process says (``log``), a description and, when the process has
ended, its exit status. The job itself keeps its record in its checkpoint, as all jobs do.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlstream.errors import ExecutionError
from sqlstream.jobs.records.processes import Process
from sqlstream.udfs.texts import json_of
from sqlstream.user_folders import made, state_folder

NO_STATE_FOLDER = "SS460"

_SUBMITTED, _JOBS = "submitted", "jobs"
_ABOUT, _SCRIPT, _LOG, _EXIT = "submission.json", "script.sql", "log", "exit"


@dataclass(frozen=True)
class Submission:
    """``process`` is that which waits for the job's own and writes down its exit status. ``checkpoint`` is the folder
    of the job, ``statement`` its INSERT as it may be shown, ``submitted`` seconds since 1970."""

    folder: Path
    job: str
    checkpoint: str
    process: Process
    submitted: float
    statement: str

    @property
    def log(self) -> Path:
        return log_of(self.folder)

    @property
    def script(self) -> Path:
        return script_of(self.folder)

    @property
    def exit_status(self) -> int | None:
        """Of the job's process; None while it runs, and where nobody was left to write it down."""
        try:
            return int(exit_file(self.folder).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    @property
    def is_over(self) -> bool:
        return self.exit_status is not None or (self.process.is_here and not self.process.is_alive)

    def log_end(self, lines: int) -> str:
        """The last lines of what the process has said."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.rstrip().splitlines()[-lines:])


def log_of(folder: Path) -> Path:
    return folder / _LOG


def script_of(folder: Path) -> Path:
    return folder / _SCRIPT


def exit_file(folder: Path) -> Path:
    """Where the exit status is written."""
    return folder / _EXIT


def checkpoints_of_submitted() -> Path:
    """Where jobs keep their checkpoints that were submitted without ``execution.checkpointing.dir``."""
    return _state() / _JOBS


def new_folder(job: str) -> Path:
    """A folder for the next submission of a job, which no other user can read."""
    parent = _private(_state() / _SUBMITTED)
    begin, number = f"{job}-{time.strftime('%Y%m%d-%H%M%S')}", 1
    while True:
        folder = parent / (begin if number == 1 else f"{begin}-{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return folder


def write_submission(submission: Submission) -> None:
    document = {k: v for k, v in asdict(submission).items() if k != "folder"}
    beside = submission.folder / f".{_ABOUT}"
    beside.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
    beside.replace(submission.folder / _ABOUT)


def submissions() -> tuple[Submission, ...]:
    """The last one of each checkpoint, oldest first; what cannot be read is left out."""
    state = state_folder()
    folders = [] if state is None else (state / _SUBMITTED).glob(f"*/{_ABOUT}")
    read = [submission for path in folders if (submission := _read(path)) is not None]
    newest = {submission.checkpoint: submission for submission in sorted(read, key=lambda s: s.submitted)}
    return tuple(sorted(newest.values(), key=lambda s: s.submitted))


def remove_submission(submission: Submission) -> None:
    """Remove the folders of all submissions with its checkpoint, and the checkpoint where it is in the user's own
    directory. OSError where that cannot be."""
    checkpoints = checkpoints_of_submitted()
    if Path(submission.checkpoint).parent == checkpoints and Path(submission.checkpoint).exists():
        shutil.rmtree(submission.checkpoint)
    for path in submission.folder.parent.glob(f"*/{_ABOUT}"):
        other = _read(path)
        if other is not None and other.checkpoint == submission.checkpoint:
            shutil.rmtree(path.parent)


def _read(path: Path) -> Submission | None:
    try:
        values = json_of(path.read_text(encoding="utf-8"))
        return Submission(path.parent, **{**values, "process": Process(**values["process"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _state() -> Path:
    folder = made(state_folder())
    if folder is None:
        hint = "Set the environment variable XDG_STATE_HOME to a directory that can be written."
        raise ExecutionError(NO_STATE_FOLDER, "there is no folder that can be written for jobs of their own", hint=hint)
    return folder


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        hint = f'Make "{folder}" writable.'
        raise ExecutionError(NO_STATE_FOLDER, "there is no folder that can be written for jobs of their own", hint=hint)
    return folder
