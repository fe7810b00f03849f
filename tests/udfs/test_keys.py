"""Keys are numbered by first appearance and equal as in SQL's GROUP BY."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.keys import dense_ids, differ

_NAN = float("nan")
_OTHER_NAN = float(np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0])

COLUMNS = [
    (pa.int64(), [5, 3, None, 5, 0, None], [0, 1, 2, 0, 3, 2]),
    (pa.int8(), [5, -3, None, 5], [0, 1, 2, 0]),
    (pa.bool_(), [True, None, False, True], [0, 1, 2, 0]),
    (pa.string(), ["b", "", None, "b", "a"], [0, 1, 2, 0, 3]),
    (pa.large_string(), ["b", None, "b"], [0, 1, 0]),
    (pa.string_view(), ["b", None, "b"], [0, 1, 0]),
    (pa.binary(), [b"b", b"", None, b"b"], [0, 1, 2, 0]),
    (pa.binary_view(), [b"b", b"", None, b"b"], [0, 1, 2, 0]),
    (pa.binary(2), [b"bb", b"ab", None, b"bb"], [0, 1, 2, 0]),
    (pa.float64(), [_NAN, 0.0, -0.0, _OTHER_NAN, None, -_NAN, 1.5], [0, 1, 1, 0, 2, 0, 3]),
    (pa.float32(), [_NAN, -0.0, 0.0, _NAN, None], [0, 1, 1, 0, 2]),
    (pa.decimal128(10, 2), [decimal.Decimal("1.10"), None, decimal.Decimal("1.1"), decimal.Decimal(2)], [0, 1, 0, 2]),
    (pa.date32(), [dt.date(2020, 1, 1), None, dt.date(2020, 1, 1)], [0, 1, 0]),
    (pa.timestamp("us", "UTC"), [7, None, 7, 8], [0, 1, 0, 2]),
    (pa.timestamp("us"), [7, None, 7, 8], [0, 1, 0, 2]),
    (pa.duration("us"), [7, None, 7, 8], [0, 1, 0, 2]),
    (pa.null(), [None, None], [0, 0]),
    (pa.dictionary(pa.int32(), pa.string()), ["b", None, "b", "a"], [0, 1, 0, 2]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, None, {"a": None, "b": None}], [0, 1, 2]),
    (pa.struct([("a", pa.float64())]), [{"a": _NAN}, {"a": 1.0}, {"a": _NAN}], [0, 1, 0]),
    (pa.list_(pa.int64()), [[1, 2], [], None, [1, 2], [2, 1], [None], [1], [], None], [0, 1, 2, 0, 3, 4, 5, 1, 2]),
    (pa.list_(pa.list_(pa.string())), [[["a"], []], [["a"]], [["a"], []]], [0, 1, 0]),
    (pa.list_(pa.int64(), 2), [[1, 2], None, [1, 2], [2, 2]], [0, 1, 0, 2]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("a", 2)], [("a", 1)], None], [0, 1, 0, 2]),
]


@pytest.mark.parametrize(
    ("kind", "values", "expected"), COLUMNS, ids=lambda v: str(v) if isinstance(v, pa.DataType) else ""
)
def test_equal_values_of_each_type_have_one_number(kind, values, expected):
    column = pa.array(values, kind)
    assert dense_ids(pa.table({"k": column}), ["k"]).ids.tolist() == expected
    sliced = pa.chunked_array([pa.concat_arrays([column, column]).slice(1, 2), column, column.slice(0, 0)])
    ids = dense_ids(pa.table({"k": sliced}), ["k"]).ids
    again = dense_ids(pa.table({"k": pa.array(sliced.to_pylist(), kind)}), ["k"]).ids
    assert ids.tolist() == again.tolist()


@pytest.mark.parametrize("kind", [kind for kind, _, _ in COLUMNS], ids=str)
def test_no_rows_have_no_numbers(kind):
    ids = dense_ids(pa.table({"k": pa.array([], kind)}), ["k", "k"])
    assert ids.ids.tolist() == ids.first.tolist() == []


def test_without_columns_all_rows_are_one_key():
    assert dense_ids(pa.table({"k": [1, 2]}), []).ids.tolist() == [0, 0]
    assert dense_ids(pa.table({"k": [1, 2]}), []).first.tolist() == [0]


_ROW = st.tuples(st.sampled_from([None, 1, 2, 3]), st.sampled_from([None, "", "a", "b"]), st.booleans())


@given(st.lists(_ROW))
def test_several_columns_are_numbered_by_first_appearance(rows):
    table = pa.Table.from_pylist(
        [{"a": a, "b": b, "c": c} for a, b, c in rows],
        pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.bool_())]),
    )
    ids = dense_ids(table, ["a", "b", "c"])
    numbers: dict = {}
    assert ids.ids.tolist() == [numbers.setdefault(row, len(numbers)) for row in rows]
    assert ids.first.tolist() == [rows.index(row) for row in numbers]
    assert ids.ids.dtype == ids.first.dtype == np.int64


_NUMBERS = st.lists(
    st.tuples(
        st.one_of(st.integers(-2, 2), st.sampled_from([-(2**63), 2**63 - 1, 2**62])),
        st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 1]),
        st.integers(-128, 127),
    ),
    max_size=12,
)


@given(_NUMBERS)
def test_columns_of_whole_numbers_are_numbered_by_first_appearance_whatever_their_range(rows):
    names, kinds = ["a", "b", "c"], (pa.int64(), pa.int32(), pa.int8())
    columns = zip(*rows, strict=True) if rows else [(), (), ()]
    table = pa.table([pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)], names)
    ids = dense_ids(table, names)
    numbers: dict = {}
    assert ids.ids.tolist() == [numbers.setdefault(row, len(numbers)) for row in rows]
    assert ids.first.tolist() == [rows.index(row) for row in numbers]


@pytest.mark.parametrize("distinct", (7, 50_000, 10**12, 2**62))
@pytest.mark.parametrize("low", (0, -(2**61), 5))
def test_many_integers_are_numbered_by_first_appearance_however_many_differ(distinct, low):
    values = np.random.default_rng(distinct).integers(low, low + distinct, 40_000)
    expected = pa.array(values).dictionary_encode().indices.to_numpy()
    ids = dense_ids(pa.table({"a": values}), ["a"])
    assert (ids.ids == expected).all()
    assert (values[ids.first] == pa.array(values).unique().to_numpy()).all()


@pytest.mark.parametrize(
    ("kind", "values", "numbers"), COLUMNS, ids=lambda v: str(v) if isinstance(v, pa.DataType) else ""
)
def test_rows_differ_where_their_values_have_different_numbers(kind, values, numbers):
    pairs = [(i, j) for i in range(len(values)) for j in range(len(values))]
    left, right = (pa.table({"k": pa.array([values[pair[side]] for pair in pairs], kind)}) for side in (0, 1))
    assert differ(left, right).tolist() == [numbers[i] != numbers[j] for i, j in pairs]
    without_nulls = [(i, j) for i, j in pairs if values[i] is not None and values[j] is not None]
    left, right = (pa.table({"k": pa.array([values[pair[side]] for pair in without_nulls], kind)}) for side in (0, 1))
    assert differ(left, right).tolist() == [numbers[i] != numbers[j] for i, j in without_nulls]
