"""MIN and MAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns
from sqlstream.udfs.aggregates.groups import Batch, Groups
from sqlstream.udfs.aggregates.numbers import column_of, numbers_of, truths_of
from sqlstream.udfs.aggregates.ordering import is_number, ranks
from sqlstream.udfs.aggregates.sums import without_nulls


@dataclass(frozen=True)
class Extreme(Accumulator):
    """The least or greatest value of a column; NULL for a group without values. Of equal ones the first stays."""

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
        """True for groups whose extreme stays: all retracted values are greater than the least one, or less than the
        greatest."""
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
    """The least or greatest number of each group, NaN being the greatest; any number for empty groups."""
    start, pick = _FLOATS[greatest] if numbers.dtype.kind == "f" else _integers(numbers.dtype, greatest)
    result = np.full(groups.count, start, numbers.dtype)
    pick.at(result, groups.ids, numbers)
    return result


def _integers(type_: np.dtype[Any], greatest: bool) -> tuple[float, np.ufunc]:
    limits = np.iinfo(type_)
    return (limits.min, np.maximum) if greatest else (limits.max, np.minimum)


# What is neutral, and the operation, by whether it is the greatest number.
_FLOATS: dict[bool, tuple[float, np.ufunc]] = {True: (-np.inf, np.maximum), False: (np.nan, np.fmin)}


def first_extreme(ranks: np.ndarray, groups: Groups, greatest: bool, *, last: bool = False) -> pa.Array:
    """The first (or ``last``) row with the least or greatest rank in each group; NULL for empty groups."""
    best = np.flatnonzero(ranks == extremes(ranks, groups, greatest)[groups.ids])
    return first_rows(best, groups, last=last)


def first_rows(rows: np.ndarray, groups: Groups, *, last: bool = False) -> pa.Array:
    """The first (or ``last``) of ``rows``, which ascend, in each group; NULL for groups without any."""
    ordered = rows if last else rows[::-1]
    first_row = np.full(groups.count, -1, np.int64)
    # Of several assignments to one place numpy keeps the last.
    first_row[groups.ids[ordered]] = ordered
    return pa.array(first_row, mask=first_row < 0)
