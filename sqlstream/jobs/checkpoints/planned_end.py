"""The planned end of a bounded input: the micro-batch that reads the last rows ends the input, too.

The end of a bounded input is a control row. Without a plan it is written when all of the input has been read, and
another run of Spark's query reads it. Where it is known before the start in how many micro-batches the input is read,
the control rows of each table are as many files, without a row but for the last, of which a micro-batch reads one
(``ControlRows.one_by_one``). So the windows that still wait fire in the micro-batch behind the last rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlstream.jobs.checkpoints.control import ENDED, ControlRows, folder_of
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.history import last_begun, last_committed
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS

_PLANNED = "planned-end"
_NUMBER = f"{ENDED}/{_PLANNED}"
_MOST = 100
"""Each micro-batch of a planned end is a file for each table."""


@dataclass(frozen=True)
class PlannedEnd:
    """Plans, goes on with or withdraws the end of the inputs of ``tables``, for a checkpoint on this machine."""

    control: ControlRows
    tables: Sequence[str]

    def holds(self, micro_batches: Callable[[], int | None]) -> bool:
        """Whether a job that starts now reads the end of its input with the last rows: a new one of which it is known
        in how many ``micro_batches`` it reads them, and one that was stopped in the last of these. The plan of a job
        that was stopped earlier is withdrawn, because what has come since is read, too.
        """
        begun, planned = last_begun(self._storage), self.planned
        if begun is None:
            number = micro_batches() if self.tables else None
            if number is None or number > _MOST:
                return False
            self.plan(number)
            return True
        if planned is None:
            return False
        if begun < planned - 1:
            self.withdraw()
            return False
        committed = last_committed(self._storage)
        if committed is None or committed < planned - 1:
            return True
        self.control.reach_end()
        return False

    @property
    def planned(self) -> int | None:
        """In how many micro-batches a job that was started with a planned end reads its input; None without one."""
        text = self._storage.read(_NUMBER)
        return int(text) if text else None

    def plan(self, micro_batches: int) -> None:
        """Writes the control rows of a job that has not begun and reads its input in so many micro-batches."""
        self.withdraw()
        self._storage.write(_NUMBER, str(micro_batches))
        now = time.time()
        for table in self.tables:
            for number in range(micro_batches):
                name = f"{folder_of(table)}/{_PLANNED}-{number:09}"
                if number == micro_batches - 1:
                    name = _end_of(table)
                    self.control.lift(table, END_OF_INPUT_MS, _PLANNED)
                else:
                    self._storage.write(name, "")
                seconds = now - micro_batches + number  # Spark reads the oldest first
                os.utime(self._storage.root / name, (seconds, seconds))

    def withdraw(self) -> None:
        """Removes a planned end that no micro-batch has begun to read."""
        for table in self.tables:
            self._storage.remove(_end_of(table))
        self._storage.remove(_NUMBER)

    @property
    def _storage(self) -> LocalStorage:
        assert isinstance(self.control.storage, LocalStorage)
        return self.control.storage


def _end_of(table: str) -> str:
    return f"{folder_of(table)}/{_PLANNED}.json"
