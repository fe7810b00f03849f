"""Sums of integers, which raise on overflow, and of floating-point numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns
from sqlstream.udfs.aggregates.groups import Batch, Groups
from sqlstream.udfs.aggregates.numbers import column_of, numbers_of
from sqlstream.udfs.aggregates.overflow import overflow

_LARGEST = 2**63 - 1
_LEAST = -(2**63)


@dataclass(frozen=True)
class IntegerSum(Accumulator):
    """A BIGINT, or a day-time interval, as ``type`` says; NULL for a group without values."""

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
    """A DOUBLE, added up in order of arrival; NULL for a group without values."""

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
        """Subtracting a DOUBLE may leave a rest in the last bits, and an infinity stays for ever, as in Flink."""
        return True

    def negated(self, columns: Columns) -> Columns:
        return (pc.negate(columns[0]),)


@dataclass(frozen=True)
class ExactSum(Accumulator):
    """The sum of BIGINTs that may leave their range, as sums of their lower and upper 32 bits; 0 without values."""

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
    if not column.null_count:
        return column, groups
    kept = column.is_valid().to_numpy(zero_copy_only=False)
    return column.drop_null(), Groups(groups.ids[kept], groups.count)


def add_up(numbers: np.ndarray, groups: Groups) -> np.ndarray:
    """The sum of each group, of the type of the numbers; integers wrap around."""
    totals = np.zeros(groups.count, numbers.dtype)
    np.add.at(totals, groups.ids, numbers)
    return totals


def range_sums(numbers: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """The sums of ranges of whole numbers; running totals that wrap around have the same differences."""
    totals = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=totals[1:])
    return np.asarray(totals[stop] - totals[start])


def without_values(column: pa.Array, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """True for ranges of nothing but NULLs."""
    if not column.null_count:
        return np.asarray(stop <= start)
    return np.asarray(range_sums(column.is_valid().to_numpy(zero_copy_only=False), start, stop) == 0)


def longest(start: np.ndarray, stop: np.ndarray) -> int:
    return int((stop - start).max(initial=0))


def may_overflow(numbers: np.ndarray, most: int | None = None) -> bool:
    """False where no sum of these BIGINTs can leave the range. ``most``: how many one sum has, where not all."""
    if not len(numbers):
        return False
    most = len(numbers) if most is None else most
    return max(-int(numbers.min()), int(numbers.max())) * most > _LARGEST


def overflows(numbers: np.ndarray, groups: Groups) -> bool:
    """True where the sum of a group leaves the range of BIGINT, found from sums of halves, which stay inside it."""
    low, high = (add_up(half, groups) for half in (numbers & 0xFFFFFFFF, numbers >> 32))
    high += low >> 32
    return bool((high != high.astype(np.int32)).any())
