"""Common types of several values, as Spark's ANSI coercion finds them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from sqlstream.types import DOUBLE, TIMESTAMP, UNKNOWN, DataType

_INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}


def common_type(types: Iterable[DataType]) -> DataType:
    """The type that UNION, CASE and COALESCE give values of these types; UNKNOWN where only Spark can tell."""
    kinds = list(types)
    return reduce(wider, kinds) if kinds else UNKNOWN


def wider(left: DataType, right: DataType) -> DataType:
    """The narrowest type that both convert to without an explicit cast."""
    if left == right:
        return left
    if left.name == "VOID":
        return right
    if right.name == "VOID":
        return left
    if left.is_numeric and right.is_numeric:
        return _wider_number(left, right)
    if {left.name, right.name} == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    return UNKNOWN


def incompatible(left: DataType, right: DataType) -> bool:
    """True where it is certain that no common type exists without a cast that could fail."""
    if left.is_unknown or right.is_unknown or "VOID" in (left.name, right.name) or left.name == right.name:
        return False
    return _family(left) != _family(right)


def as_decimal(kind: DataType) -> DataType | None:
    """The decimal that holds all values of an integer type; decimals stay."""
    if kind.name == "DECIMAL":
        return kind
    return DataType("DECIMAL", (_DIGITS[kind.name], 0)) if kind.name in _DIGITS else None


def precision_and_scale(decimal: DataType) -> tuple[int, int]:
    precision, scale = decimal.args
    assert isinstance(precision, int) and isinstance(scale, int)
    return precision, scale


def _wider_number(left: DataType, right: DataType) -> DataType:
    names = {left.name, right.name}
    if "DOUBLE" in names:
        return DOUBLE
    if "FLOAT" in names:
        return left if names == {"FLOAT"} else DOUBLE
    if "DECIMAL" in names:
        return _wider_decimal(left, right)
    return max(left, right, key=lambda t: _INTEGRAL.index(t.name))


def _wider_decimal(left: DataType, right: DataType) -> DataType:
    left_decimal, right_decimal = as_decimal(left), as_decimal(right)
    assert left_decimal is not None and right_decimal is not None
    (p1, s1), (p2, s2) = precision_and_scale(left_decimal), precision_and_scale(right_decimal)
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return DataType("DECIMAL", (precision, scale)) if precision <= 38 else UNKNOWN


def _family(kind: DataType) -> str:
    if kind.is_numeric:
        return "number"
    return "time" if kind.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ") else kind.name
