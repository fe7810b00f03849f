"""Rows and clocks in the form that triggers, evictors and process functions of users see."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

import pyarrow as pa

from sqlstream.udfs.columnar import python_values
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK

MILLISECOND = 1000


def user_rows(rows: pa.Table, columns: Sequence[str]) -> list[object]:
    """One object per row with the columns as attributes, NULL as None; each row has an object of its own."""
    row = namedtuple("Row", columns, rename=True)  # type: ignore[misc]
    if not columns:
        return [row() for _ in range(rows.num_rows)]
    values = (python_values(rows.column(name).combine_chunks()) for name in columns)
    return [row(*of_row) for of_row in zip(*values, strict=True)]


def milliseconds(time: int) -> int:
    """Converts microseconds to milliseconds, rounded down."""
    return int(time) // MILLISECOND


def clock_ms(processing_time: int) -> int:
    """The current processing time as users' code sees it, in milliseconds. ``processing_time`` (microseconds) is the
    kernel's clock: the last moment that is completely over. END_OF_TIME remains END_OF_TIME.
    """
    return milliseconds(processing_time) + (processing_time != END_OF_TIME)


def watermark_ms(watermark: int) -> int | None:
    """The watermark in milliseconds; None before the first watermark."""
    return None if watermark == NO_WATERMARK else milliseconds(watermark)


def microseconds(time: int) -> int:
    """A time that a user gave in milliseconds, as microseconds; times beyond int64 become END_OF_TIME."""
    return max(min(int(time) * MILLISECOND, END_OF_TIME), NO_WATERMARK)
