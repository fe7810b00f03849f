"""A query with LIMIT and no order ends when it has its rows, though its input goes on.

What earlier runs have given of them stands in the state of the operator, which keeps the rows that it has counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.planner.operators.top_n import Wanted

_MARK = "has-all-rows"


@dataclass(frozen=True)
class Enough:
    """``rows``: how many a job still gives at most; 0 where an earlier run gave them all."""

    rows: int
    storage: Storage

    def reached(self, rows_out: int) -> bool:
        """True where a job that has written so many rows since its start needs no more."""
        return rows_out >= self.rows

    def keep(self) -> None:
        """Remember that the job has all its rows."""
        self.storage.write(_MARK, "")


def enough_of(wanted: Wanted | None, storage: Storage, kept: Callable[[], int]) -> Enough | None:
    """What is enough for the job with this checkpoint; None where nothing is. ``kept``: how many rows the operator has
    counted so far."""
    if wanted is None:
        return None
    if storage.read(_MARK) is not None:
        return Enough(0, storage)
    return Enough(wanted.rows - max(0, min(kept(), wanted.last) - wanted.skipped), storage)
