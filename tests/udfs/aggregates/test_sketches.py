"""APPROX_COUNT_DISTINCT over hashes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.udfs.aggregates import AggregateCall, Aggregates

SCHEMA = pa.schema([("h", pa.int64())])


def sketch(error: float = 0.05) -> Aggregates:
    return Aggregates((AggregateCall("r", "approx_count_distinct", ("h",), pa.int64(), constants=(error,)),), SCHEMA)


def hashes(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, count)


@pytest.mark.parametrize("count", [10, 100, 1_000, 10_000, 1_000_000])
@pytest.mark.parametrize("error", [0.05, 0.01])
def test_estimates_stay_within_four_standard_errors(count, error):
    aggregates = sketch(error)
    lifted = aggregates.lift(pa.table({"h": hashes(count)}), np.zeros(count, np.int64), 1)
    actual = aggregates.finish(lifted).column("r")[0].as_py()
    assert abs(actual - count) <= 4 * error * count


def test_merged_sketches_are_the_sketch_of_all():
    aggregates, values = sketch(), hashes(5_000)
    groups = np.arange(5_000) % 3
    whole = aggregates.lift(pa.table({"h": values}), groups, 3)
    parts = [
        aggregates.lift(pa.table({"h": values[i : i + 700]}), groups[i : i + 700], 3) for i in range(0, 5_000, 700)
    ]
    assert aggregates.merge(pa.concat_tables(parts), np.tile(np.arange(3), len(parts)), 3) == whole


def test_hashes_count_once_and_nulls_not_at_all():
    aggregates = sketch()
    table = pa.table({"h": pa.array([1 << 60, 1 << 60, None, 7])})
    lifted = aggregates.lift(table, np.array([0, 0, 1, 1]), 3)
    assert aggregates.finish(lifted).column("r").to_pylist() == [1, 1, 0]
    assert lifted.column(0).combine_chunks().value_lengths().to_pylist() == [1, 1, 0]
