"""The error of a checkpoint's file that is damaged or missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlstream.errors import ExecutionError

DAMAGED = "SS459"
DISK_FULL = "SS465"
UNUSABLE = "SS595"

NO_SPACE = re.compile(r"(No space left on device|Disk quota exceeded|File too large)")

ANEW = "start from a savepoint ('execution.state-recovery.path') or in a new directory"
HINT = f"Give it back from a copy, or {ANEW}."


def damaged(path: object, detail: str, hint: str = HINT) -> ExecutionError:
    return ExecutionError(DAMAGED, f'file "{path}" of a checkpoint is damaged', detail=detail, hint=hint)


def missing(path: object) -> ExecutionError:
    return ExecutionError(DAMAGED, f'file "{path}" of a checkpoint is missing', hint=HINT)


def is_json(text: str | bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def disk_full(reason: str) -> ExecutionError:
    hint = "Make room, then start the job again."
    return ExecutionError(DISK_FULL, f"a disk that the job writes to is full: {reason}", hint=hint)


def unusable(error: OSError) -> ExecutionError:
    message = f'"{error.filename}" of a checkpoint cannot be used: {error.strerror or error}'
    hint = "Correct 'execution.checkpointing.dir', a directory that this user may write to."
    return ExecutionError(UNUSABLE, message, hint=hint)


@contextmanager
def full_disk_told() -> Iterator[None]:
    """ExecutionError SS465 in place of the OSError with which a full disk refuses a file; SS595 in place of others,
    such as those of a directory that cannot be one.
    """
    try:
        yield
    except OSError as error:
        found = NO_SPACE.search(str(error))
        if found is None:
            raise unusable(error) from error
        raise disk_full(found[1]) from error
