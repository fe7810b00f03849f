"""PERCENTILE, MEDIAN, PERCENTILE_CONT, PERCENTILE_DISC, PERCENTILE_APPROX and MODE.

All keep every value of a group; the approximate percentile is exact here, whatever accuracy is asked for, so that it
lies within the error that Spark allows itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.aggregates.accumulator import Plan
from sqlstream.udfs.aggregates.distinct import numbered
from sqlstream.udfs.aggregates.extremes import first_extreme
from sqlstream.udfs.aggregates.groups import Groups, Source
from sqlstream.udfs.aggregates.lists import Values, exploded, members
from sqlstream.udfs.aggregates.numbers import column_of, doubles_of
from sqlstream.udfs.aggregates.ordering import ranks

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
    """The value at ``percentage * (count - 1)``, between two values as far as that lies between two places."""
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
    """As ``interpolated``, of values of which each counts as often as the second column says."""
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
    """The first value that at least ``percentage`` of the values do not exceed."""
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
    """The most frequent value; of several the least, the greatest, or else the one that appeared first."""
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
