"""Calls of user code, each of which happens as a whole or, where a job goes on without its row, not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlstream.udfs.columnar import FunctionError, place_of
from sqlstream.udfs.process.calls import FAILED, WRONG_ROW
from sqlstream.udfs.process.cells import UndoLog
from sqlstream.udfs.process.failures import Failure
from sqlstream.udfs.process.memories import WRONG_STATE, Memories
from sqlstream.udfs.process.process_call import ProcessCall
from sqlstream.udfs.process.timers import KeyTimers

_OF_A_ROW = (FAILED, WRONG_ROW, WRONG_STATE)
"""What fails for one row; other errors say that the class or its call is wrong, and fail the job."""


class Attempts:
    """The calls of one call of a kernel. ``failures``: those after which state, timers and output are as before.

    What a call returns and writes is checked at its end where the kernel is tolerant, else when all is written.
    """

    def __init__(self, kernel: ProcessCall, memories: Memories, timers: KeyTimers, log: UndoLog) -> None:
        self._kernel = kernel
        self._memories = memories
        self._timers = timers
        self._log = log
        self.failures: list[Failure] = []

    def made(self, call: Callable[[], list[Any]], slot: int, record: Callable[[], str]) -> list[Any]:
        """The rows of a call for the key of a number. ``record`` says what it was made for."""
        if not self._kernel.tolerant:
            returned = call()
            self._timers.commit()
            return returned
        try:
            returned = call()
            self._kernel.calls.check(returned)
            self._memories.check(slot, self._log)
        except FunctionError as error:
            if not str(error).startswith(_OF_A_ROW):
                raise
            self._log.undo()
            self._timers.roll_back()
            self.failures.append(_failure(error, record()))
            return []
        self._log.forget()
        self._timers.commit()
        return returned


def _failure(error: FunctionError, record: str) -> Failure:
    """The error without its detail, which the record has, and with the line of the user's exception, if any."""
    cause = error.__cause__
    line = None if cause is None or isinstance(cause, FunctionError) else place_of(cause)
    return {"record": record, "error": str(error).partition("\nDETAIL: ")[0], "place": line}
