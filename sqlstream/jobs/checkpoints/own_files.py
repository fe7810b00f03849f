"""The files in a job's folder that are ours: how they are recognised before a job writes there, and what is removed
at its end.

The folder lies below ``execution.checkpointing.dir`` and has the name of the job, so it may be somebody else's.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.checkpoint import PLAN, RUN
from sqlstream.jobs.checkpoints.sink_places import FILE as SINKS
from sqlstream.jobs.checkpoints.storage import LocalStorage, Storage
from sqlstream.jobs.checkpoints.watermarks import FILE as WATERMARKS
from sqlstream.jobs.identity.layout import FILE as LAYOUT
from sqlstream.jobs.records.history import FILE as HISTORY
from sqlstream.jobs.records.record import FILE as RECORD

FOREIGN_FOLDER = "SS414"

MARKS = (RUN, PLAN, LAYOUT, RECORD)
"""A folder with one of these files is that of a job; each of them is read, and must be of ours, before a job starts."""

VIEW = "view.json"
"""What is known of a materialized view, whose folder that of its job is; it may be there before the job."""

_SPARK = tuple(f"spark/{name}" for name in ("offsets", "commits", "sources", "state", "metadata", ".metadata.crc"))
_CHECKPOINT = (*_SPARK, "control", "control-clock", "results", WATERMARKS, SINKS, LAYOUT, PLAN, RUN)
"""All that a checkpoint is made of, the marks last."""


def require_own_folder(storage: Storage, path: str) -> None:
    """ExecutionError SS414 where the folder at ``path`` holds files, and none by which a job's folder is known.

    Only on this machine: elsewhere nothing is ever removed. Hidden files, of a dot, do not count.
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
    """Remove what a job has written to go on from, and nothing else; only where ``storage.can_remove``."""
    for name in _CHECKPOINT:
        storage.remove(name)
    if isinstance(storage, LocalStorage):
        _remove_if_empty(storage.root / "spark")


def remove_job_folder(storage: Storage) -> None:
    """Remove a checkpoint, and what is recorded of its job. Savepoints stay; only where ``storage.can_remove``."""
    remove_checkpoint(storage)
    for name in (HISTORY, "requests", "replies", RECORD, VIEW, ".lock"):
        storage.remove(name)
    if isinstance(storage, LocalStorage):
        _remove_if_empty(storage.root)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, not there, a link
        folder.rmdir()
