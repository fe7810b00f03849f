"""The errors of files of a job: damaged, missing, not to be read, not to be written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.texts import json_of, reason_of

DAMAGED = repeating("SS459")
DISK_FULL = "SS465"
CANNOT_WRITE = "SS416"
CANNOT_READ = "SS417"
_LONGEST_SHOWN = 100

NO_SPACE = re.compile(r"(No space left on device|Disk quota exceeded|File too large)")

ANEW = "start from a savepoint ('execution.state-recovery.path') or in a new directory"
HINT = f"Give it back from a copy, or {ANEW}."


def damaged(path: object, detail: str, hint: str = HINT) -> ExecutionError:
    return ExecutionError(DAMAGED, f'file "{path}" of a checkpoint is damaged', detail=detail, hint=hint)


def missing(path: object) -> ExecutionError:
    return ExecutionError(DAMAGED, f'file "{path}" of a checkpoint is missing', hint=HINT)


def is_json(text: str | bytes) -> bool:
    try:
        json_of(text)
    except ValueError:
        return False
    return True


def disk_full(reason: str) -> ExecutionError:
    hint = "Make room, then start the job again."
    return ExecutionError(DISK_FULL, f"a disk that the job writes to is full: {reason}", hint=hint)


def cannot_write(path: object, error: OSError | ValueError) -> ExecutionError:
    hint = "Look at the permissions and the place of its directory, or give the job another one."
    return ExecutionError(CANNOT_WRITE, f'"{_beginning(path)}" cannot be written: {reason_of(error)}', hint=hint)


def cannot_read(path: object, error: OSError | ValueError) -> ExecutionError:
    hint = "Look at its permissions: a job, and whoever asks for it, reads all files of its checkpoint."
    return ExecutionError(CANNOT_READ, f'"{_beginning(path)}" cannot be read: {reason_of(error)}', hint=hint)


def _beginning(path: object) -> str:
    """A path that is too long for the file system is too long for a message, too."""
    text = str(path)
    return text if len(text) <= _LONGEST_SHOWN * 2 else f"{text[:_LONGEST_SHOWN]}…"


@contextmanager
def refused_writes_told(path: object) -> Iterator[None]:
    """ExecutionError SS465 in place of the error with which a full disk refuses a file, SS416 in place of others."""
    try:
        yield
    except (OSError, ValueError) as error:
        full = NO_SPACE.search(str(error))
        raise (cannot_write(path, error) if full is None else disk_full(full[1])) from error
