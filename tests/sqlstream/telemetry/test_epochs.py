"""What epochs took, from Spark's reports."""

from __future__ import annotations

import json

import pytest

from sqlstream.telemetry.epochs import PARTS, EpochTotals, FilesRead, native_state, parts_of, rows_waiting, with_epoch
from tests.sqlstream.telemetry.figures import report


def test_an_epoch_is_divided_into_its_parts_and_a_rest():
    parts = parts_of(report(ms=500))
    assert list(parts) == list(PARTS)
    assert parts == pytest.approx(
        {"sources": 0.025, "planning": 0.03, "execution": 0.4, "checkpoint": 0.025, "other": 0.02}
    )


def test_epochs_are_summed_and_the_last_one_is_known():
    totals = with_epoch(with_epoch(EpochTotals(), report(3, 80), {}, {}), report(4, 7000), {"t": 5}, {"u": 6})
    assert (totals.count, totals.seconds, totals.last_epoch, sum(totals.buckets)) == (2, 7.08, 4, 2)
    assert totals.buckets[0] == 1 and totals.buckets[6] == 1
    assert totals.last_end == 1_700_000_007.0
    assert totals.task_seconds == pytest.approx({(0, "update"): 0.18, (0, "expire"): 0.02, (0, "commit"): 0.08})
    assert (totals.watermarks_ms, totals.bytes_by_table) == ({"bids": 1_699_999_990_000}, {"t": 5})
    assert totals.bytes_out == {"u": 6}


def test_the_last_event_time_stays_where_an_epoch_has_no_rows():
    first = with_epoch(EpochTotals(), report(), {}, {})
    assert first.last_event_ms is not None
    assert with_epoch(first, report(1, eventTime={}), {}, {}).last_event_ms == first.last_event_ms


def test_a_file_that_is_read_in_parts_counts_once():
    files = FilesRead()
    assert files.bytes_of(report()) == {"my bids": 120}
    assert files.bytes_of(report(1)) == {"my bids": 0}
    sizes = json.dumps({"/b": 20, "/c": 1})
    assert files.bytes_of(report(2, observedMetrics={"missing/0/t": {"files": 0, "sizes": sizes}})) == {"t": 1}


@pytest.mark.parametrize(
    ("end", "latest", "rows"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ('{"next": {"t": {"0": 5}}}', '{"next": {"t": {"0": 6, "1": 2}}}', 3),
        ({"t": {"0": 5}}, None, None),
        ("12", "a text", None),
        (5, 8, 3),
        (8, 5, 0),
    ],
)
def test_rows_that_no_epoch_has_read_are_the_distance_of_offsets(end, latest, rows):
    waiting = rows_waiting({"sources": [{"endOffset": end, "latestOffset": latest}]})
    assert waiting == ({} if rows is None else {0: rows})


def test_state_of_operators_that_spark_runs_has_its_names():
    stores = [
        {"operatorName": "stateStoreSave", "numRowsTotal": 3, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 0},
        {"operatorName": "dedupe", "numRowsTotal": 5, "memoryUsedBytes": 7, "numRowsDroppedByWatermark": 0,
         "customMetrics": {"rocksdbSstFileSize": 10}},
    ]  # fmt: skip
    of_spark = report(stateOperators=stores, observedMetrics={})
    expected = {"0: stateStoreSave": (3, 100), "1: dedupe": (5, 17)}
    assert native_state(of_spark) == with_epoch(EpochTotals(), of_spark, {}, {}).native_state == expected
    assert native_state(report()) == native_state(report(stateOperators=[], observedMetrics={})) == {}
