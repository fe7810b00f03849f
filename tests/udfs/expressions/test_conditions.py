"""Conditions on pairs: three-valued logic, and values compared as Spark compares them."""

from __future__ import annotations

import operator
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.udfs.expressions.evaluation import value
from sqlstream.udfs.expressions.tree import And, Column, Compared, Comparison, IsNull, Not, Or
from sqlstream.udfs.joins.pairs import Pairs, equal, fulfilling

L, R = Column("x", 0), Column("x", 1)
NAN = float("nan")

PLAIN = {
    Comparison.EQUAL: operator.eq,
    Comparison.NOT_EQUAL: operator.ne,
    Comparison.LESS: operator.lt,
    Comparison.LESS_OR_EQUAL: operator.le,
    Comparison.GREATER: operator.gt,
    Comparison.GREATER_OR_EQUAL: operator.ge,
}

VALUES = {
    "long": pa.array([1, -1, None, 2]),
    "double": pa.array([0.0, -0.0, NAN, None, float("inf"), float("-inf"), 1.5]),
    "float": pa.array([0.0, NAN, None, 1.5], pa.float32()),
    "string": pa.array(["a", "B", "\U0001f600", "\uffff", "", None, "ab"]),
    "binary": pa.array([b"\xff", b"\x00", b"", None]),
    "boolean": pa.array([True, False, None]),
    "decimal": pa.array([Decimal("1.50"), Decimal("-2.00"), None]),
    "date": pa.array([date(2024, 1, 1), date(1969, 1, 1), None]),
}


def rank(value):
    """What Spark orders values by."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


def of(condition, left, right=None):
    """The values of a condition for all pairs of values."""
    right = left if right is None else right
    rows, others = np.repeat(np.arange(len(left)), len(right)), np.tile(np.arange(len(right)), len(left))
    return value(condition, {L: left.take(pa.array(rows)), R: right.take(pa.array(others))}).to_pylist()


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("comparison", PLAIN, ids=lambda c: c.name)
def test_comparisons_are_sparks(comparison, values):
    wanted = [
        None if one is None or other is None else PLAIN[comparison](rank(one), rank(other))
        for one in values.to_pylist()
        for other in values.to_pylist()
    ]
    assert of(Compared(comparison, L, R), values) == wanted


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_null_is_not_distinct_from_null(values):
    ranks = [None if value is None else rank(value) for value in values.to_pylist()]
    assert of(Compared(Comparison.NOT_DISTINCT, L, R), values) == [one == other for one in ranks for other in ranks]


def test_logic_has_three_values():
    values = pa.array([True, False, None])
    assert of(And((L, R)), values) == [True, False, None, False, False, False, None, False, None]
    assert of(Or((L, R)), values) == [True, True, True, True, False, None, True, None, None]
    assert of(Not(R), pa.array([True]), values) == [False, True, None]
    assert of(IsNull(R), pa.array([True]), values) == [False, False, True]


def test_pairs_are_kept_where_the_condition_is_true():
    left, right = pa.table({"x": [1, 2, None]}), pa.table({"x": [2, 3, None]})
    ids = np.zeros(3, np.int64)
    (only,) = fulfilling(equal(ids, ids), Compared(Comparison.LESS, L, R), left, right)
    assert [part.tolist() for part in only] == [[0, 0, 1], [0, 1, 1]]
    none = fulfilling(equal(ids, ids), Compared(Comparison.GREATER, L, R), left, right)
    assert list(none) == []
    (every,) = fulfilling(iter([Pairs(ids, ids)]), None, left, right)
    assert len(every.left) == 3
