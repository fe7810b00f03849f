"""Progress from the reports of micro-batches."""

from __future__ import annotations

import pytest

from sqlstream.jobs.progress import Progress, advanced, watermark_of
from sqlstream.planner.lowering.columns import END_OF_INPUT_MS

CONTROL = "/checkpoint/control"


def report(batch, rows, watermark="1969-01-01T00:00:00.000Z", out=1, late=0):
    return {
        "batchId": batch,
        "batchDuration": 500,
        "sources": [
            {"description": "FileStreamSource[file:/data]", "numInputRows": rows},
            {"description": f"FileStreamSource[file:{CONTROL}/t]", "numInputRows": 1},
        ],
        "stateOperators": [{"numRowsDroppedByWatermark": late}, {"numRowsDroppedByWatermark": 1}],
        "eventTime": {"watermark": watermark},
        "observedMetrics": {"sqlstream": {"rows_out": out} if batch else {"values": [out]}},
    }


def test_totals_count_each_batch_once_and_no_control_rows():
    first = advanced(Progress(), [report(1, 20, late=2), report(0, 10)], CONTROL)
    assert first == advanced(first, [report(0, 10), report(1, 20)], CONTROL)
    assert (first.rows_in, first.rows_out, first.late_rows, first.batches, first.last_batch) == (30, 2, 4, 2, 1)
    assert first.rows_per_second == 30.0
    assert advanced(first, [report(2, 5)], CONTROL).rows_in == 35


@pytest.mark.parametrize(
    ("text", "watermark"),
    [
        (None, None),
        ("1970-01-01T00:00:00.000Z", None),
        ("1970-01-01T00:00:00.001Z", -62_135_596_799_999),
        ("3939-01-01T00:00:00.999Z", 999),
        ("3938-12-31T23:59:59.500Z", -500),
        ("+11968-12-30T23:59:59.999Z", END_OF_INPUT_MS),
    ],
)
def test_watermarks_are_told_without_the_shift(text, watermark):
    assert watermark_of(text) == watermark


def test_the_end_of_input_is_a_watermark_and_the_last_known_one_stays():
    ended = advanced(Progress(), [report(0, 1, "11968-12-30T23:59:59.999Z")], CONTROL)
    assert ended.input_ended
    assert advanced(ended, [{**report(1, 1), "eventTime": {}}], CONTROL).watermark_ms == END_OF_INPUT_MS


def test_kernels_count_late_rows_by_operator():
    metrics = {"sqlstream": {"rows_out": 1}, "operator/0": {"late_rows": 2}, "operator/1": {"late_rows": None}}
    first = advanced(Progress(), [{**report(0, 9), "observedMetrics": metrics, "stateOperators": []}], CONTROL)
    assert (first.late_rows, first.late_by_operator) == (2, {0: 2, 1: 0})
    through_connect = {"operator/1": {"values": [3]}}
    then = advanced(first, [{**report(1, 9), "observedMetrics": through_connect, "stateOperators": []}], CONTROL)
    assert (then.late_rows, then.late_by_operator) == (5, {0: 2, 1: 3})
