"""One start of a job at a time: a lock on a hidden file in its folder, which ends with the process that holds it.

The record of a job tells of those that run; two that start at the same moment both find no record.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.jobs.checkpoints.checkpoint import require_plain
from sqlstream.jobs.checkpoints.damage import refused_writes_told
from sqlstream.jobs.checkpoints.own_files import require_own_folder
from sqlstream.jobs.checkpoints.storage import LocalStorage, Storage, storage_at
from sqlstream.jobs.records.record import being_started, in_use, read_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK = ".lock"


class Claim:
    """The right to write in a job's folder, until released. ``handle``: the open lock, None where there is none."""

    def __init__(self, handle: int | None = None) -> None:
        self._handle = handle

    def lock(self) -> bool:
        """False where another start holds the lock. File systems without locks have none to hold."""
        return self._handle is None or _locked(self._handle)

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def claim(path: str, spark: SparkSession) -> Claim:
    """Make the folder of a job where it is not there, and claim it.

    ExecutionError SS414 where it is somebody else's, SS416 where nobody can write there, SS423 for a path that Spark
    takes for a pattern, SS452 where another job runs or starts there. Only on this machine: elsewhere there are no
    locks, and the record alone tells.
    """
    require_plain(path)
    return claim_at(storage_at(path, spark), path)


def claim_at(storage: Storage, path: str) -> Claim:
    """As ``claim``, for a storage."""
    if not isinstance(storage, LocalStorage):
        return Claim()
    with refused_writes_told(storage.root):
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
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
