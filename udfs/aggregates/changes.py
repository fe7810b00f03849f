"""Aggregates over updating rows, for windows: rows can be removed from their accumulators.

``Signed`` subtracts retractions if the function permits it. For all other functions, such as MIN, and for DISTINCT,
``NetRows`` stores the values themselves, and the function is computed over the current ones when a result is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import Accumulator, Batch, Columns, Groups, Plan, Source
from sqlstream.udfs.aggregates.lists import by_number, exploded, item_type, items, members, numbered
from sqlstream.udfs.keys import by_id, is_retraction, unmatched

Indices = np.ndarray


@dataclass(frozen=True)
class Signed(Accumulator):
    """Applies the accumulator ``inner`` to a changelog: insertions are added and retractions subtracted.
    ``inner.retracts`` must be true.
    """

    inner: Accumulator

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.inner.types

    def lift(self, batch: Batch) -> Columns:
        come, gone = batch.by_kind
        added = self.inner.lift(come)
        if gone is None:
            return added
        left = self.inner.negated(self.inner.lift(gone))
        every = np.arange(len(added[0]))
        merged = tuple(pa.concat_arrays(pair) for pair in zip(added, left, strict=True))
        return self.inner.merge(merged, Groups(np.concatenate([every, every]), len(every)))

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return self.inner.merge(columns, groups)

    def of_ranges(self, columns: Columns, start: Indices, stop: Indices) -> Columns | None:
        return self.inner.of_ranges(columns, start, stop)


@dataclass(frozen=True)
class NetRows(Accumulator):
    """The current rows of each group as a list of distinct values, each with its count: insertions minus retractions.

    The columns of the source are the values, then the arrival numbers of the rows with ``by_number``, then ROW_KIND.
    With ``ordered`` the result depends on the order of rows, so each row is stored on its own, in order of arrival,
    with the count 1; a retraction removes the last equal row, and is stored with the count -1 if there is none.
    Otherwise equal values are stored once.
    """

    columns: tuple[pa.DataType, ...]
    ordered: bool
    by_number: bool = False

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(item_type((*self.columns, pa.int64()))),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        *values, kinds = selection.columns
        times = np.where(is_retraction(kinds), -1, 1)
        return self._net(tuple(values), times, selection.groups)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        values, lists = exploded(columns[0])
        *elements, times = members(values, len(self.columns) + 1)
        return self._net(tuple(elements), times.to_numpy(), Groups(groups.ids[lists.ids], groups.count))

    def left(self, values: Columns, times: np.ndarray, groups: Groups) -> Indices:
        """The indices of the rows that a group has now. ``times`` is how often each row was inserted, minus how often
        it was retracted: its index is repeated that often, or omitted.
        """
        if not self.ordered or (times > 0).all():
            return np.repeat(np.arange(len(times)), np.maximum(times, 0))
        order, ends, sizes = by_id(numbered(self._compared(values), groups)[0])
        counts = np.maximum(np.add.reduceat(times[order], ends + 1 - sizes), 0)
        return np.sort(order[_newest(times[order], counts, ends, sizes)])

    def _net(self, values: Columns, times: np.ndarray, groups: Groups) -> Columns:
        if self.by_number:
            order = by_number(values[-1], groups)
            values, times = tuple(column.take(pa.array(order)) for column in values), times[order]
            groups = Groups(groups.ids[order], groups.count)
        ids, first = numbered(self._compared(values), groups)
        if self.ordered:
            kept = np.flatnonzero(unmatched(ids, times)) if (times < 0).any() else np.arange(len(times))
            times = times[kept]
        else:
            times = np.bincount(ids, times, len(first)).astype(np.int64)
            kept, times = first[times != 0], times[times != 0]
        members_left = items([*(column.take(pa.array(kept)) for column in values), pa.array(times)])
        return (Groups(groups.ids[kept], groups.count).lists(members_left),)

    def _compared(self, values: Columns) -> Columns:
        return values[:-1] if self.by_number else values


def _newest(signs: np.ndarray, counts: np.ndarray, ends: Indices, sizes: Indices) -> np.ndarray:
    """True for the last rows of each id that come, as many as ``counts`` has for it."""
    comes = np.cumsum(signs > 0)
    behind = np.repeat(comes[ends], sizes) - comes
    return np.asarray((signs > 0) & (behind < np.repeat(counts, sizes)))


def less_what_went(inner: Plan) -> Plan | None:
    """Makes a plan for a changelog from ``inner``, the plan of the same aggregate call over append-only rows: retracted
    rows are subtracted. None if an accumulator of ``inner`` cannot subtract rows.
    """
    if not all(accumulator.retracts for accumulator in inner.accumulators):
        return None
    return Plan(tuple(Signed(a.source, a) for a in inner.accumulators), inner.finish)


def over_net_rows(source: Source, schema: pa.Schema, inner: Plan, *, ordered: bool, by_number: bool) -> Plan:
    """The plan of an aggregate call over a changelog, which stores the current rows (inserted and not retracted) and
    computes the result from them.

    ``inner`` is the plan of the same call over append-only rows of ``schema``, which are the columns of ``source``
    without ROW_KIND. ``ordered``: the result depends on the order of rows. ``by_number``: the last column of ``schema``
    has the arrival numbers of rows.
    """
    kept = NetRows(source, tuple(schema.types), ordered, by_number)
    return Plan((kept,), partial(_finish, kept, schema, inner))


def _finish(kept: NetRows, schema: pa.Schema, inner: Plan, lists: pa.Array) -> pa.Array:
    values, groups = exploded(lists)
    *elements, times = members(values, len(schema) + 1)
    columns = tuple(elements)
    rows = kept.left(columns, times.to_numpy(), groups)
    table = pa.Table.from_arrays([column.take(pa.array(rows)) for column in columns], schema=schema)
    batch = Batch(table, Groups(groups.ids[rows], groups.count))
    return inner.finish(*(column for a in inner.accumulators for column in a.lift(batch)))
