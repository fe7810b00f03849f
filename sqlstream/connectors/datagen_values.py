"""Spark SQL expressions for made-up values: functions of the row number ``id``, and of the time at which a row is DUE.

Random values are hashes of the row number, so a row that is made again after a failure is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from sqlstream.connectors.connector import nested_fields
from sqlstream.types import DataType

_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_FLOATS = {"FLOAT": Decimal("3.4028234e38"), "DOUBLE": Decimal("1.7976931348623157e308")}
NUMBERS = frozenset({*_INTEGERS, *_FLOATS, "DECIMAL"})
SEQUENCES = NUMBERS | {"STRING"}
GENERATED = NUMBERS | {"BOOLEAN", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
COLLECTIONS = frozenset({"ARRAY", "MAP"})
NESTED = COLLECTIONS | {"STRUCT"}

DUE = "due"
"""BIGINT column of the row numbers: when a row is due, at the rate of the table, in microseconds since 1970."""

Hash = Callable[[int], str]

Given = Callable[[str], Mapping[str, Any]]
"""The options of a column or nested field, by its path: ``buyer``, ``buyer.name``, ``tags.element``."""


def is_integer(type_: DataType) -> bool:
    """Whether the type holds whole numbers only."""
    return type_.name in _INTEGERS


def limits(type_: DataType) -> tuple[Decimal, Decimal]:
    """Smallest and largest number of a numeric type."""
    if type_.name in _INTEGERS:
        half = 2 ** (_INTEGERS[type_.name] - 1)
        return Decimal(-half), Decimal(half - 1)
    if type_.name in _FLOATS:
        return -_FLOATS[type_.name], _FLOATS[type_.name]
    precision, scale = (int(str(a)) for a in type_.args)
    digits = (9,) * precision
    return Decimal((1, digits, -scale)), Decimal((0, digits, -scale))  # a minus sign would round to 28 digits


def expression(type_: DataType, path: str, given_of: Given, seed: int, salt: str) -> str:
    """The value of a column or nested field. ``salt``: arguments of the hash that differ for each of them."""
    given = given_of(path)
    if given.get("kind") == "sequence":
        return f"CAST(id + ({given['start']}L) AS {type_.ddl()})"

    def hashed(index: int) -> str:
        return f"xxhash64(id, {seed}L, {salt}, {index})"

    def within(place: int, more: str = "") -> str:
        name, kind = nested_fields(path, type_)[place]
        return expression(kind, name, given_of, seed, f"{salt}, -2{more}, {place}")

    made = _nested(type_, given.get("length", 3), salt, within) if type_.name in NESTED else None
    value = f"CAST({made or _random(type_, given, hashed)} AS {type_.ddl()})"
    rate = given.get("null-rate", 0)
    return f"IF({_fraction(hashed(-1))} < {rate}, NULL, {value})" if rate else value


def _nested(type_: DataType, length: int, salt: str, within: Callable[..., str]) -> str:
    if type_.name == "STRUCT":
        return f"struct({', '.join(within(place) for place in range(len(type_.args)))})"
    number = f"i{salt.count(',')}"  # a name of its own, as collections may be in collections
    numbers = f"sequence(1, {length})"
    if type_.name == "ARRAY":
        return f"transform({numbers}, {number} -> {within(0, f', {number}')})"
    keys, values = (f"transform({numbers}, {number} -> {within(place, f', {number}')})" for place in (0, 1))
    return f"map_from_arrays(array_distinct({keys}), slice({values}, 1, size(array_distinct({keys}))))"


def _random(type_: DataType, given: Mapping[str, Any], hashed: Hash) -> str:
    match type_.name:
        case "BOOLEAN":
            return f"({hashed(0)} & 1) = 1"
        case "STRING":
            return _text(given.get("length", 100), hashed)
        case "BINARY":
            return f"unhex({_text(2 * given.get('length', 100), hashed)})"
        case "DATE":
            return "current_date()"
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            past = f"CAST({1000 * given.get('max-past', 0)} * {_fraction(hashed(0))} AS BIGINT)"
            return f"timestamp_micros({DUE} - {past})"
    low, high = limits(type_)
    low, high = given.get("min", low), given.get("max", high)
    return _integer(int(low), int(high), hashed) if is_integer(type_) else _real(type_, low, high, hashed)


def _fraction(number: str) -> str:
    """A DOUBLE in [0, 1) out of the upper 53 bits of a hash."""
    return f"(shiftrightunsigned({number}, 11) / 9007199254740992D)"


def _integer(low: int, high: int, hashed: Hash) -> str:
    span = high - low + 1
    if span < 2**63:
        return f"pmod({hashed(0)}, {span}L) + ({low}L)"
    if span == 2**64:
        return hashed(0)
    return f"pmod(CAST({hashed(0)} AS DECIMAL(20, 0)), CAST('{span}' AS DECIMAL(20, 0))) + ({low})"


def _real(type_: DataType, low: Decimal, high: Decimal, hashed: Hash) -> str:
    # Weighted, not low + share * (high - low): the difference of the largest DOUBLEs has no value.
    share = _fraction(hashed(0))
    value = f"({float(low)!r}D * (1D - {share}) + {float(high)!r}D * {share})"
    if type_.name != "DECIMAL":
        return value
    low_text, high_text = (f"CAST('{bound:f}' AS {type_.ddl()})" for bound in (low, high))
    # Rounding to the scale may leave the range, and even the type.
    return f"coalesce(least(greatest(try_cast({value} AS {type_.ddl()}), {low_text}), {high_text}), {high_text})"


def _text(length: int, hashed: Hash) -> str:
    """``length`` hexadecimal digits, 16 from each hash."""
    chunks = (f"lpad(lower(hex({hashed(i)})), 16, '0')" for i in range(-(-length // 16)))
    return f"left(concat({', '.join(chunks)}), {length})"
