"""Exact sums and averages of decimals, computed on the digits of their 128 bits, whose sums fit into int64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates.accumulator import Accumulator, Batch, Columns, Groups, Plan, Source
from sqlstream.udfs.aggregates.sums import (
    Count,
    add_up,
    longest,
    may_overflow,
    overflow,
    range_sums,
    without_nulls,
    without_values,
)

_BITS = 16
_DIGITS = 128 // _BITS
_MASK = (1 << _BITS) - 1
_LARGEST_PRECISION = 38


@dataclass(frozen=True)
class DecimalSum(Accumulator):
    """The sum as a decimal of ``type``; NULL for a group without values."""

    type: pa.DataType

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return (self._sum(selection.columns[0], selection.groups),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (self._sum(*without_nulls(columns[0], groups)),)

    def _sum(self, column: pa.Array, groups: Groups) -> pa.Array:
        return _decimals(_totals(column, groups), self.type, groups.empty, "SUM")

    def of_ranges(self, columns: Columns, start: np.ndarray, stop: np.ndarray) -> Columns | None:
        (column,) = columns
        low, high = _stored(pc.fill_null(column, Decimal(0)), np.int64).T
        if (high != low >> 63).any() or may_overflow(low, longest(start, stop)):
            return None
        totals = range_sums(low, start, stop)
        return (_decimals(_alone(totals), self.type, without_values(column, start, stop), "SUM"),)

    @property
    def retracts(self) -> bool:
        return True

    def negated(self, columns: Columns) -> Columns:
        return (pc.negate(columns[0]).cast(self.type),)


def sum_type(type_: pa.DataType) -> pa.DataType:
    """The type of Spark's SUM over decimals of a type."""
    return pa.decimal128(min(_LARGEST_PRECISION, type_.precision + 10), type_.scale)


def decimal_average(source: Source, type_: pa.DataType, result: pa.DataType) -> Plan:
    """AVG of decimals, rounded half up to the scale of ``result``."""
    total = DecimalSum(source, sum_type(type_))
    count = Count(Source((), source.filters, source.required))
    return Plan((total, count), partial(_quotient, result))


def _quotient(result: pa.DataType, total: pa.Array, count: pa.Array) -> pa.Array:
    """``total / count`` with the scale of ``result``, rounded half up."""
    counts = count.to_numpy()
    divisors = np.maximum(counts, 1)
    digits = _digits_of(pc.fill_null(total, Decimal(0)))
    negative = digits[-1] < 0
    signs = np.where(negative, -1, 1)
    factor = 10 ** (result.scale - total.type.scale)
    # 2 * |total| * factor + count, over 2 * count: the quotient of integers is the rounded one.
    dividend = [2 * factor * signs * digit for digit in digits]
    dividend[0] = dividend[0] + divisors
    *low, top, excess = _divided(_carried([*dividend, np.zeros_like(counts)]), 2 * divisors)
    quotient = [*low, top + (excess << _BITS)]
    return _decimals([signs * digit for digit in quotient], result, counts == 0, "AVG")


def _divided(digits: Sequence[np.ndarray], divisors: np.ndarray) -> list[np.ndarray]:
    """Long division of numbers that are not negative by divisors below 2**46."""
    remainder = np.zeros_like(divisors)
    quotients: list[np.ndarray] = []
    for digit in reversed(digits):
        quotient, remainder = np.divmod((remainder << _BITS) + digit, divisors)
        quotients.insert(0, quotient)
    return quotients


def _totals(column: pa.Array, groups: Groups) -> list[np.ndarray]:
    """The digits of the sums, not carried; of numbers that fit into 64 bits the first holds all."""
    low, high = _stored(column, np.int64).T
    if (high == low >> 63).all() and not may_overflow(low):
        return _alone(add_up(low, groups))
    nothing = np.zeros(groups.count, np.int64)
    words = _stored(column, np.uint32).astype(np.int64)
    words[:, -1] = _stored(column, np.int32)[:, -1]
    # A word of 32 bits is the digit of its lower half; the carry fills the upper one.
    return [digit for i in range(words.shape[1]) for digit in (add_up(words[:, i], groups), nothing)]


def _alone(totals: np.ndarray) -> list[np.ndarray]:
    """Digits, not carried, of numbers that fit into 64 bits."""
    return [totals, *[np.zeros_like(totals)] * (_DIGITS - 1)]


# --- digits ---------------------------------------------------------------------------------------------------


def _digits_of(column: pa.Array) -> list[np.ndarray]:
    """Digits of 16 bits as int64, the least first; the last one has the sign. The column has no NULLs."""
    rows = _stored(column, np.uint16).astype(np.int64)
    return [*rows[:, :-1].T, _stored(column, np.int16)[:, -1].astype(np.int64)]


def _stored(column: pa.Array, type_: type[np.integer]) -> np.ndarray:
    """The 128 bits of each decimal as a row of integers."""
    width = 16 // np.dtype(type_).itemsize
    if not len(column):
        return np.zeros((0, width), type_)
    integers: np.ndarray = np.frombuffer(column.buffers()[1], type_).reshape(-1, width)
    return integers[column.offset : column.offset + len(column)]


def _carried(digits: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same numbers, carried over so that all digits but the last have at most 16 bits."""
    carried, carry = [], np.zeros_like(digits[0])
    for digit in digits[:-1]:
        total = digit + carry
        carried.append(total & _MASK)
        carry = total >> _BITS
    return [*carried, digits[-1] + carry]


def _decimals(digits: Sequence[np.ndarray], type_: pa.DataType, missing: np.ndarray, function: str) -> pa.Array:
    """The numbers as a column of ``type_``; the error of an overflow where one does not fit."""
    carried = _carried(digits)
    if (carried[-1] != carried[-1].astype(np.int16)).any():
        raise overflow(function, type_)
    stored = np.stack(carried, axis=1).astype(np.uint16)
    validity = pa.array(~missing).buffers()[1]
    decimals = pa.Array.from_buffers(type_, len(missing), [validity, pa.py_buffer(np.ascontiguousarray(stored))])
    if not _fit(decimals):
        raise overflow(function, type_)
    return decimals


def _fit(column: pa.Array) -> bool:
    nines = (9,) * column.type.precision
    least, greatest = (Decimal((sign, nines, -column.type.scale)) for sign in (1, 0))
    extremes = pc.min_max(column).as_py()
    return extremes["min"] is None or (least <= extremes["min"] and extremes["max"] <= greatest)
