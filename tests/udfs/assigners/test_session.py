from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.udfs.assigners import Session

CONTEXT = SimpleNamespace(processing_time=70)


def test_the_window_of_a_row_lasts_a_gap():
    rows = pa.table({"ts": [5, -3]})
    assert [part.tolist() for part in Session("ts", 10).assign(rows, CONTEXT)] == [[0, 1], [5, -3], [15, 7]]


def test_every_row_may_have_its_own_gap():
    rows = pa.table({"ts": [5, 6], "gap": [10, 1]})
    assert Session("ts", "gap").assign(rows, CONTEXT).end.tolist() == [15, 7]


def test_without_a_time_column_a_session_starts_now():
    assert Session(None, 10).assign(pa.table({"v": [1]}), CONTEXT).start.tolist() == [70]


@pytest.mark.parametrize(("gap", "told"), [(0, "not positive: 0"), (-7, "not positive: -7"), (None, "NULL")])
def test_a_gap_of_zero_or_less_is_an_error_of_the_row(gap, told):
    rows = pa.table({"ts": [5, 6], "gap": pa.array([1, gap], pa.int64())})
    with pytest.raises(ExecutionError, match="SS404") as error:
        Session("ts", "gap").assign(rows, CONTEXT)
    assert told in str(error.value)


def test_a_gap_that_kernels_cannot_calculate_with_is_an_error_of_the_row():
    rows = pa.table({"ts": [5, 6], "gap": [1, 3_652_425 * 86_400_000_000 + 1]})
    with pytest.raises(ExecutionError, match="SS404: the session gap of a row is longer than 10,000 years"):
        Session("ts", "gap").assign(rows, CONTEXT)
