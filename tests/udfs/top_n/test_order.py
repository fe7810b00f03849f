"""Columns of ORDER BY as numbers, against Python's sort."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.top_n.order import Order, in_order, numbers_of, sort_keys
from tests.udfs.top_n.model import numbered, place

NAN = float("nan")
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, -1, 2**63 - 1, -(2**63), 7],
    pa.int8(): [0, -128, 127],
    pa.float64(): [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), NAN, 5e-324, -5e-324],
    pa.float32(): [0.0, -2.5, NAN, 3.5],
    pa.string(): ["", "a", "ab", "b", "é", "Z", "\U0001f600"],
    pa.decimal128(20, 2): [Decimal("1.50"), Decimal("-3.00"), Decimal("0.00"), Decimal("123456789012345678.00")],
    pa.bool_(): [True, False],
    pa.date32(): [date(1969, 12, 31), date(2026, 1, 1)],
    pa.timestamp("us", "UTC"): [0, -5, 10],
    pa.binary(): [b"", b"\xff", b"a"],
}
COLUMNS = st.sampled_from(list(VALUES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.one_of(st.none(), st.sampled_from(VALUES[kind])), max_size=12))
)


def plain(kind: pa.DataType, value: object) -> object:
    """As Python compares it: texts by their bytes."""
    return value.encode() if kind == pa.string() and isinstance(value, str) else value


@given(column=COLUMNS, descending=st.booleans(), nulls_first=st.booleans())
def test_rows_are_in_the_order_of_values(column, descending, nulls_first):
    kind, values = column
    order = Order("x", descending, nulls_first)
    rows = pa.table({"x": pa.array(values, kind)})
    ordered = in_order(np.zeros(len(values), np.int64), sort_keys(rows, [order]))
    wanted = sorted(range(len(values)), key=lambda i: place({"x": plain(kind, values[i])}, [order]))
    assert ordered.tolist() == wanted


@pytest.mark.parametrize("function", Number)
@given(values=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=15))
def test_numbers_count_by_key(function, values):
    orders = (Order("a"), Order("b", descending=True))
    rows = pa.table({
        "k": pa.array([k for k, _, _ in values], pa.int64()),
        "a": pa.array([a for _, a, _ in values], pa.int64()),
        "b": pa.array([b for _, _, b in values], pa.bool_()),
    })  # fmt: skip
    ids, keys = rows.column("k").to_numpy(), sort_keys(rows, orders)
    order = in_order(ids, keys)
    actual = numbers_of(function, ids[order], [key[order] for key in keys])
    wanted = [
        number
        for k in range(3)
        for _, number in numbered([{"a": a, "b": b} for key, a, b in values if key == k], orders, function)
    ]
    assert actual.tolist() == wanted
