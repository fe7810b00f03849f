"""Values of rows in tests."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from sqlstream.testing.values import to_arrow
from sqlstream.types import parse_type


def test_decimals_have_all_38_digits():
    kind = parse_type("DECIMAL(38, 10)")
    text = "1234567890123456789012345678.0123456789"
    assert to_arrow(text, kind) == Decimal(text)
    assert pa.array([to_arrow(Decimal(text), kind)], kind.to_arrow()).to_pylist() == [Decimal(text)]


@pytest.mark.parametrize("value", ["12345678901234567890123456789", "abc", 10**40, "NaN", float("inf")])
def test_a_decimal_that_does_not_fit_is_refused(value):
    with pytest.raises(TypeError, match=r"is not a value of type DECIMAL\(38,\s?10\)"):
        to_arrow(value, parse_type("DECIMAL(38, 10)"))


def test_times_have_no_first_and_last_year():
    kind = parse_type("TIMESTAMP")
    assert to_arrow(10**15, kind) == 10**18
    assert to_arrow(-(10**14), kind) == -(10**17)
    assert to_arrow("2024-01-01 00:00:00.000001", kind) == 1_704_067_200_000_001
    assert pa.array([to_arrow(10**15, kind)], kind.to_arrow()).cast(pa.int64()).to_pylist() == [10**18]
