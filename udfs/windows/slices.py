"""What count windows store: accumulators of slices that windows share, or the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners.assigner import Times
from sqlstream.udfs.windows.functions import AllRows
from sqlstream.udfs.windows.merging import merge_ranges
from sqlstream.udfs.windows.numbering import runs
from sqlstream.udfs.windows.ranges import Indices, Ranges, expanded

TIME = "__time"
"""BIGINT column that the kernel adds to the rows: their times."""


class WindowResults(NamedTuple):
    """Result rows by window, the window of each, and the times of the oldest and newest row of each window."""

    rows: pa.Table
    window: Indices
    oldest: Times
    newest: Times


class Slices(Protocol):
    """``width``: the rows of a key that are kept as one."""

    @property
    def width(self) -> int: ...

    @property
    def kept(self) -> pa.Schema:
        """The columns of a slice."""
        ...

    @property
    def results(self) -> pa.Schema: ...

    def lift(self, rows: pa.Table, groups: Indices, count: int) -> pa.Table:
        """Slices of rows: ``groups`` is the slice of each row, in order of arrival."""
        ...

    def merge(self, slices: pa.Table, groups: Indices, count: int) -> pa.Table: ...

    def window_results(self, slices: pa.Table, owner: Indices, ranges: Ranges) -> WindowResults:
        """The results for ranges of slices, which are sorted by their key (``owner``)."""
        ...


@dataclass(frozen=True)
class AggregateSlices:
    """Accumulators, with the least and the greatest time."""

    aggregates: Aggregates
    width: int

    @property
    def kept(self) -> pa.Schema:
        return self._timed.accumulators

    @property
    def results(self) -> pa.Schema:
        return self.aggregates.results

    def lift(self, rows: pa.Table, groups: Indices, count: int) -> pa.Table:
        return self._timed.lift(rows, groups, count)

    def merge(self, slices: pa.Table, groups: Indices, count: int) -> pa.Table:
        return self._timed.merge(slices, groups, count)

    def window_results(self, slices: pa.Table, owner: Indices, ranges: Ranges) -> WindowResults:
        finished = self._timed.finish(merge_ranges(self._timed, slices, owner, ranges))
        oldest, newest = (finished.column(name).to_numpy() for name in _BOUNDS)
        return WindowResults(finished.select(self.results.names), np.arange(len(oldest)), oldest, newest)

    @cached_property
    def _timed(self) -> Aggregates:
        bounds = (
            AggregateCall(name, function, (TIME,), pa.int64())
            for name, function in zip(_BOUNDS, ("min", "max"), strict=True)
        )
        columns = pa.schema([*self.aggregates.input, pa.field(TIME, pa.int64())])
        return Aggregates((*self.aggregates.calls, *bounds), columns)


_BOUNDS = ("__oldest", "__newest")


@dataclass(frozen=True)
class RowSlices:
    """The rows themselves, with their times. ``input``: the schema of the rows."""

    function: AllRows
    input: pa.Schema
    width: int = 1

    @cached_property
    def kept(self) -> pa.Schema:
        """The names are hidden, because the state has the keys under theirs."""
        columns = [(f"__column_{i}", field.type) for i, field in enumerate(self.results)]
        return pa.schema([*columns, (TIME, pa.int64())])

    @cached_property
    def results(self) -> pa.Schema:
        return pa.schema([(name, self.input.field(name).type) for name in self.function.columns])

    def lift(self, rows: pa.Table, groups: Indices, count: int) -> pa.Table:
        named = rows.select([*self.function.columns, TIME])
        return self.merge(pa.Table.from_arrays(named.columns, schema=self.kept), groups, count)

    def merge(self, slices: pa.Table, groups: Indices, count: int) -> pa.Table:
        assert count == slices.num_rows, "each row is a slice"
        row = np.empty(count, np.int64)
        row[groups] = np.arange(count)
        return slices.take(pa.array(row))

    def window_results(self, slices: pa.Table, owner: Indices, ranges: Ranges) -> WindowResults:
        pairs = expanded(ranges)
        rows, starts = slices.take(pa.array(pairs.row)), runs(pairs.owner).start
        times = rows.column(TIME).to_numpy()
        oldest, newest = np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)
        result_rows = pa.Table.from_arrays(rows.columns[:-1], schema=self.results)
        return WindowResults(result_rows, pairs.owner, oldest, newest)


def slices_of(function: Aggregates | AllRows, input_: pa.Schema, width: int) -> Slices:
    """``width``: the most rows that all windows hold or leave out together."""
    return RowSlices(function, input_) if isinstance(function, AllRows) else AggregateSlices(function, width)
