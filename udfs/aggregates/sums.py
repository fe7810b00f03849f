"""SUM, COUNT and AVG of integers, floating-point numbers, decimals and intervals, and bitwise aggregates. Integer sums
raise on overflow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.errors import ExecutionError, repeating
from sqlstream.types import from_arrow
from sqlstream.udfs.aggregates.accumulator import (
    Accumulator,
    Batch,
    Columns,
    Groups,
    Plan,
    Source,
    column_of,
    numbers_of,
)

_LARGEST = 2**63 - 1
_LEAST = -(2**63)


@dataclass(frozen=True)
class _Sum(Accumulator):
    """A sum of ``type`` in one column; NULL for a group without values."""

    type: pa.DataType

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return (self._sum(selection.columns[0], selection.groups),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (self._sum(*without_nulls(columns[0], groups)),)

    @abstractmethod
    def _sum(self, column: pa.Array, groups: Groups) -> pa.Array:
        """The sum of the values of each group."""


@dataclass(frozen=True)
class IntegerSum(_Sum):
    """The sum as a BIGINT or a day-time interval, according to ``type``; NULL for a group without values."""

    def _sum(self, column: pa.Array, groups: Groups) -> pa.Array:
        numbers = numbers_of(column).astype(np.int64, copy=False)
        if may_overflow(numbers) and overflows(numbers, groups):
            raise overflow("SUM", self.type)
        return column_of(add_up(numbers, groups), self.type, groups.empty)

    def of_ranges(self, columns: Columns, start: np.ndarray, stop: np.ndarray) -> Columns | None:
        (column,) = columns
        numbers = numbers_of(column.fill_null(0)).astype(np.int64, copy=False)
        if may_overflow(numbers, longest(start, stop)):
            return None
        return (column_of(range_sums(numbers, start, stop), self.type, without_values(column, start, stop)),)

    @property
    def retracts(self) -> bool:
        return True

    def negated(self, columns: Columns) -> Columns:
        (column,) = columns
        numbers = numbers_of(column.fill_null(0))
        if (numbers == _LEAST).any():
            raise overflow("SUM", self.type)
        return (column_of(-numbers, self.type, column.is_null().to_numpy(zero_copy_only=False)),)


@dataclass(frozen=True)
class FloatSum(Accumulator):
    """The sum as a DOUBLE, added in order of arrival; NULL for a group without values."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.float64(),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return (self._sum(selection.columns[0], selection.groups),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (self._sum(*without_nulls(columns[0], groups)),)

    def _sum(self, column: pa.Array, groups: Groups) -> pa.Array:
        return column_of(add_up(numbers_of(column).astype(np.float64, copy=False), groups), pa.float64(), groups.empty)

    @property
    def retracts(self) -> bool:
        """True, although subtracting a retraction may leave errors in the last bits, and an infinity forever: Flink's
        sums do the same.
        """
        return True

    def negated(self, columns: Columns) -> Columns:
        return (pc.negate(columns[0]),)


@dataclass(frozen=True)
class ExactSum(Accumulator):
    """The sum of BIGINTs beyond the range of BIGINT, stored as the sum of their upper and that of their lower 32 bits;
    0 without values.
    """

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return pa.int64(), pa.int64()

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        numbers = numbers_of(selection.columns[0]).astype(np.int64, copy=False)
        return tuple(pa.array(add_up(half, selection.groups)) for half in (numbers & 0xFFFFFFFF, numbers >> 32))

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return tuple(pa.array(add_up(numbers_of(column), groups)) for column in columns)

    def of_ranges(self, columns: Columns, start: np.ndarray, stop: np.ndarray) -> Columns:
        return tuple(pa.array(range_sums(numbers_of(column), start, stop)) for column in columns)

    @property
    def retracts(self) -> bool:
        return True

    def negated(self, columns: Columns) -> Columns:
        return tuple(pc.negate(column) for column in columns)


def without_nulls(column: pa.Array, groups: Groups) -> tuple[pa.Array, Groups]:
    """Returns a pair: the values of a column that are not NULL, and the groups of their rows."""
    if not column.null_count:
        return column, groups
    kept = column.is_valid().to_numpy(zero_copy_only=False)
    return column.drop_null(), Groups(groups.ids[kept], groups.count)


def add_up(numbers: np.ndarray, groups: Groups) -> np.ndarray:
    """The sum of each group, as an array of the type of ``numbers``; integers wrap around on overflow."""
    totals = np.zeros(groups.count, numbers.dtype)
    np.add.at(totals, groups.ids, numbers)
    return totals


def range_sums(numbers: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """The sum of ``numbers[start:stop]`` for each pair of bounds, as a difference of running totals. ``numbers`` are
    integers; overflows of the totals cancel out.
    """
    totals = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=totals[1:])
    return np.asarray(totals[stop] - totals[start])


def without_values(column: pa.Array, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """One boolean per range ``[start, stop)`` of rows: true if the column has only NULLs there."""
    if not column.null_count:
        return np.asarray(stop <= start)
    return np.asarray(range_sums(column.is_valid().to_numpy(zero_copy_only=False), start, stop) == 0)


def longest(start: np.ndarray, stop: np.ndarray) -> int:
    """The number of rows of the longest range ``[start, stop)``."""
    return int((stop - start).max(initial=0))


def may_overflow(numbers: np.ndarray, most: int | None = None) -> bool:
    """False if no sum of these BIGINTs can overflow. ``most`` is the maximum number of summands in one sum; None for
    all numbers.
    """
    if not len(numbers):
        return False
    most = len(numbers) if most is None else most
    return max(-int(numbers.min()), int(numbers.max())) * most > _LARGEST


def overflows(numbers: np.ndarray, groups: Groups) -> bool:
    """One boolean per group: true if its sum overflows BIGINT. It is computed from the sums of 32-bit halves, which do
    not overflow.
    """
    low, high = (add_up(half, groups) for half in (numbers & 0xFFFFFFFF, numbers >> 32))
    high += low >> 32
    return bool((high != high.astype(np.int32)).any())


# --- overflow -------------------------------------------------------------------------------------------------


OVERFLOW = repeating("SS431")


def overflow(function: str, type_: pa.DataType) -> ExecutionError:
    """The error for a sum that overflows. It names Spark's error class, because users search for that."""
    wider = "DOUBLE" if pa.types.is_decimal(type_) else "DECIMAL(38, 0)"
    return ExecutionError(
        OVERFLOW,
        f"{function} overflows the type {from_arrow(type_)}",
        detail="Spark calls this error ARITHMETIC_OVERFLOW.",
        hint=f"Convert the argument, as in {function}(CAST(x AS {wider})).",
    )


# --- COUNT, COUNT_IF ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Count(Accumulator):
    """The number of rows of each group, never NULL."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    def lift(self, batch: Batch) -> Columns:
        return (pa.array(batch.select(self.source).groups.sizes),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (pa.array(add_up(numbers_of(columns[0]), groups)),)

    def of_ranges(self, columns: Columns, start: np.ndarray, stop: np.ndarray) -> Columns:
        return (pa.array(range_sums(numbers_of(columns[0]), start, stop)),)

    @property
    def retracts(self) -> bool:
        return True

    def negated(self, columns: Columns) -> Columns:
        return (pc.negate(columns[0]),)


# --- AVG of integers, floating-point numbers and day-time intervals -------------------------------------------


def average(source: Source, type_: pa.DataType) -> Plan:
    """The plan of AVG as sum and count. BIGINTs are summed as DOUBLE, as in Spark, so that the sum cannot overflow."""
    exact = kinds.is_integer(type_) and type_.bit_width < 64
    total: Accumulator = IntegerSum(source, pa.int64()) if exact else FloatSum(source)
    return Plan((total, Count(Source((), source.filters, source.required))), _quotient)


def retracting_average(source: Source, type_: pa.DataType) -> Plan:
    """The plan of AVG over a changelog. Integers are summed exactly, because a DOUBLE does not return to its earlier
    value when a row is subtracted.
    """
    if not kinds.is_integer(type_):
        return average(source, type_)
    return Plan((ExactSum(source), Count(Source((), source.filters, source.required))), _exact_quotient)


def _exact_quotient(low: pa.Array, high: pa.Array, count: pa.Array) -> pa.Array:
    counts = count.to_numpy()
    totals = high.to_numpy() * 2.0**32 + low.to_numpy()
    return column_of(totals / np.maximum(counts, 1), pa.float64(), counts == 0)


def interval_average(source: Source, type_: pa.DataType) -> Plan:
    """The plan of AVG over day-time intervals: the sum divided by the count, rounded half up to the microsecond.
    ``source``: the input column and the FILTER; ``type_``: the type of the sum.
    """
    count = Count(Source((), source.filters, source.required))
    return Plan((IntegerSum(source, type_), count), _interval_quotient)


def _interval_quotient(total: pa.Array, count: pa.Array) -> pa.Array:
    counts = count.to_numpy()
    divisors = np.maximum(counts, 1)
    totals = numbers_of(total.fill_null(0))
    whole, rest = np.divmod(np.abs(totals), divisors)
    return column_of(np.sign(totals) * (whole + (rest >= divisors - rest)), total.type, counts == 0)


def _quotient(total: pa.Array, count: pa.Array) -> pa.Array:
    counts = count.to_numpy()
    totals = total.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
    return column_of(totals / np.maximum(counts, 1), pa.float64(), counts == 0)


# --- BIT_AND, BIT_OR, BIT_XOR ---------------------------------------------------------------------------------


_OPERATIONS = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}


@dataclass(frozen=True)
class Bits(Accumulator):
    """BIT_AND, BIT_OR and BIT_XOR of the integers of a group; NULL for a group without values."""

    type: pa.DataType
    function: str

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return (self._combined(selection.columns[0], selection.groups),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (self._combined(*without_nulls(columns[0], groups)),)

    def _combined(self, column: pa.Array, groups: Groups) -> pa.Array:
        numbers = numbers_of(column)
        combined = np.full(groups.count, -1 if self.function == "bit_and" else 0, numbers.dtype)
        _OPERATIONS[self.function].at(combined, groups.ids, numbers)
        return column_of(combined, self.type, groups.empty)


# --- decimals: exact sums and averages of 128 bits, by digits whose sums fit int64 ----------------------------


_BITS = 16
_DIGITS = 128 // _BITS
_MASK = (1 << _BITS) - 1
_LARGEST_PRECISION = 38


@dataclass(frozen=True)
class DecimalSum(_Sum):
    """The sum as a decimal of ``type``; NULL for a group without values."""

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
    """The result type of Spark's SUM over decimals of ``type_``."""
    return pa.decimal128(min(_LARGEST_PRECISION, type_.precision + 10), type_.scale)


def decimal_average(source: Source, type_: pa.DataType, result: pa.DataType) -> Plan:
    """The plan of AVG over decimals, rounded half up to the scale of ``result``."""
    total = DecimalSum(source, sum_type(type_))
    count = Count(Source((), source.filters, source.required))
    return Plan((total, count), partial(_decimal_quotient, result))


def _decimal_quotient(result: pa.DataType, total: pa.Array, count: pa.Array) -> pa.Array:
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
