"""Window table functions over Arrow batches: what is no row of data passes by, and barriers keep their places."""

import pyarrow as pa
import pytest

from sqlstream.udfs.assigners import Cumulate, Hop
from sqlstream.udfs.exchange import HOLD, LATE_TABLE
from sqlstream.udfs.kernel import BARRIER, MOST_RESULTS
from sqlstream.udfs.spark.batches import WindowsOfRows
from sqlstream.udfs.windows.emission import WINDOW_START

SECOND = 1_000_000
HOP = Hop("ts", SECOND, 2 * SECOND)


def windows(**columns):
    return [row for out in batches(HOP, **columns) for row in out.to_pylist()]


def batches(assigner, **columns):
    kinds = {"v": pa.int64(), "ts": pa.int64(), BARRIER: pa.int64(), HOLD: pa.int64(), LATE_TABLE: pa.string()}
    batch = pa.RecordBatch.from_arrays([pa.array(c, kinds[n]) for n, c in columns.items()], names=list(columns))
    return WindowsOfRows(assigner).rows(iter([batch]))


def test_barriers_keep_their_places_among_the_rows():
    actual = windows(v=[1, None, 2, None], ts=[0, None, 0, None], **{BARRIER: [None, 7, None, 8]})
    assert [row["v"] or row[BARRIER] for row in actual] == [1, 1, 7, 2, 2, 8]
    assert [row[WINDOW_START] is None for row in actual] == [row[BARRIER] is not None for row in actual]


def test_holds_and_late_rows_pass_by():
    actual = windows(v=[1, None, None], ts=[0, None, None], **{HOLD: [None, 5, None], LATE_TABLE: [None, None, "late"]})
    assert [(row["v"], row[HOLD], row[LATE_TABLE]) for row in actual if row["v"] is None] == [
        (None, 5, None),
        (None, None, "late"),
    ]
    assert sum(row["v"] == 1 for row in actual) == 2


def test_without_barriers_rows_are_only_assigned():
    assert [row["v"] for row in windows(v=[1, 2], ts=[0, SECOND])] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    "assigner", [Hop("ts", SECOND, 86_400 * SECOND), Cumulate("ts", SECOND, 86_400 * SECOND)], ids=["hop", "cumulate"]
)
def test_rows_of_very_many_windows_come_in_parts(assigner):
    sizes = [out.num_rows for out in batches(assigner, v=list(range(10)), ts=[0] * 10)]
    assert sum(sizes) == 10 * 86_400
    assert max(sizes) <= MOST_RESULTS
    assert len(sizes) == 4
