"""The rows of some keys in the order in which they are matched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Indices = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NO_ROW = -1


@dataclass(frozen=True)
class Line:
    """``table``: by key, then in order. Of each key the rows ``[begin, next)`` were mapped in calls before, ``[next,
    ready)`` are to be mapped now, and ``[ready, stop)`` later, when rows behind them are known."""

    table: pa.Table
    time: Times
    begin: Indices
    next: Indices
    ready: Indices
    stop: Indices

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def key(self) -> Indices:
        """The number of the key of each row."""
        return np.repeat(np.arange(len(self.begin)), self.stop - self.begin)

    def shifted(self, rows: Indices, shift: int) -> Indices:
        """The rows of the same keys so many rows behind these; NO_ROW where there is none."""
        if shift == 0:
            return rows
        to, key = rows + shift, self.key[rows]
        is_there = (rows != NO_ROW) & (to >= self.begin[key]) & (to < self.stop[key])
        return np.where(is_there, to, NO_ROW)

    def values(self, column: str, rows: Indices, absent: str | None = None) -> pa.Array:
        """A column in these rows; where there is none, NULL or the value of another column, which is a constant."""
        values = self.column(column)
        missing = rows == NO_ROW
        if not missing.any():
            return values.take(pa.array(rows))
        values_there = values.take(pa.array(rows, mask=missing))
        if absent is None or not len(self):
            return values_there
        return pc.if_else(pa.array(missing), self.column(absent)[0], values_there)

    def column(self, name: str) -> pa.Array:
        column = self.table.column(name)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
