"""Accumulators of ranges from running totals, against merging the rows of each range."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from tests.udfs.aggregates.test_against_model import ROW, SCHEMA, result_type, table

RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted), max_size=8)


def of(*cases: tuple[str, str]) -> Aggregates:
    calls = (AggregateCall(f"{name} {column}", name, (column,), result_type(name, column)) for name, column in cases)
    return Aggregates(tuple(calls), SCHEMA)


def both(aggregates: Aggregates, rows: pa.Table, ranges: list[list[int]]) -> tuple[pa.Table | None, pa.Table]:
    """From running totals, and merged."""
    parts = aggregates.lift(rows, np.arange(rows.num_rows), rows.num_rows)
    actual = np.array(ranges, np.int64).reshape(-1, 2)
    start, stop = np.minimum(actual, rows.num_rows).T
    places = np.concatenate([np.zeros(0, np.int64), *map(np.arange, start, stop)])
    owner = np.repeat(np.arange(len(start)), stop - start)
    return aggregates.of_ranges(parts, start, stop), aggregates.merge(parts.take(pa.array(places)), owner, len(start))


@settings(max_examples=100)
@given(rows=st.lists(ROW, max_size=12), ranges=RANGES)
def test_running_totals_give_what_merging_gives(rows, ranges):
    aggregates = of(("count", "l"), ("sum", "i"), ("avg", "i"), ("sum", "d"), ("avg", "d"))
    actual, merged = both(aggregates, table(rows), ranges)
    assert actual is not None
    assert actual.equals(merged)


@settings(max_examples=100)
@given(rows=st.lists(ROW, max_size=12), ranges=RANGES)
def test_large_numbers_are_left_to_merging_or_give_the_same(rows, ranges):
    for case in (("sum", "l"), ("sum", "w")):
        actual, merged = both(of(case), table(rows), ranges)
        assert actual is None or actual.equals(merged)


def test_running_totals_may_wrap_around():
    rows = pa.table({"l": [2**62, 2**62 - 1, -5, 7, 2**62, 2**62 - 1]})
    rows = pa.table(
        [rows.column(name) if name == "l" else pa.nulls(6, SCHEMA.field(name).type) for name in SCHEMA.names], SCHEMA
    )
    actual, _ = both(of(("sum", "l")), rows, [[2, 3], [5, 6]])
    assert actual is not None
    assert actual.column(0).to_pylist() == [-5, 2**62 - 1]


def test_a_sum_that_leaves_its_range_is_left_to_merging():
    lists = {name: pa.nulls(2, SCHEMA.field(name).type) for name in SCHEMA.names} | {"l": pa.array([2**63 - 1, 1])}
    aggregates = of(("sum", "l"))
    parts = aggregates.lift(pa.table(lists, SCHEMA), np.arange(2), 2)
    assert aggregates.of_ranges(parts, np.array([0]), np.array([2])) is None


@pytest.mark.parametrize(("function", "column"), [("sum", "f"), ("avg", "f"), ("max", "i"), ("last", "s")])
def test_what_running_totals_cannot_tell_is_left_to_merging(function, column):
    rows = table([dict.fromkeys(SCHEMA.names)])
    assert both(of(("count", "i"), (function, column)), rows, [[0, 1]])[0] is None
