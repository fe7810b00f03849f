"""Where a session keeps what lives as long as it does, and how its jobs and their checkpoints are called."""

from __future__ import annotations

import itertools
import shutil
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.paths import is_segment, temporary_folder
from sqlstream.settings import Settings

NAME_TOO_LONG = "SS586"
NO_FOLDER_NAME = "SS415"
LONGEST_NAME = 200
"""Bytes. File systems take 255, and savepoints add the time to it."""
_SHOWN = 60


@dataclass(frozen=True)
class JobName:
    """The name of a job. ``now``: the name, which needs no quotes in SQL. ``before``: the name that earlier versions
    gave the same job, with hyphens; its checkpoint may have this name.

    A number is appended after two underscores, because ``insert_into_t_2`` is the first job that writes to table
    ``t_2``.
    """

    now: str
    before: str


def insert_name(table: str) -> JobName:
    """Returns the default name of a job that writes into a table."""
    return _name_of("insert", "into", table)


def set_name(tables: Iterable[str]) -> JobName:
    """Returns the default name of the job of a statement set that writes into these tables."""
    return _name_of("statement", "set", *tables)


def _name_of(*words: str) -> JobName:
    return JobName("_".join(words), "-".join(words))


class Folders:
    """The folders of a session: its scratch folder, which is created on first use, and the checkpoints of its jobs."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._named: dict[str, list[str]] = {}
        self._numbers = itertools.count(1)

    @property
    def root(self) -> Path:
        """The session's scratch folder. It is created on first use and removed with the session."""
        if self._root is None:
            self._root = temporary_folder("sqlstream-")
            self._finalizer = weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        return self._root

    def job_name(self, wanted: JobName, work: str | None = None) -> JobName:
        """Returns a job name that is unique in the session: ``wanted``, with a number appended if another job has that
        name.

        ``work``: a text that identifies what the job does, if it continues from its checkpoint; equal texts get the
        same name each time. None: the job gets a new name.
        """
        works = self._named.setdefault(wanted.now, [])
        if work is None or work not in works:
            works.append(work or "")
            count = len(works)
        else:
            count = works.index(work) + 1
        return wanted if count == 1 else JobName(f"{wanted.now}__{count}", f"{wanted.before}-{count}")

    def checkpoint(self, settings: Settings, job: str) -> str:
        """Returns the path of a job's checkpoint: in the directory of the settings if given, else in the scratch
        folder.

        Raises ExecutionError SS415 if the job's name cannot be a folder name, ConnectorError SS586 if it is too long.
        """
        parent = settings["execution.checkpointing.dir"]
        if parent and not is_segment(job):
            message = f'the name "{job[:_SHOWN]}" of a job cannot be that of the folder of its checkpoint'
            hint = "Give it one without / and %, and other than . and ..: SET 'pipeline.name' = '…'."
            raise ExecutionError(NO_FOLDER_NAME, message, hint=hint)
        if parent and len(job.encode()) > LONGEST_NAME:
            message = f'the name of job "{job[:_SHOWN]}…" is too long for the directory of its checkpoint'
            hint = f"Give it one of at most {LONGEST_NAME} bytes: SET 'pipeline.name' = '…'."
            raise ConnectorError(NAME_TOO_LONG, message, hint=hint)
        return f"{parent.rstrip('/')}/{job}" if parent else self.scratch_checkpoint()

    def name_of_checkpoint(self, name: JobName, settings: Settings, exists: Callable[[str], bool]) -> str:
        """The name of a job, as earlier versions wrote it where the checkpoint is theirs. ``exists``: whether there is
        a checkpoint at a path.
        """
        if name.now == name.before:
            return name.now
        now, before = (self.checkpoint(settings, each) for each in (name.now, name.before))
        return name.before if exists(before) and not exists(now) else name.now

    def scratch_checkpoint(self) -> str:
        """Returns a new path in the scratch folder for the checkpoint of a job that will not be continued."""
        return str(self.root / "checkpoints" / str(next(self._numbers)))

    def remove(self) -> None:
        """Removes the scratch folder with its contents."""
        if self._root is not None:
            self._finalizer()
            self._root = None
