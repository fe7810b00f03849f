"""Rows and clocks as triggers and evictors of users see them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

import pyarrow as pa

from sqlstream.udfs.columnar import python_values
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK

MILLISECOND = 1000


def user_rows(rows: pa.Table, columns: Sequence[str]) -> list[object]:
    """Objects with the columns as attributes, SQL's NULL as None; each of its own identity."""
    row = namedtuple("Row", columns, rename=True)  # type: ignore[misc]
    if not columns:
        return [row() for _ in range(rows.num_rows)]
    values = (python_values(rows.column(name).combine_chunks()) for name in columns)
    return [row(*of_row) for of_row in zip(*values, strict=True)]


def milliseconds(time: int) -> int:
    return int(time) // MILLISECOND


def clock_ms(processing_time: int) -> int:
    """The clock in milliseconds where ``processing_time`` has passed; at the end of time, that."""
    return milliseconds(processing_time) + (processing_time != END_OF_TIME)


def watermark_ms(watermark: int) -> int | None:
    """None before the first watermark."""
    return None if watermark == NO_WATERMARK else milliseconds(watermark)


def microseconds(time: int) -> int:
    """A time of a user's; those too far away are the end of time."""
    return max(min(int(time) * MILLISECOND, END_OF_TIME), NO_WATERMARK)
