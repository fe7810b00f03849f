"""Aggregates that store the values of their rows: lists, DISTINCT, percentiles and modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.aggregates.accumulator import (
    Accumulator,
    Batch,
    Columns,
    Groups,
    Ordering,
    Plan,
    Source,
    column_of,
    doubles_of,
    in_order,
    numbers_of,
    ranks,
)
from sqlstream.udfs.aggregates.extremes import first_extreme
from sqlstream.udfs.aggregates.sums import add_up
from sqlstream.udfs.keys import dense_ids


@dataclass(frozen=True)
class Values(Accumulator):
    """The values of a group in order of arrival, as one list; with several columns a list of structs."""

    columns: tuple[pa.DataType, ...]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(item_type(self.columns)),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return (selection.groups.lists(items(selection.columns)),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (concatenated(columns[0], groups),)


def item_type(columns: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type of the list's items: that of the only column, or a struct of several columns."""
    return columns[0] if len(columns) == 1 else pa.struct([(str(i), t) for i, t in enumerate(columns)])


def items(columns: Sequence[pa.Array]) -> pa.Array:
    """One list item per row: the value of the only column, or a struct of the values of several columns."""
    if len(columns) == 1:
        return columns[0]
    return pa.StructArray.from_arrays(list(columns), [str(i) for i in range(len(columns))])


def members(values: pa.Array, count: int) -> list[pa.Array]:
    """The inverse of ``items``: returns the ``count`` columns of which the list items ``values`` were made."""
    return [values] if count == 1 else values.flatten()


def concatenated(lists: pa.Array, groups: Groups) -> pa.Array:
    """One list per group: the lists of its rows, concatenated."""
    lengths = add_up(lengths_of(lists), groups)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), groups.sorted(lists).flatten(), type=lists.type)


def lengths_of(lists: pa.Array) -> np.ndarray:
    """The length of each list, as an int64 array."""
    lengths: np.ndarray = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def exploded(lists: pa.Array) -> tuple[pa.Array, Groups]:
    """Returns a pair: the values of all lists in one array, and as ``Groups`` the index of the list that each value is
    from.
    """
    return lists.flatten(), Groups(np.repeat(np.arange(len(lists)), lengths_of(lists)), len(lists))


def over_rows(source: Source, schema: pa.Schema, inner: Plan) -> Plan:
    """The plan of an aggregate call that depends on the order of rows, whose accumulators may be merged in any order:
    it stores all rows, sorts them at the end by their arrival numbers and computes ``inner``.

    The last column of ``source`` has the arrival numbers, ``schema`` the types of the others. ``inner`` is the plan of
    the same call over rows of ``schema`` in order of arrival.
    """
    return Plan((Values(source, (*schema.types, pa.int64())),), partial(_over_rows, schema, inner))


def _over_rows(schema: pa.Schema, inner: Plan, lists: pa.Array) -> pa.Array:
    values, groups = exploded(lists)
    *columns, numbers = members(values, 1 + len(schema))
    order = by_number(numbers, groups)
    ordered = [column.take(pa.array(order)) for column in columns]
    batch = Batch(pa.Table.from_arrays(ordered, schema=schema), Groups(groups.ids[order], groups.count))
    return inner.finish(*(column for a in inner.accumulators for column in a.lift(batch)))


def by_number(numbers: pa.Array, groups: Groups) -> np.ndarray:
    """The row indices sorted by group, then by the arrival numbers ``numbers``."""
    order: np.ndarray = np.lexsort((numbers.to_numpy(zero_copy_only=False), groups.ids))
    return order


# --- functions ------------------------------------------------------------------------------------------------


def collected(source: Source, types: tuple[pa.DataType, ...], order: tuple[Ordering, ...]) -> Plan:
    """The plan of COLLECT_LIST over the first column of ``source``, sorted by its other columns, of which ``order`` has
    the directions. ``types`` are those of all its columns.
    """
    return Plan((Values(source, types),), partial(_ordered, order))


def joined(source: Source, types: tuple[pa.DataType, ...], order: tuple[Ordering, ...], separator: str) -> Plan:
    """The plan of LISTAGG over the first column of ``source``, sorted by its other columns, of which ``order`` has the
    directions. ``types`` are those of all its columns.
    """
    return Plan((Values(source, types),), partial(_joined, order, separator))


def _joined(order: tuple[Ordering, ...], separator: str, lists: pa.Array) -> pa.Array:
    values = _ordered(order, lists)
    texts = pc.binary_join(values, pa.scalar(separator).cast(values.type.value_type))
    return pc.if_else(pa.array(lengths_of(lists) > 0), texts, pa.scalar(None, texts.type))


def _ordered(order: tuple[Ordering, ...], lists: pa.Array) -> pa.Array:
    """The first members of the lists' items, sorted by the others."""
    if not order:
        return lists
    values_and_keys, groups = exploded(lists)
    values, *keys = members(values_and_keys, 1 + len(order))
    rows = in_order(keys, order, groups)
    return groups.lists(values.take(pa.array(rows)))


# --- DISTINCT and COLLECT_SET: the distinct values are stored and aggregated at the end -----------------------


_FEW = 1 << 32


@dataclass(frozen=True)
class DistinctValues(Accumulator):
    """A list per group of its distinct values, in order of first appearance. Values are distinct if they differ in the
    first ``compared`` columns.

    With ``by_number`` the last column has the arrival numbers of the rows, which determine the first appearance.
    """

    columns: tuple[pa.DataType, ...]
    compared: int
    by_number: bool = False

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(item_type(self.columns)),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return self._distinct(tuple(map(_without_negative_zeros, selection.columns)), selection.groups)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        values, rows = exploded(columns[0])
        distinct_values, owners = tuple(members(values, len(self.columns))), Groups(groups.ids[rows.ids], groups.count)
        if self.by_number:
            order = by_number(distinct_values[-1], owners)
            distinct_values, owners = (
                tuple(c.take(pa.array(order)) for c in distinct_values),
                Groups(owners.ids[order], owners.count),
            )
        return self._distinct(distinct_values, owners)

    def _distinct(self, columns: Columns, groups: Groups) -> Columns:
        kept = first_of_each(columns[: self.compared], groups)
        distinct_items = items([c.take(pa.array(kept)) for c in columns])
        return (Groups(groups.ids[kept], groups.count).lists(distinct_items),)


def first_of_each(columns: Columns, groups: Groups) -> np.ndarray:
    """The index of the first row of each combination of values within each group, ascending."""
    rows = len(groups.ids)
    values = _value_ids(columns)
    row_bits, value_bits = rows.bit_length(), int(values.max(initial=0)).bit_length()
    if groups.count.bit_length() + value_bits + row_bits > 63:
        return numbered(columns, groups)[1]
    # One sort of plain integers is far cheaper than a hash table over pairs.
    keys = np.sort((groups.ids << value_bits | values) << row_bits | np.arange(rows))
    first = np.concatenate(([True], keys[1:] >> row_bits != keys[:-1] >> row_bits))[:rows]
    return np.sort(keys[first] & ((1 << row_bits) - 1))


def _value_ids(columns: Columns) -> np.ndarray:
    """Numbers that are equal where the values are."""
    if len(columns) == 1 and kinds.is_integer(columns[0].type) and not columns[0].null_count and len(columns[0]):
        numbers = numbers_of(columns[0])
        if int(numbers.max()) - int(numbers.min()) < _FEW:
            return numbers.astype(np.int64) - int(numbers.min())
    names = [str(i) for i in range(len(columns))]
    return dense_ids(pa.Table.from_arrays(list(columns), names), names).ids


def numbered(columns: Columns, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Numbers the distinct combinations of a group and values: returns the index of each row's combination, and for
    each combination the index of the first row that has it.
    """
    names = [str(i) for i in range(len(columns) + 1)]
    ids = dense_ids(pa.Table.from_arrays([pa.array(groups.ids), *columns], names), names)
    return ids.ids, ids.first


def _without_negative_zeros(column: pa.Array) -> pa.Array:
    return pc.add(column, pa.scalar(0.0, column.type)) if kinds.is_floating(column.type) else column


def over_distinct(source: Source, schema: pa.Schema, compared: int, inner: Plan, *, by_number: bool = False) -> Plan:
    """The plan of an aggregate call with DISTINCT: ``inner`` is computed over the distinct rows of the source's
    columns.

    ``inner`` is the plan of the call over ``schema``, which has the columns' types. Rows are distinct if they differ in
    the first ``compared`` columns. ``by_number``: the last column has the arrival numbers of rows, so that accumulators
    may be merged in any order.
    """
    return Plan((DistinctValues(source, tuple(schema.types), compared, by_number),), partial(_finish, schema, inner))


def _finish(schema: pa.Schema, inner: Plan, lists: pa.Array) -> pa.Array:
    values, groups = exploded(lists)
    batch = Batch(pa.Table.from_arrays(members(values, len(schema)), schema=schema), groups)
    return inner.finish(*(column for a in inner.accumulators for column in a.lift(batch)))


# --- percentiles, medians and modes ---------------------------------------------------------------------------
# All of them store every value of a group. The approximate percentile is exact here, whatever accuracy is requested, so
# it is always within the error that Spark permits.


NEGATIVE = repeating("SS448")

Percentages = float | tuple[float, ...]


@dataclass(frozen=True)
class _Sorted:
    """The values of all groups, sorted within each; ``descending`` turns the order around."""

    values: pa.Array
    groups: Groups
    descending: bool

    def rows(self, places: np.ndarray) -> np.ndarray:
        """The row of the value at a place of each group, counted from 0; any row for empty groups."""
        start, end = self.groups.offsets[:-1], self.groups.offsets[1:]
        positions = end - 1 - places if self.descending else start + places
        inside: np.ndarray = np.clip(positions, 0, max(len(self.values) - 1, 0))
        return inside


def _sorted(lists: pa.Array, descending: bool) -> _Sorted:
    values, groups = exploded(lists)
    order = np.argsort(ranks(values))
    by_group = Groups(groups.ids[order], groups.count).order
    order = order if by_group is None else order[by_group]
    return _Sorted(values.take(pa.array(order)), groups, descending)


def interpolated(source: Source, type_: pa.DataType, percentages: Percentages, *, descending: bool = False) -> Plan:
    """The plan of PERCENTILE and PERCENTILE_CONT: the value at position ``percentage * (count - 1)`` of the sorted
    values, interpolated linearly between two neighbours.
    """
    return Plan((Values(source, (type_,)),), partial(_interpolated, percentages, descending))


def _interpolated(percentages: Percentages, descending: bool, lists: pa.Array) -> pa.Array:
    by_group = _sorted(lists, descending)
    numbers, missing = doubles_of(by_group.values), by_group.groups.empty
    return _for_each(percentages, lambda p: column_of(_between(by_group, numbers, p), pa.float64(), missing), missing)


def _between(by_group: _Sorted, numbers: np.ndarray, percentage: float) -> np.ndarray:
    if not len(numbers):
        return np.zeros(by_group.groups.count)
    position = np.maximum(by_group.groups.sizes - 1, 0) * percentage
    low, high = np.floor(position), np.ceil(position)
    lower, upper = (numbers[by_group.rows(p.astype(np.int64))] for p in (low, high))
    same = (low == high) | (lower == upper)
    between: np.ndarray = np.where(same, lower, (high - position) * lower + (position - low) * upper)
    return between


def weighted(source: Source, types: Sequence[pa.DataType], percentages: Percentages) -> Plan:
    """The plan of PERCENTILE with frequencies: the first column of ``source`` has values, the second says how often
    each counts. The result is interpolated linearly between two neighbours.
    """
    return Plan((Values(source, tuple(types)),), partial(_weighted, percentages))


def _weighted(percentages: Percentages, lists: pa.Array) -> pa.Array:
    pairs, groups = exploded(lists)
    values, frequencies = members(pairs, 2)
    times = frequencies.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if (times < 0).any():
        hint = "Filter such rows out: PERCENTILE(x, 0.5, n) FILTER (WHERE n >= 0)."
        raise ExecutionError(NEGATIVE, f"a frequency of PERCENTILE is negative: {times.min()}", hint=hint)
    order = np.lexsort((ranks(values), groups.ids))
    numbers, times = doubles_of(values.take(pa.array(order))), times[order]
    ends = np.cumsum(times)
    before = np.concatenate(([0], ends))[groups.offsets]
    sizes, start = np.diff(before), before[:-1]

    def between(percentage: float) -> np.ndarray:
        if not len(numbers):
            return np.zeros(groups.count)
        place = np.maximum(sizes - 1, 0) * percentage
        low, high = np.floor(place), np.ceil(place)
        rows = (np.searchsorted(ends, start + p.astype(np.int64), side="right") for p in (low, high))
        lower, upper = (numbers[np.minimum(indices, len(numbers) - 1)] for indices in rows)
        same = (low == high) | (lower == upper)
        result: np.ndarray = np.where(same, lower, (high - place) * lower + (place - low) * upper)
        return result

    missing = sizes == 0
    return _for_each(percentages, lambda p: column_of(between(p), pa.float64(), missing), missing)


def discrete(source: Source, type_: pa.DataType, percentages: Percentages, *, descending: bool = False) -> Plan:
    """The plan of PERCENTILE_DISC: the first of the sorted values whose cumulative share of the rows is at least
    ``percentage``.
    """
    return Plan((Values(source, (type_,)),), partial(_discrete, percentages, descending))


def _discrete(percentages: Percentages, descending: bool, lists: pa.Array) -> pa.Array:
    by_group = _sorted(lists, descending)
    sizes, missing = by_group.groups.sizes, by_group.groups.empty

    def picked(percentage: float) -> pa.Array:
        places = np.maximum(np.ceil(sizes * percentage), 1).astype(np.int64) - 1
        return by_group.values.take(pa.array(by_group.rows(places), mask=missing))

    return _for_each(percentages, picked, missing)


def _for_each(percentages: Percentages, result: Callable[[float], pa.Array], missing: np.ndarray) -> pa.Array:
    """The result of one percentage, or a list of those of several; NULL for empty groups."""
    if isinstance(percentages, float):
        return result(percentages)
    columns, groups = [result(p) for p in percentages], len(missing)
    by_group = np.arange(len(columns) * groups).reshape(len(columns), groups).T.ravel()
    offsets = pa.array(np.arange(groups + 1, dtype=np.int32) * len(columns))
    values = pa.concat_arrays(columns).take(pa.array(by_group))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(missing))


def mode(source: Source, type_: pa.DataType, *, least: bool, greatest: bool) -> Plan:
    """The plan of MODE: the most frequent value; of several such values the least, the greatest, or else the one that
    appeared first.
    """
    return Plan((Values(source, (type_,)),), partial(_mode, least, greatest))


def _mode(least: bool, greatest: bool, lists: pa.Array) -> pa.Array:
    values, groups = exploded(lists)
    ids, first = numbered((values,), groups)
    if least or greatest:
        places = ranks(values.take(pa.array(first)))
        order = np.argsort(-places if greatest else places, kind="stable")
    else:
        order = np.arange(len(first))
    counts, candidates = np.bincount(ids, minlength=len(first))[order], first[order]
    picked = first_extreme(counts, Groups(groups.ids[candidates], groups.count), greatest=True)
    return values.take(pa.array(candidates).take(picked))
