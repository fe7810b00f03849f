"""What conditions compute of several rows, as Spark does."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from sqlstream.udfs.joins.condition import Comparison
from sqlstream.udfs.match.expressions import (
    Absolute,
    And,
    Arithmetic,
    Chosen,
    Coalesced,
    Compared,
    Computed,
    Converted,
    Expression,
    IsNull,
    Negated,
    Not,
    Operand,
    Or,
)

A, B, T = Operand("a"), Operand("b"), Operand("t")
COLUMNS = {
    "a": pa.array([7, -7, 7, None]),
    "b": pa.array([2, 2, 0, 1]),
    "t": pa.array([True, False, None, True]),
}


def computed(operator: Arithmetic, kind: pa.DataType) -> Expression:
    return Computed(operator, Converted(A, kind), Converted(B, kind), kind)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        (computed(Arithmetic.PLUS, pa.int64()), [9, -5, 7, None]),
        (computed(Arithmetic.MINUS, pa.int64()), [5, -9, 7, None]),
        (computed(Arithmetic.TIMES, pa.int64()), [14, -14, 0, None]),
        (computed(Arithmetic.DIVIDED, pa.float64()), [3.5, -3.5, None, None]),
        (computed(Arithmetic.MODULO, pa.int64()), [1, -1, None, None]),
        (computed(Arithmetic.MODULO, pa.float64()), [1.0, -1.0, None, None]),
        (Absolute(A), [7, 7, 7, None]),
        (Negated(A), [-7, 7, -7, None]),
        (Coalesced((A, B)), [7, -7, 7, 1]),
        (IsNull(A), [False, False, False, True]),
        (Compared(Comparison.LESS, A, B), [False, True, False, None]),
        (Compared(Comparison.NOT_DISTINCT, A, A), [True, True, True, True]),
        (And((T, Compared(Comparison.LESS, B, A))), [True, False, None, None]),
        (Or((T, Compared(Comparison.LESS, B, A))), [True, False, True, True]),
        (Not(T), [False, True, None, False]),
        (Chosen((T, IsNull(A)), (A, B, Negated(B))), [7, -2, 0, None]),
    ],
)
def test_values(expression, values):
    assert expression.value(COLUMNS).to_pylist() == values


def test_decimals_have_the_digits_of_spark():
    columns = {"a": pa.array([Decimal("1.25")]), "b": pa.array([Decimal("2.5")])}
    product = Computed(Arithmetic.TIMES, A, B, pa.decimal128(6, 3))
    assert product.value(columns).to_pylist() == [Decimal("3.125")]
