"""Progress from the reports of micro-batches."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from sqlstream.jobs.reports.progress import Progress, advanced, progress_from_json, watermark_of
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS
from sqlstream.udfs.lookup.metrics import NAMES


def report(batch, rows, watermark="1969-01-01T00:00:00.000Z", out=1, late=0):
    return {
        "batchId": batch,
        "batchDuration": 500,
        "stateOperators": [{"numRowsDroppedByWatermark": late}, {"numRowsDroppedByWatermark": 1}],
        "eventTime": {"watermark": watermark},
        "observedMetrics": {
            "sqlstream": {"rows_out": out} if batch else {"values": [out]},
            "source/0/t": {"rows": rows},
        },
    }


def test_totals_count_each_batch_once():
    first = advanced(Progress(), [report(1, 20, late=2), report(0, 10)])
    assert first == advanced(first, [report(0, 10), report(1, 20)])
    assert (first.rows_in, first.rows_out, first.late_rows, first.batches, first.last_batch) == (30, 2, 4, 2, 1)
    assert first.rows_per_second == 30.0
    assert advanced(first, [report(2, 5)]).rows_in == 35


def test_time_and_state_are_those_of_the_last_batch():
    operator = {"numRowsTotal": 7, "memoryUsedBytes": 100, "customMetrics": {"rocksdbSstFileSize": 20}}
    state = {"stateOperators": [{**operator, "numRowsDroppedByWatermark": 0}] * 2}
    progress = advanced(Progress(), [report(0, 1), {**report(1, 1), **state}])
    assert (progress.batch_ms, progress.state_rows, progress.state_bytes) == (500, 14, 240)
    assert advanced(progress, [report(2, 1)]).state_rows == 0


def test_the_partition_that_holds_the_watermark_is_that_of_the_last_batch():
    ends = [{"endOffset": json.dumps({"next": {}, "holder": ["t", 3]})}, {"endOffset": "7"}, {"endOffset": None}]
    progress = advanced(Progress(), [{**report(0, 1), "sources": ends}])
    assert progress.held_by == ("t[3]",)
    assert progress_from_json(json.loads(json.dumps(asdict(progress)))) == progress
    assert advanced(progress, [report(1, 1)]).held_by == ()


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
    ended = advanced(Progress(), [report(0, 1, "11968-12-30T23:59:59.999Z")])
    assert ended.input_ended
    assert advanced(ended, [{**report(1, 1), "eventTime": {}}]).watermark_ms == END_OF_INPUT_MS


def test_kernels_count_late_rows_by_operator():
    metrics = {"sqlstream": {"rows_out": 1}, "operator/0": kernel(2), "operator/1": kernel(None)}
    first = advanced(Progress(), [{**report(0, 9), "observedMetrics": metrics, "stateOperators": []}])
    assert (first.late_rows, first.late_by_operator) == (2, {0: 2, 1: 0})
    through_connect = {"operator/1": {"values": [3, None, 8, 2]}}
    then = advanced(first, [{**report(1, 9), "observedMetrics": through_connect, "stateOperators": []}])
    assert (then.late_rows, then.late_by_operator) == (5, {0: 2, 1: 3})


def store(entries, size):
    return {"numRowsTotal": entries, "memoryUsedBytes": size, "customMetrics": {}, "numRowsDroppedByWatermark": 0}


def test_kernels_count_rows_and_spark_the_state_of_each_chain():
    """Operator 2 is the lowest of a chain, whose top is operator 1."""
    metrics = {"operator/2": kernel(0, taken=90, given=9), "operator/1/2": kernel(0, taken=9, given=3)}
    metrics["operator/0"] = kernel(0, taken=3)
    reports = [
        {**report(number, 9), "observedMetrics": metrics, "stateOperators": [store(4, 40), store(700 + number, 8)]}
        for number in range(2)
    ]
    progress = advanced(Progress(), reports)
    assert progress.taken_by_operator == {0: 6, 1: 18, 2: 180}
    assert progress.given_by_operator == {0: 0, 1: 6, 2: 18}
    assert progress.state_by_operator == {0: (4, 40), 2: (701, 8)}
    other = {**reports[0], "batchId": 2, "stateOperators": [store(1, 1)]}
    assert advanced(progress, [other]).state_by_operator == progress.state_by_operator, "Spark tells of other operators"


def test_lookups_add_up_but_for_the_most_in_flight():
    none = dict.fromkeys(NAMES)
    first = {"lookup/0": {**none, "requests": 2, "max_in_flight": 7}, "lookup/1": {**none, "requests": 1}}
    through_connect = {"lookup/0": {"values": [*({**none, "requests": 3, "max_in_flight": 5}).values()]}}
    reports = [
        {**report(number, 9), "observedMetrics": metrics} for number, metrics in enumerate((first, through_connect))
    ]
    lookups = advanced(Progress(), reports).lookups
    assert {number: (totals.requests, totals.max_in_flight) for number, totals in lookups.items()} == {
        0: (5, 7),
        1: (1, 0),
    }
    assert (lookups[0].errors, lookups[0].latencies, lookups[0].hit_rate) == (0, {}, None)


def kernel(late_rows, pending=None, taken=None, given=None):
    return {"late_rows": late_rows, "pending": pending, "rows_taken": taken, "rows_given": given}


def test_rows_that_wait_for_lookups_are_those_after_the_last_batch():
    def after(progress, batch, **metrics):
        collected = {name.replace("_", "/"): values for name, values in metrics.items()}
        return advanced(progress, [{**report(batch, 9), "observedMetrics": collected, "stateOperators": []}])

    first = after(Progress(), 0, operator_0=kernel(0, 2))
    assert (Progress().pending, first.pending) == (None, 2)
    then = after(first, 1, operator_0={"values": [0, 1, 1, 1]}, operator_1=kernel(0, 2))
    assert then.pending == 3
    assert after(then, 2).pending == 3, "a report without a micro-batch"
    assert after(then, 2, operator_0=kernel(None), operator_1=kernel(None)).pending == 0
