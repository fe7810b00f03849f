"""The folder of a job: whether it is one, who works there, where its sinks have written, which files are removed.

The folder is below ``execution.checkpointing.dir`` and has the name of the job, so it may belong to somebody else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors import RecoverableSink, SinkWriteRange, connector
from sqlstream.connectors.environment import UNKNOWN_RANGE
from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.checkpoint import PLAN, RUN, require_plain
from sqlstream.jobs.checkpoints.fingerprint import LAYOUT_FILE as LAYOUT
from sqlstream.jobs.checkpoints.storage import LocalStorage, Storage, damaged, storage_at, write_errors_reported
from sqlstream.jobs.checkpoints.watermarks import WATERMARKS_FILE as WATERMARKS
from sqlstream.jobs.records.history import HISTORY_FILE as HISTORY
from sqlstream.jobs.records.record import RECORD_FILE as RECORD
from sqlstream.jobs.records.record import being_started, in_use, read_record
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.plans import side_tables
from sqlstream.udfs.database_changes import CHANGES_FOLDER
from sqlstream.udfs.files.listed import RANGES
from sqlstream.udfs.spool import RECEIVED
from sqlstream.udfs.texts import json_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.connectors import Environment
    from sqlstream.planner.catalog import Table

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# --- Written places of sinks (sinks.json) ----------------------------------------------------------------------
# Some sinks keep a log beside their rows that says which of them are committed, as Spark's file sink does. If the log
# is lost, a job that continues would begin a new one, and all earlier rows would be ignored.


SINKS_FILE = "sinks.json"


def require_sinks_intact(environment: Environment, plan: Insert | StatementSet, storage: Storage) -> None:
    """Checks that the sinks of a plan still hold the rows of the job's earlier runs. Records in the checkpoint to which
    locations the job writes, and since which micro-batch.

    Raises the errors of ``RecoverableSink.require_intact``, and ExecutionError SS459 where this record cannot be read.
    """
    after = -1 if environment.after is None else environment.after
    told = _read(storage)
    recorded, unknown = (told, None) if told is not None else ({}, UNKNOWN_RANGE)
    ranges = {key: replace(r, until=after if r.until is None else r.until) for key, r in recorded.items()}
    for table, streamed in _sinks(plan):
        kind = connector(table.connector)
        if not isinstance(kind, RecoverableSink):
            continue
        key = f"{table.connector} {kind.location(table)}"
        kind.require_intact(environment, table, ranges.get(key, unknown), streamed)
        ranges[key] = SinkWriteRange(since=ranges[key].since if key in ranges else after)
    if ranges != told:
        storage.write(SINKS_FILE, json.dumps({key: asdict(r) for key, r in ranges.items()}, indent=1))


def sinks_intact(plan: Insert | StatementSet) -> Callable[[int], None]:
    """Returns a function that gets the number of a complete micro-batch, and raises an error if a sink has lost its
    rows.
    """
    streamed = (table for table, by_spark in _sinks(plan) if by_spark)
    sinks = [(table, connector(table.connector)) for table in streamed]
    checks = [(table, kind.require_batch) for table, kind in sinks if isinstance(kind, RecoverableSink)]

    def require(batch: int) -> None:
        for table, check in checks:
            check(table, batch)

    return require


def _sinks(plan: Insert | StatementSet) -> Iterator[tuple[Table, bool]]:
    """The tables that a plan writes, each with whether Spark's own sink writes it."""
    side = side_tables(plan)
    for table in plan.tables if isinstance(plan, StatementSet) else (plan.table,):
        yield table, isinstance(plan, Insert) and not side
    for table in side:
        yield table, False


def _read(storage: Storage) -> Mapping[str, SinkWriteRange] | None:
    text = storage.read(SINKS_FILE)
    try:
        return None if text is None else {key: SinkWriteRange(**r) for key, r in json_of(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged(storage.location(SINKS_FILE), f"It tells no places of sinks: {error}.") from error


FOREIGN_FOLDER = "SS414"

MARKS = (RUN, PLAN, LAYOUT, RECORD)
"""A folder with one of these files is that of a job; each of them is read, and must be of ours, before a job starts."""

VIEW = "view.json"
"""What is known of a materialized view, whose folder that of its job is; it may be there before the job."""

_SPARK = tuple(f"spark/{name}" for name in ("offsets", "commits", "sources", "state", "metadata", ".metadata.crc"))
_OURS = ("control", "control-clock", RANGES, RECEIVED, CHANGES_FOLDER, "results", WATERMARKS, SINKS_FILE)
_CHECKPOINT = (*_SPARK, *_OURS, LAYOUT, PLAN, RUN)
"""The files and folders of a checkpoint, the marks last."""


def require_own_folder(storage: Storage, path: str) -> None:
    """Raises ExecutionError SS414 where the folder at ``path`` holds files but is not the folder of a job. Hidden files
    are ignored.

    Folders on other machines are not checked, because sqlstream removes no files there.
    """
    if not isinstance(storage, LocalStorage) or not storage.root.is_dir():
        return
    names = sorted(path_inside.name for path_inside in storage.root.iterdir() if not path_inside.name.startswith("."))
    if names and not any((storage.root / mark).is_file() for mark in (*MARKS, VIEW)):
        more = f" and {len(names) - 1} more" if names[1:] else ""
        raise ExecutionError(
            FOREIGN_FOLDER,
            f'"{path}" is not the folder of a job, and is not empty',
            detail=f'It holds "{names[0]}"{more}, which no job has written.',
            hint="Give the job another name (SET 'pipeline.name'), or its checkpoint another directory "
            "('execution.checkpointing.dir').",
        )


def remove_checkpoint(storage: Storage) -> None:
    """Removes the files of a job's checkpoint, and no others. Must be called only if ``storage.can_remove`` is true."""
    for name in _CHECKPOINT:
        storage.remove(name)
    if isinstance(storage, LocalStorage):
        _remove_if_empty(storage.root / "spark")


def remove_job_folder(storage: Storage) -> None:
    """Removes the checkpoint and the record of a job, but no savepoints. Must be called only if the storage's attribute
    ``can_remove`` is true.
    """
    remove_checkpoint(storage)
    for name in (HISTORY, "requests", "replies", RECORD, VIEW, ".lock"):
        storage.remove(name)
    if isinstance(storage, LocalStorage):
        _remove_if_empty(storage.root)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, not there, a link
        folder.rmdir()


# --- The lock on the folder of a job ---------------------------------------------------------------------------
# A lock on a hidden file, which ends with the process that holds it. Records show running jobs, but two jobs that start
# at the same moment both find no record.


LOCK = ".lock"


class Claim:
    """The exclusive right of a process to write in a job's folder, until it is released. ``handle`` is the open lock
    file, None without a lock.
    """

    def __init__(self, handle: int | None = None) -> None:
        self._handle = handle

    def lock(self) -> bool:
        """Takes the lock. False if another process that is starting a job holds it; always True on file systems without
        locks.
        """
        return self._handle is None or _locked(self._handle)

    def release(self) -> None:
        """Give up the claim and its lock."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def claim(path: str, spark: SparkSession) -> Claim:
    """Makes the folder of a job if it is missing, and returns the exclusive right to write in it. Folders on other
    machines are not locked.

    Raises ExecutionError SS414 where it is not the folder of a job, SS416 where it cannot be written, SS423 for a path
    that Spark takes for a glob pattern, SS452 where another job runs or starts there.
    """
    require_plain(path)
    return claim_at(storage_at(path, spark), path)


def claim_at(storage: Storage, path: str) -> Claim:
    """Makes the folder of a job if it is missing, and returns the exclusive right to write in it, as ``claim`` does.

    ``storage``: that of the folder. ``path``: the folder's name in error messages.
    """
    if not isinstance(storage, LocalStorage):
        return Claim()
    with write_errors_reported(storage.root):
        if not (storage.root / LOCK).exists():  # nothing is written to the folder of somebody else
            require_own_folder(storage, path)
        storage.root.mkdir(parents=True, exist_ok=True)
        claimed = Claim(_opened(storage.root / LOCK))
    try:
        if not claimed.lock():
            record = read_record(storage)
            raise being_started(path) if record is None or not record.is_running else in_use(record, path)
        require_own_folder(storage, path)
    except BaseException:
        claimed.release()
        raise
    return claimed


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def _opened(file: Path) -> int:
    """A file of another user can be locked without the right to write it."""
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o666)
    except PermissionError:
        if not file.exists():
            raise
        return os.open(file, os.O_RDONLY | _NO_LINKS)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):  # the latter on Windows
        return True
    return True
