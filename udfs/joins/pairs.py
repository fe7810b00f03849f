"""Pairs of rows of two tables with equal keys and, if they have times, with times within given bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs import keys as sorting
from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import Expression
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.windows.ranges import Ranges, expanded

Indices = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]

MOST_PAIRS = 2**18
"""The number of pairs per block, unless a single row has more."""


class Pairs(NamedTuple):
    """Pairs of matching rows of two tables, as two arrays of row indices, sorted by the left, then by the right
    index.
    """

    left: Indices
    right: Indices


class Bounds(NamedTuple):
    """The bounds of an interval join: ``lower <= left time - right time <= upper``, in microseconds."""

    lower: int
    upper: int


def joinable(rows: pa.Table, keys: Sequence[str], null_safe: Sequence[bool]) -> np.ndarray:
    """One boolean per row: true if it may have a partner, that is, no key column is NULL except those that are
    ``null_safe``.
    """
    may_match = np.ones(rows.num_rows, np.bool_)
    for name, safe in zip(keys, null_safe, strict=True):
        column = rows.column(name)
        if not safe and column.null_count:
            may_match &= np.asarray(pc.is_valid(column))
    return may_match


def matching(
    left: pa.Table,
    right: pa.Table,
    keys: Sequence[str],
    times: tuple[Times, Times],
    bounds: Bounds,
) -> Iterator[Pairs]:
    """The pairs of rows with equal ``keys``, which are columns of both tables, in blocks of about MOST_PAIRS.

    All rows must be ``joinable``. ``times``: the times of the rows of each table; pairs are within the ``bounds``.
    """
    if not left.num_rows or not right.num_rows:
        return
    order, start, stop = _in_bounds(*numbered(left, right, keys), *times, bounds)
    yield from expanded_pairs(start, stop, order)


def numbered(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> tuple[Indices, Indices]:
    """Returns two arrays, an integer id for each row of the left and of the right table. Rows that are equal in
    ``columns`` have the same id, in both tables.
    """
    if not columns:
        return np.zeros(left.num_rows, np.int64), np.zeros(right.num_rows, np.int64)
    ids = dense_ids(pa.concat_tables([left.select(columns), right.select(columns)]), columns).ids
    return ids[: left.num_rows], ids[left.num_rows :]


def equal(of_left: Indices, of_right: Indices) -> Iterator[Pairs]:
    """The pairs of a left and a right row with equal ids, in blocks of about MOST_PAIRS. ``of_left`` and ``of_right``
    have the id of each row. Efficient if most ids have a partner.
    """
    if not len(of_left) or not len(of_right):
        return
    counts = np.bincount(of_right, minlength=int(of_left.max()) + 1)
    stop = np.cumsum(counts)[of_left]
    yield from expanded_pairs(stop - counts[of_left], stop, in_order(of_right))


def moved(pairs: Pairs, rows: Indices) -> Pairs:
    """The pairs with each left index ``i`` replaced by ``rows[i]``, for pairs that were computed from a selection of
    rows.
    """
    return Pairs(rows[pairs.left], pairs.right)


def in_order(ids: Indices) -> Indices:
    """The indices of ``ids`` sorted by id (stable). Ids below 65,536 are sorted by radix, which is faster."""
    small = len(ids) > 0 and int(ids.max()) < 2**16
    return np.argsort(ids.astype(np.uint16), kind="stable") if small else sorting.in_order([ids])


def newest(ordered: Indices, times: Times, probe_number: Indices, probe_time: Times, *, strict: bool) -> Indices:
    """For each probe the index of the newest entry with the same id whose time is at most (``strict``: less than) the
    probe's; -1 for none. Entries are sorted by id (``ordered`` has their ids), then by time.
    """
    if not len(ordered) or not len(probe_number):
        return np.full(len(probe_number), -1, np.int64)
    entry = places_of(ordered, times, probe_number, probe_time, after_equal=not strict) - 1
    return np.where((entry >= 0) & (ordered[entry] == probe_number), entry, -1)


def _in_bounds(
    of_left: Indices, of_right: Indices, left: Times, right: Times, bounds: Bounds
) -> tuple[Indices, Indices, Indices]:
    """The right rows in order of key and time, and the range of them that each left row matches.

    The left rows are searched in order as well: numpy sorts them faster than it searches in random order.
    """
    order = sorting.in_order([of_right, right])
    ordered, times = of_right[order], right[order]
    asked = sorting.in_order([of_left, left])
    of, at = of_left[asked], left[asked]
    start, stop = np.empty(len(asked), np.int64), np.empty(len(asked), np.int64)
    start[asked] = places_of(ordered, times, of, at - bounds.upper, after_equal=False)
    stop[asked] = places_of(ordered, times, of, at - bounds.lower, after_equal=True)
    return order, start, np.maximum(start, stop)


def places_of(keys: Indices, times: Times, probe_keys: Indices, probe_times: Times, *, after_equal: bool) -> Indices:
    """The positions at which rows with ``probe_keys`` and ``probe_times`` would be inserted among rows sorted by key,
    then by time: before equal rows or, with ``after_equal``, after them.
    """
    low, high = min(int(times.min()), int(probe_times.min())), max(int(times.max()), int(probe_times.max()))
    span = high - low + 2
    if span * (max(int(keys[-1]), int(probe_keys.max())) + 1) < 2**62:
        side: Literal["left", "right"] = "right" if after_equal else "left"
        return np.searchsorted(keys * span + (times - low), probe_keys * span + (probe_times - low), side=side)
    combined = np.concatenate([keys, probe_keys]), np.concatenate([times, probe_times])
    is_probe = np.repeat([False, True], [len(keys), len(probe_keys)])
    order = np.lexsort((is_probe if after_equal else ~is_probe, combined[1], combined[0]))
    before = np.cumsum(~is_probe[order])
    places = np.empty(len(probe_keys), np.int64)
    probes = is_probe[order]
    places[order[probes] - len(keys)] = before[probes]
    return places


def expanded_pairs(start: Indices, stop: Indices, order: Indices) -> Iterator[Pairs]:
    """The pairs of each left row ``i`` with the right rows ``order[start[i]:stop[i]]``, in blocks; a left row is never
    divided between two blocks.
    """
    for block in blocks(stop - start):
        pairs = expanded(Ranges(start[block], stop[block]))
        yield Pairs(pairs.owner + block.start, order[pairs.row])


def blocks(matches: Indices) -> Iterator[slice]:
    """Slices of rows that have about MOST_PAIRS ``matches`` together, and at least one; a row is never divided."""
    total = np.cumsum(matches)
    begin = 0
    while begin < len(total) and total[-1] > (done := total[begin - 1] if begin else 0):
        end = max(int(np.searchsorted(total, done + MOST_PAIRS, side="right")), begin + 1)
        if total[end - 1] > done:
            yield slice(begin, end)
        begin = end


# --- results: columns of both sides, of one side padded with NULL, or of the left side alone ------------------


@dataclass(frozen=True)
class Side:
    """One input of a join. ``outputs``: pairs of a result column's name and the ``input`` column that it copies.
    ``ttl``: how long a regular join stores a row after its arrival, in microseconds of processing time; 0: for ever.
    """

    input: pa.Schema
    outputs: tuple[tuple[str, str], ...]
    ttl: int = 0

    @property
    def updates(self) -> bool:
        """True if rows of this input may be retracted, so that the join may have to retract results."""
        return ROW_KIND in self.input.names


@dataclass(frozen=True)
class JoinResults:
    """Builds the result rows of a join, with columns in the order of ``schema``."""

    kind: JoinKind
    sides: tuple[Side, Side]

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        return pa.schema(
            [side.input.field(own).with_name(name) for side in self._emitted for name, own in side.outputs]
        )

    def of_pairs(self, left: pa.Table, right: pa.Table, pairs: Pairs) -> Iterator[pa.ChunkedArray]:
        """Yields the result columns, those of the left side first, with one row for each pair of rows. Only for kinds
        of joins whose results have columns of both sides.
        """
        for side, rows, row_indices in zip(self.sides, (left, right), pairs, strict=True):
            indices = pa.array(row_indices)
            yield from (rows.column(own).take(indices) for _, own in side.outputs)

    def alone(self, port: int, rows: pa.Table) -> Iterator[pa.ChunkedArray]:
        """Yields the result columns for ``rows`` without a partner, which are rows of the side ``port`` (0: left, 1:
        right); the columns of the other side are NULL.
        """
        for number, side in enumerate(self._emitted):
            for _, own in side.outputs:
                yield rows.column(own) if number == port else pa.nulls(rows.num_rows, side.input.field(own).type)

    @property
    def _emitted(self) -> tuple[Side, ...]:
        return self.sides if self.kind.pairs else self.sides[:1]


def fulfilling(
    pairs: Iterator[Pairs], condition: Expression | None, left: pa.Table, right: pa.Table
) -> Iterator[Pairs]:
    """Yields those of the ``pairs`` of rows of ``left`` and ``right`` for which the condition is true; all pairs if it
    is None.
    """
    if condition is None:
        yield from pairs
        return
    values = {c: _whole((left, right)[c.side].column(c.name)) for c in condition.columns}
    for pair in pairs:
        indices = pa.array(pair.left), pa.array(pair.right)
        chosen = is_true(condition, {c: column.take(indices[c.side]) for c, column in values.items()})
        if chosen.any():
            yield Pairs(pair.left[chosen], pair.right[chosen])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
