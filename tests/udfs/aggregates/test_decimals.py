"""Sums and averages of decimals at the limits of their types."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.udfs.aggregates import AggregateCall, Aggregates

# Written out: the operators of Python's decimals round to 28 digits.
LARGEST, LEAST = Decimal("9" * 38), Decimal("-" + "9" * 38)


def computed(
    function: str, kind: pa.DataType, result: pa.DataType, values: Sequence[Decimal | None], groups: list[int]
) -> list[Decimal | None]:
    table = pa.table({"x": pa.array(values, kind)})
    aggregates = Aggregates((AggregateCall("r", function, ("x",), result),), table.schema)
    lifted = aggregates.lift(table, np.array(groups), max(groups) + 1)
    rows: list[Decimal | None] = aggregates.finish(lifted).column("r").to_pylist()
    return rows


def test_sums_reach_the_largest_decimal_and_not_beyond():
    kind = pa.decimal128(38, 0)
    values = [Decimal("9" * 37 + "8"), Decimal(1), LEAST, Decimal(0)]
    assert computed("sum", kind, kind, values, [0, 0, 1, 1]) == [LARGEST, LEAST]
    with pytest.raises(ExecutionError, match=r"SS431: SUM overflows the type DECIMAL\(38, 0\)"):
        computed("sum", kind, kind, [LARGEST, Decimal(1)], [0, 0])
    with pytest.raises(ExecutionError, match=r"SS431: SUM overflows the type DECIMAL\(38, 0\)"):
        computed("sum", kind, kind, [LEAST] * 5, [0] * 5)


def test_what_overflows_on_the_way_is_in_range_where_the_group_is_summed_at_once():
    kind = pa.decimal128(38, 0)
    assert computed("sum", kind, kind, [LARGEST, LARGEST, LEAST], [0, 0, 0]) == [LARGEST]


def test_averages_round_half_up_away_from_zero():
    kind, result = pa.decimal128(5, 0), pa.decimal128(9, 4)
    values = [Decimal(v) for v in (1, 0, 0, -1, 0, 0, 2, 0, 0, -2, 0, 0)]
    actual = computed("avg", kind, result, values, np.repeat(np.arange(4), 3).tolist())
    assert actual == [Decimal("0.3333"), Decimal("-0.3333"), Decimal("0.6667"), Decimal("-0.6667")]
    half = [Decimal(v) for v in [1] + [0] * 31]
    assert computed("avg", kind, result, half, [0] * 32) == [Decimal("0.0313")]
    assert computed("avg", kind, result, [-v for v in half], [0] * 32) == [Decimal("-0.0313")]


def test_averages_that_do_not_fit_their_scale_overflow():
    kind = pa.decimal128(38, 4)
    with pytest.raises(ExecutionError, match=r"SS431: AVG overflows the type DECIMAL\(38, 8\)"):
        computed("avg", kind, pa.decimal128(38, 8), [Decimal("9" * 34)], [0])


def test_slices_of_columns_and_small_and_large_numbers_mix():
    kind = pa.decimal128(30, 2)
    table = pa.table({"x": pa.array([Decimal(1), Decimal("-0.01"), None, Decimal("9" * 28), Decimal(-5)], kind)})
    aggregates = Aggregates((AggregateCall("r", "sum", ("x",), pa.decimal128(38, 2)),), table.schema)
    lifted = aggregates.lift(table.slice(1), np.array([0, 1, 2, 2]), 3)
    expected = [Decimal("-0.01"), None, Decimal("9" * 28) - 5]
    assert aggregates.finish(lifted).column("r").to_pylist() == expected
