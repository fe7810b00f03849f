"""Times in columns that Python's datetime does not have."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sqlstream.udfs.datetimes import beyond, rows_beyond

GOOD, BAD = 0, 2**60
TIMES = pa.array([BAD, GOOD, None, -BAD, GOOD], pa.int64()).view(pa.timestamp("us", "UTC"))
SHAPES = {
    "flat": (TIMES, [0, 3]),
    "slice": (TIMES.slice(1), [2]),
    "dates": (pa.array([0, None, 2**30], pa.int32()).view(pa.date32()), [2]),
    "array": (pa.ListArray.from_arrays(pa.array([0, 2, 3, 3, 5]), TIMES), [0, 3]),
    "struct": (pa.StructArray.from_arrays([TIMES], ["at"], mask=pa.array([True] + [False] * 4)), [3]),
    "map": (pa.MapArray.from_arrays([0, 1, 3, 5], pa.array([*"abcde"]), TIMES), [0, 2]),
    "good": (pa.array([datetime(9999, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC")), []),
    "text": (pa.array(["a"]), []),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_with_a_time_beyond_are_found_however_deep_it_lies(shape):
    values, wanted = SHAPES[shape]
    assert rows_beyond(values) == wanted
    assert all(beyond(values, row).startswith(("is ", "has ")) for row in wanted)
