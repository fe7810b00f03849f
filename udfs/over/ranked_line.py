"""A line of rows in any order: the rank of a row stands for its time, and values of the order for distances."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.over.line import Indices, Line
from sqlstream.udfs.top_n.order import Order

_DAY_MICROS = 86_400_000_000


class RankedLine(Line):
    """``time`` is the rank of each row, equal for peers. ``values``: the values of the only column of the order, of
    which distances are taken: numbers, or times in microseconds; None where there are more columns or none."""

    def __init__(self, key: Indices, rank: Indices, values: pa.Array | None, descending: bool) -> None:
        super().__init__(key, rank)
        self._values = values
        self._descending = descending

    @classmethod
    def of(cls, rows: pa.Table, ids: Indices, keys: Sequence[Indices], order: Sequence[Order]) -> RankedLine:
        """The line of rows that are by id, and then ascend by the ``keys``, which are the ``order`` as numbers."""
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = np.logical_or.reduce([values[1:] != values[:-1] for values in (ids, *keys)])
        values = rows.column(order[0].column).combine_chunks() if len(order) == 1 else None
        return cls(ids, np.cumsum(begins), values, len(order) == 1 and order[0].descending)

    def at(self, offset: int, side: str) -> Indices:
        """For each row the position, among the rows of its key, of the value ``offset`` after its own, in the
        direction of the order. A NULL has distance 0 from NULLs, and none from values."""
        if len(self.key) == 0:
            return np.zeros(0, np.int64)
        values, is_null = self._numbers
        asked = _moved(values, offset)
        _, ranks = np.unique(np.concatenate((values, asked)), return_inverse=True)
        codes, wanted = np.split(ranks.astype(np.int64) + 1, 2)
        width = 2 * len(self.key) + 2
        outside = np.where(self._nulls_lead, 0, width - 1)
        codes, wanted = np.where(is_null, outside, codes), np.where(is_null, outside, wanted)
        positions = np.searchsorted(
            self.key * width + codes, self.key * width + wanted, side="left" if side == "left" else "right"
        )
        return np.clip(positions, self.first, self.end)

    @cached_property
    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The values as numbers that ascend along the line, and where they are NULL."""
        assert self._values is not None, "distances are those of one column"
        values = self._values
        if pa.types.is_date32(values.type):
            numbers = np.asarray(values.cast(pa.int32()).cast(pa.int64()).fill_null(0)) * _DAY_MICROS
        elif pa.types.is_floating(values.type):
            floats = np.asarray(values.cast(pa.float64()).fill_null(0.0))
            floats = np.where(np.isnan(floats), np.inf, floats)  # the greatest of numbers, in either direction
            return -floats if self._descending else floats, np.asarray(values.is_null())
        else:
            numbers = np.asarray(values.cast(pa.int64()).fill_null(0))
        return ~numbers if self._descending else numbers, np.asarray(values.is_null())

    @cached_property
    def _nulls_lead(self) -> np.ndarray:
        """True for rows of keys whose NULLs come first."""
        is_null = self._numbers[1]
        leads: np.ndarray = is_null[self.first]
        return leads


def _moved(values: np.ndarray, offset: int) -> np.ndarray:
    """Values at a distance; whole numbers stop at the ends of int64."""
    if values.dtype == np.float64:
        moved: np.ndarray = values + offset
        return moved
    ends = np.iinfo(np.int64)
    if offset >= 0:
        return np.asarray(np.minimum(values, ends.max - offset) + offset)
    return np.asarray(np.maximum(values, ends.min - offset) + offset)
