"""What conditions compute of several rows, as Spark does."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from sqlstream.types import BIGINT, DOUBLE, DataType
from sqlstream.udfs.expressions.evaluation import value
from sqlstream.udfs.expressions.tree import (
    Absolute,
    And,
    Arithmetic,
    Chosen,
    Coalesced,
    Column,
    Compared,
    Comparison,
    Computed,
    Constant,
    Converted,
    Expression,
    Formatted,
    Hour,
    IsNull,
    Negated,
    Not,
    OneOf,
    Or,
)

A, B, T = Column("a"), Column("b"), Column("t")
COLUMNS = {
    A: pa.array([7, -7, 7, None]),
    B: pa.array([2, 2, 0, 1]),
    T: pa.array([True, False, None, True]),
}


def test_times_are_shown_by_the_clock_of_a_zone() -> None:
    days = [-10_000_000, -719_600, -100, 19_800, 20_000_000]
    times = pa.array([*(day * 86_400_000_000 + 59_999_999 for day in days), None], pa.timestamp("us", "UTC"))
    shown = [value(Formatted(A, form, "Asia/Kolkata"), {A: times}).to_pylist() for form in ("%Y", "%d.%m. %H:%M:%S")]
    assert shown[0] == ["-25410", "-0001", "1969", "2024", "+56728", None]
    assert shown[1][3:] == ["18.03. 05:30:59", "22.02. 05:30:59", None]
    assert value(Formatted(A, "-", "UTC"), {A: times}).to_pylist() == [*5 * ["-"], None]
    assert value(Hour(A, "Asia/Kolkata"), {A: times}).to_pylist()[2:] == [5, 5, 5, None]


def computed(operator: Arithmetic, kind: DataType) -> Expression:
    return Computed(operator, Converted(A, kind), Converted(B, kind), kind)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        (computed(Arithmetic.PLUS, BIGINT), [9, -5, 7, None]),
        (computed(Arithmetic.MINUS, BIGINT), [5, -9, 7, None]),
        (computed(Arithmetic.TIMES, BIGINT), [14, -14, 0, None]),
        (computed(Arithmetic.DIVIDED, DOUBLE), [3.5, -3.5, None, None]),
        (computed(Arithmetic.MODULO, BIGINT), [1, -1, None, None]),
        (computed(Arithmetic.MODULO, DOUBLE), [1.0, -1.0, None, None]),
        (Absolute(A), [7, 7, 7, None]),
        (Negated(A), [-7, 7, -7, None]),
        (Coalesced((A, B)), [7, -7, 7, 1]),
        (IsNull(A), [False, False, False, True]),
        (Compared(Comparison.LESS, A, B), [False, True, False, None]),
        (Compared(Comparison.NOT_DISTINCT, A, A), [True, True, True, True]),
        (And((T, Compared(Comparison.LESS, B, A))), [True, False, None, None]),
        (Or((T, Compared(Comparison.LESS, B, A))), [True, False, True, True]),
        (Not(T), [False, True, None, False]),
        (Compared(Comparison.GREATER, A, Constant(0, BIGINT)), [True, False, True, None]),
        (OneOf(A, (7, 8), BIGINT), [True, False, True, False]),
        (Chosen((T, IsNull(A)), (A, B, Negated(B))), [7, -2, 0, None]),
    ],
)
def test_values(expression, values):
    assert value(expression, COLUMNS).to_pylist() == values


def test_decimals_have_the_digits_of_spark():
    columns = {A: pa.array([Decimal("1.25")]), B: pa.array([Decimal("2.5")])}
    product = Computed(Arithmetic.TIMES, A, B, DataType("DECIMAL", (6, 3)))
    assert value(product, columns).to_pylist() == [Decimal("3.125")]
