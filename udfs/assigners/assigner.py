"""Window assigners: they say to which windows each row belongs.

A window is ``[start, end)`` in int64 microseconds since 1970 (UTC). Merging assigners (sessions) give each row a window
of its own; ``merge_sessions`` then merges these with each other and with the stored ones.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.kernel import LATE_ROWS, Context, Domain

NULL_EVENT_TIME = repeating("SS401")

Times = npt.NDArray[np.int64]
RowIndices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Assigned(NamedTuple):
    """Pairs of a row and one of its windows: by row in order of arrival, then from the earliest end to the latest."""

    row: RowIndices
    start: Times
    end: Times


class Assigner(Protocol):
    """Frozen and picklable. ``domain`` is the clock that closes the windows."""

    @property
    def domain(self) -> Domain: ...

    @property
    def merging(self) -> bool:
        """True where windows of one key that intersect or touch become one."""
        ...

    def assign(self, rows: pa.Table, context: Context) -> Assigned: ...


LAST_INSTANT = 253_370_764_800_000_000
"""The year 9999: what the time is for rows that come when processing time has ended. Windows end after it."""


def times_of(rows: pa.Table, time: str | None, context: Context) -> Times:
    """The time of each row; where no column is named, it is now, in processing time. SS401 at a NULL."""
    if time is None:
        return np.full(rows.num_rows, min(context.processing_time, LAST_INSTANT), np.int64)
    return micros(rows.column(time), time)


def rows_in_time(rows: pa.Table, time: str | None, domain: Domain, context: Context) -> tuple[pa.Table, Times]:
    """The rows that are not late, and the time of each, in processing time at most now; late ones are counted."""
    times = times_of(rows, time, context)
    if domain is Domain.PROCESSING:
        return rows, np.minimum(times, context.processing_time)
    late = times <= context.watermark
    if not late.any():
        return rows, times
    context.count(LATE_ROWS, int(late.sum()))
    return rows.filter(pa.array(~late)), times[~late]


def micros(column: pa.ChunkedArray, name: str) -> Times:
    """Microseconds of a column of timestamps or of integers, which are microseconds already. SS401 at a NULL."""
    if column.null_count:
        raise ExecutionError(NULL_EVENT_TIME, f'the time "{name}" of a row is NULL', hint="Filter such rows out.")
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("us", column.type.tz))
    return np.asarray(pc.cast(column, pa.int64()).to_numpy(), np.int64)


def per_row(start: Times, end: Times, row_count: int) -> Assigned:
    """One window for each row."""
    return Assigned(np.arange(row_count, dtype=np.int64), start, end)
