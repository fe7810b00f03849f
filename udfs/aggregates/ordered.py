"""Aggregates that see rows in the order of ORDER BY, and NTH_VALUE, which sees them in the order of the frame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import (
    Accumulator,
    Batch,
    Columns,
    Groups,
    Ordering,
    Plan,
    Source,
    in_order,
    truths_of,
)
from sqlstream.udfs.aggregates.lists import Values, exploded, lengths_of, members

# --- FIRST and LAST with ORDER BY -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PickedInOrder(Accumulator):
    """FIRST and LAST with ORDER BY: whether there is a row, the value of the first or ``last`` row in this ``order``,
    and its sort keys. Of equal rows the first or the last one to arrive is picked.

    The source has the value, then a column for each of the ``order``, of which the last one may be the arrival number.
    """

    columns: tuple[pa.DataType, ...]
    order: tuple[Ordering, ...]
    last: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.bool_(), *self.columns)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return self._pick(selection.columns, selection.groups)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        present, *others = columns
        there = np.flatnonzero(truths_of(present))
        return self._pick(
            tuple(column.take(pa.array(there)) for column in others), Groups(groups.ids[there], groups.count)
        )

    def _pick(self, columns: Columns, groups: Groups) -> Columns:
        order = in_order(columns[1:], self.order, groups)
        ends = groups.offsets[1:] - 1 if self.last else groups.offsets[:-1]
        picked = np.full(groups.count, -1, np.int64)
        picked[~groups.empty] = order[ends[~groups.empty]]
        rows = pa.array(picked, mask=groups.empty)
        return (rows.is_valid(), *(column.take(rows) for column in columns))


# --- users' aggregates with ORDER BY --------------------------------------------------------------------------


def over_sorted(source: Source, types: tuple[pa.DataType, ...], order: tuple[Ordering, ...], inner: Plan) -> Plan:
    """The plan of an aggregate call with ORDER BY that stores all rows, sorts them at the end and computes ``inner``.

    ``types`` are those of all columns of ``source``: the arguments of the call, and last the columns of the ``order``.
    ``inner`` is the plan of the same call over sorted rows, with the arguments in columns ``0``, ``1``, ….
    """
    return Plan((Values(source, types),), partial(_over_sorted, types, order, inner))


def _over_sorted(types: tuple[pa.DataType, ...], order: tuple[Ordering, ...], inner: Plan, lists: pa.Array) -> pa.Array:
    values, groups = exploded(lists)
    columns = members(values, len(types))
    rows = in_order(tuple(columns[len(types) - len(order) :]), order, groups)
    arguments = [column.take(pa.array(rows)) for column in columns[: len(types) - len(order)]]
    table = pa.Table.from_arrays(arguments, [str(i) for i in range(len(arguments))])
    batch = Batch(table, Groups(groups.ids[rows], groups.count))
    return inner.finish(*(column for a in inner.accumulators for column in a.lift(batch)))


# --- NTH_VALUE, and LAG that ignores NULLs --------------------------------------------------------------------


NTH_VALUE = "nth_value"
"""The name of an aggregate call with the constants ``n`` and whether values are counted from the last one."""


@dataclass(frozen=True)
class EndValues(Accumulator):
    """A list per group of its first or ``last`` values, at most ``count``, in order of arrival."""

    type: pa.DataType
    count: int
    last: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self.type),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        offsets = selection.groups.offsets.astype(np.int64)
        return (self._cut(selection.groups.sorted(selection.columns[0]), offsets[:-1], offsets[1:]),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        values, offsets = _flat(groups.sorted(columns[0]))
        bounds = offsets[groups.offsets]
        return (self._cut(values, bounds[:-1], bounds[1:]),)

    def of_ranges(self, columns: Columns, start: np.ndarray, stop: np.ndarray) -> Columns:
        values, offsets = _flat(columns[0])
        return (self._cut(values, offsets[start], offsets[stop]),)

    def _cut(self, values: pa.Array, start: np.ndarray, stop: np.ndarray) -> pa.Array:
        """A list for each range of values, of the first or last of them."""
        lengths = np.minimum(stop - start, self.count)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        first = stop - lengths if self.last else start
        rows = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], lengths)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values.take(pa.array(rows)))


def _flat(lists: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The values of all lists, and where those of each list begin, followed by the end of the last one."""
    return lists.flatten(), np.concatenate(([0], np.cumsum(lengths_of(lists))))


def nth_value(source: Source, kind: pa.DataType, n: int, *, last: bool) -> Plan:
    """The plan of NTH_VALUE: the ``n``-th value of a group, counted from the first value or, with ``last``, backwards
    from the last; NULL if there are fewer values.
    """
    return Plan((EndValues(source, kind, n, last),), partial(_nth_value, n, last))


def _nth_value(n: int, last: bool, lists: pa.Array) -> pa.Array:
    values, offsets = _flat(lists)
    rows = offsets[:-1] if last else offsets[:-1] + n - 1
    return values.take(pa.array(rows, mask=np.diff(offsets) < n))
