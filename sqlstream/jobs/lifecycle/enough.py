"""A query with LIMIT and no order ends when it has its rows, though its input goes on."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.jobs.checkpoints.storage import Storage

_MARK = "has-all-rows"


@dataclass(frozen=True)
class Enough:
    """``rows``: how many the query gives at most. A job that had them all ends at once when it is started again."""

    rows: int
    storage: Storage

    def reached(self, rows_out: int) -> bool:
        """True where a job that has written so many rows since its start needs no more."""
        return rows_out >= self.rows or self.storage.read(_MARK) is not None

    def keep(self) -> None:
        """Remember that the job has all its rows."""
        self.storage.write(_MARK, f"{self.rows}\n")
