"""The error of a checkpoint's file that is damaged or missing."""

from __future__ import annotations

import json

from sqlstream.errors import ExecutionError

DAMAGED = "SS459"

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
