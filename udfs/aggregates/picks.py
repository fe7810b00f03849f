"""Aggregates that pick one row of a group: FIRST, LAST, ANY_VALUE, MIN_BY, MAX_BY."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns
from sqlstream.udfs.aggregates.extremes import extremes, first_extreme, first_rows
from sqlstream.udfs.aggregates.groups import Batch, Groups
from sqlstream.udfs.aggregates.numbers import truths_of
from sqlstream.udfs.aggregates.ordering import ranks


@dataclass(frozen=True)
class Picked(Accumulator):
    """Whether there is a row, and the value of the first or ``last`` one, which may be NULL."""

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
    """The value, which may be NULL, and the number of the first or ``last`` row, the number being NULL for no row.

    The numbers of rows are in the second column, in the order of arrival.
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
    """The value and the key of the row with the least or ``greatest`` key, the last of equal ones as in Spark.

    ``by_number``: a third column has the numbers of rows in the order of arrival, which tell which one is the last.
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
