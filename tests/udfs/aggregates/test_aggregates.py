"""Counts, sums, extremes and averages; what holds for all aggregates."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError, UnsupportedError
from sqlstream.udfs.aggregates import AggregateCall, Aggregates


def computed(rows: dict[str, pa.Array], groups: list[int], count: int, *calls: AggregateCall) -> list[dict]:
    table = pa.table(rows)
    aggregates = Aggregates(calls, table.schema)
    lifted = aggregates.lift(table, np.array(groups, np.int64), count)
    assert lifted.schema == aggregates.accumulators
    results: list[dict] = aggregates.finish(lifted).to_pylist()
    return results


def call(function: str, *arguments: str, result: pa.DataType | None = None, **options) -> AggregateCall:
    return AggregateCall("r", function, arguments, result or pa.int64(), **options)


def test_nulls_are_skipped_and_empty_groups_have_no_sum():
    rows = {"x": pa.array([1, None, 3, None])}
    assert computed(rows, [0, 0, 0, 1], 3, call("sum", "x")) == [{"r": 4}, {"r": None}, {"r": None}]
    assert computed(rows, [0, 0, 0, 1], 3, call("count", "x")) == [{"r": 2}, {"r": 0}, {"r": 0}]
    assert computed(rows, [0, 0, 0, 1], 3, call("count")) == [{"r": 3}, {"r": 1}, {"r": 0}]


def test_equal_accumulators_are_kept_once():
    schema = pa.schema([("x", pa.int32()), ("y", pa.int64())])
    calls = (
        call("sum", "x"),
        AggregateCall("a", "avg", ("x",), pa.float64()),
        AggregateCall("n", "count", ("x",), pa.int64()),
    )
    assert len(Aggregates(calls, schema).accumulators) == 2


def test_sums_of_bigint_overflow_only_where_they_leave_the_range():
    largest = 2**63 - 1
    rows = {"x": pa.array([largest, -1, 1, -largest, -1])}
    assert computed(rows, [0, 0, 0, 1, 1], 2, call("sum", "x")) == [{"r": largest}, {"r": -largest - 1}]
    with pytest.raises(ExecutionError, match="SS431: SUM overflows the type BIGINT"):
        computed(rows, [0, 1, 0, 1, 1], 2, call("sum", "x"))


def test_aggregates_pickle():
    aggregates = Aggregates((call("sum", "x"),), pa.schema([("x", pa.int64())]))
    assert pickle.loads(pickle.dumps(aggregates)) == aggregates


def test_no_calls_still_have_a_row_per_group():
    table = pa.table({"x": [1, 2]})
    aggregates = Aggregates((), table.schema)
    lifted = aggregates.lift(table, np.array([0, 1]), 3)
    assert aggregates.finish(aggregates.merge(lifted, np.array([0, 1, 1]), 2)).num_rows == 2


def test_unknown_functions_are_refused_by_name():
    with pytest.raises(UnsupportedError, match='SS395: aggregate function "histogram_numeric" is not executed'):
        computed({"x": pa.array([1])}, [0], 1, call("histogram_numeric", "x"))
