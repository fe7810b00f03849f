"""Rules that derive the type of a call from the types of its arguments; UNKNOWN where the type is not certain.

A rule takes the types of a call's arguments. Sources: Spark's ``FunctionRegistry`` and the ``dataType`` of its
expressions with ANSI mode on, which is Spark 4's default; a test asks Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from sqlstream.functions.builtin import ResultRule
from sqlstream.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, UNKNOWN, DataType

# --- common types of several values, as Spark's ANSI coercion finds them -----------------------------------------


_INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")
NESTED_TYPES = ("ARRAY", "MAP", "STRUCT")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}


def common_type(types: Iterable[DataType]) -> DataType:
    """The common type of values in UNION, CASE and COALESCE; UNKNOWN where only Spark knows it."""
    kinds = list(types)
    return reduce(wider, kinds) if kinds else UNKNOWN


def wider(left: DataType, right: DataType, *, texts: bool = False) -> DataType:
    """The narrowest type to which values of both types are converted without an explicit cast; UNKNOWN if there is
    none, or only Spark knows it. Rows, arrays and maps are converted part by part, and have the names of ``left``.

    ``texts``: a text is converted to the type of the other value, as in comparisons. In rows and arrays it always is.
    """
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
    if texts and "STRING" in (left.name, right.name):
        return _instead_of_text(right if left.name == "STRING" else left)
    if left.name == right.name and left.name in NESTED_TYPES:
        return _wider_parts(left, right)
    return UNKNOWN


def incompatible(left: DataType, right: DataType, *, texts: bool = False) -> bool:
    """True where it is certain that no common type exists without a cast that could fail; of rows, if they have
    different numbers of fields, or one of the fields has no common type.

    ``texts``: a text is converted to the type of the other value, as in comparisons. In rows and arrays it always is.
    """
    if left.is_unknown or right.is_unknown or "VOID" in (left.name, right.name):
        return False
    if left.name != right.name:
        if texts and "STRING" in (left.name, right.name):
            return _instead_of_text(right if left.name == "STRING" else left).is_unknown
        return _family(left) != _family(right)
    one, other = _parts(left), _parts(right)
    return len(one) != len(other) or any(incompatible(a, b, texts=True) for a, b in zip(one, other, strict=True))


def as_decimal(kind: DataType) -> DataType | None:
    """The DECIMAL type that holds all values of an integer type. A DECIMAL type is returned unchanged."""
    if kind.name == "DECIMAL":
        return kind
    return DataType("DECIMAL", (_DIGITS[kind.name], 0)) if kind.name in _DIGITS else None


def precision_and_scale(decimal: DataType) -> tuple[int, int]:
    """A pair: the precision and the scale of a DECIMAL type."""
    precision, scale = decimal.args
    assert isinstance(precision, int) and isinstance(scale, int)
    return precision, scale


def _parts(kind: DataType) -> list[DataType]:
    """The types of a row's fields, of an array's elements, or of a map's keys and values."""
    return [*kind.inner, *(field for _, field in kind.fields())]


def _wider_parts(left: DataType, right: DataType) -> DataType:
    one, other = _parts(left), _parts(right)
    if len(one) != len(other):
        return UNKNOWN
    parts = [
        replace(wider(a, b, texts=True), nullable=a.nullable or b.nullable) for a, b in zip(one, other, strict=True)
    ]
    if any(part.is_unknown for part in parts):
        return UNKNOWN
    remaining = iter(parts)
    return left.with_inner(lambda _: next(remaining))


def _instead_of_text(kind: DataType) -> DataType:
    """The type to which Spark converts a text beside a value of this type; UNKNOWN if there is none."""
    if kind.name in NESTED_TYPES or kind.name.startswith("INTERVAL") or kind.is_unknown:
        return UNKNOWN
    if kind.name in _INTEGRAL:
        return BIGINT
    return DOUBLE if kind.is_numeric else kind


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


BINARY, DATE, TINYINT, TIMESTAMP_NTZ, VARIANT = (
    DataType(name) for name in ("BINARY", "DATE", "TINYINT", "TIMESTAMP_NTZ", "VARIANT")
)
STRING_ARRAY = DataType("ARRAY", (STRING,))


def same_as_first(types: Sequence[DataType]) -> DataType:
    """The result type of functions that return the type of their first argument; ``types`` are the types of the
    arguments. UNKNOWN if the first one is NULL, because then it depends on the function.
    """
    return types[0] if types and types[0].name != "VOID" else UNKNOWN


def padded(types: Sequence[DataType]) -> DataType:
    """The result type of LPAD and RPAD: BINARY for bytes, STRING for texts; UNKNOWN where only Spark knows."""
    if types and not any(kind.is_unknown or kind.name == "BINARY" for kind in types[::2]):
        return STRING
    return BINARY if types and all(kind.name == "BINARY" for kind in types[::2]) else UNKNOWN


def number(types: Sequence[DataType]) -> DataType:
    """The result type of functions that keep a numeric type, such as ABS: that of the first argument, DOUBLE for
    strings and NULL.
    """
    kind = types[0] if types else UNKNOWN
    return DOUBLE if kind.name in ("STRING", "VOID") else kind


def total(types: Sequence[DataType]) -> DataType:
    """The result type of SUM: BIGINT for integers, DOUBLE for floating-point numbers; for DECIMAL one with ten more
    digits before the point, but at most 38 in all. UNKNOWN for other types.
    """
    match types:
        case [DataType("TINYINT" | "SMALLINT" | "INT" | "BIGINT")]:
            return BIGINT
        case [DataType("FLOAT" | "DOUBLE")]:
            return DOUBLE
        case [DataType("DECIMAL", (int() as precision, scale))]:
            return DataType("DECIMAL", (min(38, precision + 10), scale))
    return UNKNOWN


def average(types: Sequence[DataType]) -> DataType:
    """The result type of AVG: DOUBLE for integers and floating-point numbers; for DECIMAL one with four more digits,
    all after the point. UNKNOWN for other types.
    """
    match types:
        case [DataType("DECIMAL", (int() as precision, int() as scale))]:
            return DataType("DECIMAL", (min(38, precision + 4), min(38, scale + 4))) if precision <= 34 else UNKNOWN
        case [DataType("TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "FLOAT" | "DOUBLE")]:
            return DOUBLE
    return UNKNOWN


def array_of_first(types: Sequence[DataType]) -> DataType:
    """The result type of functions that return an array of values of the first argument's type."""
    return DataType("ARRAY", (types[0],)) if types and not types[0].is_unknown else UNKNOWN


def element(types: Sequence[DataType]) -> DataType:
    """The result type of functions that return an element of an array, such as GET. The array is the first argument;
    UNKNOWN if that is not one.
    """
    match types:
        case [DataType("ARRAY", (DataType() as element,)), *_]:
            return element
    return UNKNOWN


def value_by_order(types: Sequence[DataType]) -> DataType:
    """The result type of MAX_BY and MIN_BY: for MAX_BY(a, b) the type of ``a``, for MAX_BY(a, b, n) an array of that
    type.
    """
    return array_of_first(types) if len(types) == 3 else types[0] if types else UNKNOWN


def array_with_element(types: Sequence[DataType]) -> DataType:
    """The result type of functions of an array and an element, such as ARRAY_APPEND: the array's type if the element
    has its element type, UNKNOWN otherwise.
    """
    match types:
        case [DataType("ARRAY", (element,)) as array, other] if element == other:
            return array
    return UNKNOWN


def map_part(index: int) -> ResultRule:
    """Returns a function that computes the result type of MAP_KEYS (``index`` 0) or MAP_VALUES (``index`` 1) from the
    types of the arguments: an array of the map's keys or values.
    """

    def part(types: Sequence[DataType]) -> DataType:
        match types:
            case [DataType("MAP", members)] if isinstance(members[index], DataType):
                return DataType("ARRAY", (members[index],))
        return UNKNOWN

    return part


def string_or_array(types: Sequence[DataType]) -> DataType:
    """The type of CONCAT and REVERSE: an array for arrays, UNKNOWN for binaries, else STRING."""
    if not types or any(t.is_unknown or t.name == "BINARY" for t in types):
        return UNKNOWN
    return types[0] if types[0].name == "ARRAY" else STRING


def whole_number(types: Sequence[DataType]) -> DataType:
    """The type of CEIL and FLOOR with one argument: BIGINT for integers and doubles, UNKNOWN for decimals."""
    match types:
        case [DataType("TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "FLOAT" | "DOUBLE")]:
            return BIGINT
    return UNKNOWN


def rounded(types: Sequence[DataType]) -> DataType:
    """The result type of ROUND: that of the argument; UNKNOWN for DECIMAL, whose precision and scale change."""
    return types[0] if types and types[0].is_numeric and types[0].name != "DECIMAL" else UNKNOWN


def map_of_pairs(types: Sequence[DataType]) -> DataType:
    """The type of MAP(key, value, …), with the common types of keys and values."""
    parts = (common_type(types[::2]), common_type(types[1::2]))
    known = len(types) % 2 == 0 and not any(part.is_unknown or part.name == "VOID" for part in parts)
    return DataType("MAP", parts) if known else UNKNOWN


def with_unit(with_unit: DataType, without: DataType) -> ResultRule:
    """Returns a function that computes the result type of functions like DATEDIFF: ``with_unit`` for a call with a unit
    of time (``DATEDIFF(HOUR, a, b)``), ``without`` for one without (``DATEDIFF(a, b)``).
    """
    return lambda types: with_unit if len(types) == 3 else without


def multiset(types: Sequence[DataType]) -> DataType:
    """The type of COLLECT: a map from values to their number."""
    return DataType("MAP", (types[0], INT)) if types and not types[0].is_unknown else UNKNOWN
