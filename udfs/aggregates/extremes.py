"""MIN and MAX, and aggregates that pick one row of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.udfs.aggregates.accumulator import (
    Accumulator,
    Batch,
    Columns,
    Groups,
    column_of,
    is_number,
    numbers_of,
    ranks,
    truths_of,
)
from sqlstream.udfs.aggregates.sums import without_nulls


@dataclass(frozen=True)
class Extreme(Accumulator):
    """The least or greatest value of a column; NULL for a group without values. Of equal values the first is stored."""

    type: pa.DataType
    greatest: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return (self._extremes(selection.columns[0], selection.groups),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (self._extremes(*without_nulls(columns[0], groups)),)

    def survives(self, columns: Columns, gone: Columns) -> np.ndarray:
        """One boolean per group: true if every retracted value is greater than the least one (or less than the
        greatest), so that the extreme remains.
        """
        combined = pa.concat_arrays([columns[0], gone[0]])
        count = len(columns[0])
        present = truths_of(combined.is_valid())
        rank = np.zeros(2 * count, np.int64)
        rank[present] = ranks(combined.drop_null())
        inside = rank[count:] < rank[:count] if self.greatest else rank[count:] > rank[:count]
        survives: np.ndarray = ~present[count:] | (inside & present[:count])
        return survives

    def _extremes(self, column: pa.Array, groups: Groups) -> pa.Array:
        if is_number(self.type):
            numbers = extremes(numbers_of(column), groups, self.greatest)
            # Zeros have two signs: the first row decides.
            if not kinds.is_floating(self.type) or numbers.all():
                return column_of(numbers, self.type, groups.empty)
        return column.take(first_extreme(ranks(column), groups, self.greatest))


def extremes(numbers: np.ndarray, groups: Groups, greatest: bool) -> np.ndarray:
    """The least or greatest number of each group, as an array; NaN is the greatest number. The value of a group without
    rows has no meaning.
    """
    start, pick = _FLOATS[greatest] if numbers.dtype.kind == "f" else _integers(numbers.dtype, greatest)
    result = np.full(groups.count, start, numbers.dtype)
    pick.at(result, groups.ids, numbers)
    return result


def _integers(type_: np.dtype[Any], greatest: bool) -> tuple[float, np.ufunc]:
    limits = np.iinfo(type_)
    return (limits.min, np.maximum) if greatest else (limits.max, np.minimum)


# The neutral element and the operation, by ``greatest``.
_FLOATS: dict[bool, tuple[float, np.ufunc]] = {True: (-np.inf, np.maximum), False: (np.nan, np.fmin)}


def first_extreme(ranks: np.ndarray, groups: Groups, greatest: bool, *, last: bool = False) -> pa.Array:
    """For each group the index of the first (or ``last``) row with the least or greatest rank; NULL for a group without
    rows.
    """
    best = np.flatnonzero(ranks == extremes(ranks, groups, greatest)[groups.ids])
    return first_rows(best, groups, last=last)


def first_rows(rows: np.ndarray, groups: Groups, *, last: bool = False) -> pa.Array:
    """For each group its first (or ``last``) row index among ``rows``, which are row indices in ascending order; NULL
    for a group with none.
    """
    ordered = rows if last else rows[::-1]
    first_row = np.full(groups.count, -1, np.int64)
    # Of several assignments to one index numpy keeps the last.
    first_row[groups.ids[ordered]] = ordered
    return pa.array(first_row, mask=first_row < 0)


# --- one row of a group: FIRST, LAST, ANY_VALUE, MIN_BY, MAX_BY -----------------------------------------------


@dataclass(frozen=True)
class Picked(Accumulator):
    """FIRST and LAST: the value of the first or ``last`` row to arrive, which may be NULL, and whether there is such a
    row.
    """

    type: pa.DataType
    last: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return pa.bool_(), self.type

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return self._pick(np.arange(len(selection.groups.ids)), selection.columns[0], selection.groups)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        present, values = columns
        return self._pick(np.flatnonzero(truths_of(present)), values, groups)

    def _pick(self, rows: np.ndarray, values: pa.Array, groups: Groups) -> Columns:
        picked = first_rows(rows, groups, last=self.last)
        return picked.is_valid(), values.take(picked)


@dataclass(frozen=True)
class PickedByNumber(Accumulator):
    """The accumulator of FIRST and LAST where accumulators may be merged in any order: the value of the first or
    ``last`` row to arrive, which may be NULL, and the arrival number of that row, NULL if there is none.

    The second column of the source has the arrival numbers.
    """

    type: pa.DataType
    last: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.type, pa.int64()

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        picked = first_rows(np.arange(len(selection.groups.ids)), selection.groups, last=self.last)
        return tuple(column.take(picked) for column in selection.columns)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        kept = np.flatnonzero(truths_of(columns[1].is_valid()))
        values, numbers = (column.take(pa.array(kept)) for column in columns)
        picked = first_extreme(ranks(numbers), Groups(groups.ids[kept], groups.count), self.last)
        return values.take(picked), numbers.take(picked)


@dataclass(frozen=True)
class PickedByOrder(Accumulator):
    """MIN_BY and MAX_BY: the value and the key of the row with the least or ``greatest`` key; of rows with equal keys
    the last one, as in Spark.

    With ``by_number`` a third column has the arrival numbers, which say which row is the last.
    """

    value: pa.DataType
    key: pa.DataType
    greatest: bool
    by_number: bool = False

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.value, self.key, *([pa.int64()] if self.by_number else []))

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return self._pick(selection.columns, selection.groups)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        kept = np.flatnonzero(truths_of(columns[1].is_valid()))
        return self._pick(tuple(c.take(pa.array(kept)) for c in columns), Groups(groups.ids[kept], groups.count))

    def _pick(self, columns: Columns, groups: Groups) -> Columns:
        if self.by_number:
            picked = self._newest_of_equal(columns, groups)
        else:
            picked = first_extreme(ranks(columns[1]), groups, self.greatest, last=True)
        return tuple(column.take(picked) for column in columns)

    def _newest_of_equal(self, columns: Columns, groups: Groups) -> pa.Array:
        _, keys, numbers = columns
        rank = ranks(keys)
        best = np.flatnonzero(rank == extremes(rank, groups, self.greatest)[groups.ids])
        newest = first_extreme(ranks(numbers)[best], Groups(groups.ids[best], groups.count), greatest=True)
        return pa.array(best).take(newest)
