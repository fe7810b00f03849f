"""A query with LIMIT and no order ends when it has its rows, though its input goes on."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.jobs.checkpoints.storage import Storage

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


def enough_of(rows: int | None, storage: Storage) -> Enough | None:
    """What is enough of at most so many rows, for the job with this checkpoint; None where nothing is."""
    if rows is None:
        return None
    return Enough(rows if storage.read(_MARK) is None else 0, storage)
