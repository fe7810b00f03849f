"""Values of case files equal values of jobs where they mean the same."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from sqlstream.testing.case_format import difference, same_value, spelled

SAME = [
    (None, None),
    (1, 1),
    ("1.10", Decimal("1.1")),
    (2, Decimal("2.00")),
    (4, 4.0),
    (0.1, 0.1 + 1e-12),
    ("NaN", float("nan")),
    (999, datetime(1970, 1, 1, 0, 0, 0, 999000)),
    (-2000, datetime(1969, 12, 31, 23, 59, 58)),
    ("2024-01-01", date(2024, 1, 1)),
    ([1, None], [1, None]),
    (["a", 1], {"name": "a", "count": 1}),
    ({"name": "a"}, {"name": "a"}),
    ("00ff", b"\x00\xff"),
]
DIFFERENT = [
    (None, 0),
    (0, None),
    (1, True),
    ("1", "2"),
    ("a", 1),
    (1, "1"),
    (0.1, 0.11),
    (999, datetime(1970, 1, 1)),
    ([1], [1, 2]),
    ({"a": 1}, {"b": 1}),
]


@pytest.mark.parametrize(("expected", "got"), SAME)
def test_same_values_are_recognised(expected, got):
    assert same_value(expected, got)


@pytest.mark.parametrize(("expected", "got"), DIFFERENT)
def test_different_values_are_told_apart(expected, got):
    assert not same_value(expected, got)


def test_order_matters_only_where_asked():
    assert difference([[1], [2]], [(2,), (1,)], ordered=False) is None
    assert difference([[1], [2]], [(2,), (1,)], ordered=True) == "row 0: expected [1], got [2]"


def test_multisets_count_equal_rows():
    assert difference([[1], [1]], [(1,)], ordered=False) == "expected [1], got no such row"
    assert difference([[1]], [(1,), (1,), (2,)], ordered=False) == "expected no such row, got [1], and 1 more"


def test_lengths_are_compared_in_order_too():
    assert difference([[1], [2]], [(1,)], ordered=True) == "row 1: expected [2], got no more rows"
    assert difference([[1]], [(1,), (2,)], ordered=True) == "row 1: expected no more rows, got [2]"


def test_rows_are_spelled_as_case_files_write_them():
    row = ("+I", datetime(1970, 1, 1, 0, 0, 1), Decimal("1.10"), [None], {"a": True})
    assert spelled(row) == '["+I", 1000, "1.10", [null], {"a": true}]'
