"""One start of a job at a time: a lock on a hidden file in its folder, which ends with the process that holds it.

The record of a job tells of those that run; two that start at the same moment both find no record.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sqlstream.jobs.checkpoint import require_plain
from sqlstream.jobs.damage import refused_writes_told
from sqlstream.jobs.own_files import require_own_folder
from sqlstream.jobs.records import being_started, in_use, read_record
from sqlstream.jobs.storage import LocalStorage, Storage, storage_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK = ".lock"


class Claim:
    """The right to write in a job's folder, until released. ``handle``: the open lock, None where there is none."""

    def __init__(self, handle: int | None = None) -> None:
        self._handle = handle

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
    """As ``claim``, of a storage."""
    if not isinstance(storage, LocalStorage):
        return Claim()
    with refused_writes_told(storage.root):
        require_own_folder(storage, path)
        storage.root.mkdir(parents=True, exist_ok=True)
        handle = os.open(storage.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _NO_LINKS, 0o666)
    if not _locked(handle):
        os.close(handle)
        record = read_record(storage)
        raise being_started(path) if record is None or not record.is_running else in_use(record, path)
    return Claim(handle)


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def _locked(handle: int) -> bool:
    """False where another start holds it. File systems without locks have none to hold."""
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
