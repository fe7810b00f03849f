"""The panes of aligned windows: intervals that no bound of a window cuts, so that windows share their contents.

All times here are local times of the windows' zone, int64 microseconds; watermarks are instants. A window is identified
by its end: the ends of TUMBLE, HOP and CUMULATE are one ``step`` apart. A pane is identified by its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners import Cumulate, Hop, Tumble
from sqlstream.udfs.assigners.assigner import Flags, Times, end_of
from sqlstream.udfs.kernel import MOST_RESULTS
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.chunked import ChunkedState
from sqlstream.udfs.windows.ranges import Indices, Ranges, merge_ranges, number, rows_below, stable_order

CLOSES_BEFORE_END = 1_000
"""A window closes when the clock reaches its end minus one millisecond."""

_FAR = 2**62


@dataclass(frozen=True)
class Panes:
    """The panes of windows of ``size`` that end every ``step``; ``cumulative`` ones begin every ``size`` and grow by a
    step.
    """

    step: int
    size: int
    offset: int
    zone: str | None
    cumulative: bool = False

    @staticmethod
    def of(assigner: Tumble | Hop | Cumulate) -> Panes:
        match assigner:
            case Tumble():
                return Panes(assigner.size, assigner.size, assigner.offset, assigner.zone)
            case Hop():
                assert assigner.slide <= assigner.size, "the binder refuses a slide that exceeds the size"
                return Panes(assigner.slide, assigner.size, assigner.offset, assigner.zone)
            case Cumulate():
                return Panes(assigner.step, assigner.size, assigner.offset, assigner.zone, cumulative=True)

    @property
    def shared(self) -> bool:
        """Whether several windows share a pane; for TUMBLE each pane is a window."""
        return self.step != self.size

    # --- panes ------------------------------------------------------------------------------------------------

    def start(self, time: Times) -> Times:
        """The start of the pane of each time. Windows whose size is not a multiple of the slide divide each slide into
        two panes.
        """
        start = floor(time, self.step, self.offset)
        rest = 0 if self.cumulative else self.size % self.step
        return start + np.where(time - start >= rest, rest, 0) if rest else start

    def first_end(self, pane: Times) -> Times:
        """The end of the first window that contains the pane."""
        return floor(pane, self.step, self.offset + self.size) + self.step

    def last_end(self, pane: Times) -> Times:
        """The end of the last window that contains the pane."""
        if self.cumulative:
            return floor(pane, self.size, self.offset) + self.size
        return floor(pane + self.size, self.step, self.offset + self.size)

    def first_open(self, pane: Times, clock: int) -> Times:
        """The end of the first window of each pane that has not closed; beyond its ``last_end`` where all have."""
        first, last = self.first_end(pane), self.last_end(pane)
        if self.zone is not None:
            return self._search_open(first, last, clock)
        reached = min(max(clock, -_FAR), _FAR) + CLOSES_BEFORE_END
        opened = self.first_end(np.array([reached], np.int64))
        return np.minimum(np.maximum(opened, first), last + self.step)

    def _search_open(self, first: Times, last: Times, clock: int) -> Times:
        """Bisection over the windows of each pane: clocks that change make their ends unpredictable, never disorder."""
        low, high = np.zeros(len(first), np.int64), (last - first) // self.step + 1
        while (low < high).any():
            middle = (low + high) // 2
            is_closed = self.closing_time(np.minimum(first + middle * self.step, last)) <= clock
            low, high = np.where(is_closed & (low < high), middle + 1, low), np.where(is_closed, high, middle)
        return first + low * self.step

    # --- windows ----------------------------------------------------------------------------------------------

    def window_start(self, end: Times) -> Times:
        return floor(end - 1, self.size, self.offset) if self.cumulative else end - self.size

    def repeats(self, end: Times) -> Flags:
        """True where a window of CUMULATE equals the previous one, because both ends lie in an hour that the clock
        skips.
        """
        if not self.cumulative:
            return np.zeros(len(end), bool)
        before = end - self.step
        ends_together: Flags = end_of(before, self.zone) == end_of(end, self.zone)
        return ends_together & (before > self.window_start(end))

    def closing_time(self, end: Times) -> Times:
        """The instant at which the watermark, or the clock, closes the window."""
        return end_of(end, self.zone) - CLOSES_BEFORE_END


def floor(time: Times, period: int, offset: int) -> Times:
    """The greatest multiple of ``period``, shifted by the offset, that is not after each time."""
    # Division by a constant is vectorised in numpy, the remainder is not.
    return (time - offset) // period * period + offset


# --- stored panes: accumulators per pane and key, appended in chunks and merged when read ---------------------


MOST_PARTS = 16
"""A pane of more parts is merged once it has grown to twice its size, or right away while it is small."""

SMALL_ROWS = 2_048


@dataclass(frozen=True)
class Entries:
    """The contents of panes, one row per pane and key: by pane, which is a position among ``panes``, then by first
    appearance of the key.
    """

    rows: pa.Table
    panes: Times
    pane: Indices
    key: Indices
    key_count: int

    def by_key(self) -> tuple[Entries, Indices]:
        """The entries sorted by key, then by pane; and the original index of each."""
        order = stable_order(self.key, self.key_count)
        return Entries(self.rows.take(pa.array(order)), self.panes, self.pane[order], self.key[order],
                       self.key_count), order  # fmt: skip

    def of_pane(self, position: int) -> pa.Table:
        start, stop = np.searchsorted(self.pane, (position, position + 1))
        return self.rows.slice(start, stop - start)


def read_entries(state: ChunkedState, panes: Times, keys: Sequence[str], aggregates: Aggregates) -> Entries:
    """The contents of panes, merged; panes that merging makes smaller are replaced in the state."""
    tables = state.read(panes)
    pane_tables = [tables[int(pane)] for pane in panes]
    sizes = np.array([table.num_rows for table in pane_tables], np.int64)
    rows = pa.concat_tables(pane_tables).combine_chunks()
    pane = np.repeat(np.arange(len(panes)), sizes)
    entries = merged(rows, panes, pane, keys, aggregates)
    left = np.bincount(entries.pane, minlength=len(panes))
    for position in np.flatnonzero(left < sizes).tolist():
        state.replace(int(panes[position]), entries.of_pane(position))
    return entries


def merged(rows: pa.Table, panes: Times, pane: Indices, keys: Sequence[str], aggregates: Aggregates) -> Entries:
    """Merge rows of equal pane and key. ``pane``: the pane of each row, ascending."""
    ids = dense_ids(rows, keys)
    cells = number(pane * ids.count + ids.ids, len(panes) * ids.count)
    if cells.count == rows.num_rows:
        return Entries(rows, panes, pane, ids.ids, ids.count)
    first = pa.array(cells.first)
    values = aggregates.merge(rows.select(aggregates.accumulators.names), cells.ids, cells.count)
    columns = [rows.column(key).take(first) for key in keys] + values.columns
    table = pa.Table.from_arrays(columns, schema=rows.schema)
    return Entries(table, panes, pane[cells.first], ids.ids[cells.first], ids.count)


def compact(state: ChunkedState, panes: Times, keys: Sequence[str], aggregates: Aggregates) -> None:
    """Merge the stored chunks of panes that were appended to often; the amortized cost is constant for each appended
    row.
    """
    due = [int(pane) for pane in panes if _is_fragmented(state, int(pane))]
    if due:
        read_entries(state, np.array(due, np.int64), keys, aggregates)


def _is_fragmented(state: ChunkedState, pane: int) -> bool:
    parts, rows, base = state.extent(pane)
    return parts > MOST_PARTS and (rows >= 2 * base or base <= SMALL_ROWS)


# --- results of the windows that close together, merged from the panes they share -----------------------------


class Firing(NamedTuple):
    """Results of closed windows in order: the keys and accumulators of each, and the end of its window."""

    keys: pa.Table
    accumulators: pa.Table
    end: Times


class Due(NamedTuple):
    """Closed windows: those that end in ``[begin, stop)`` of each pane of the entries."""

    entries: Entries
    begin: Times
    stop: Times


@dataclass(frozen=True)
class PaneResults:
    """The results of windows that have closed: by end, then by first appearance of the key."""

    due: Due
    panes: Panes
    keys: Sequence[str]
    aggregates: Aggregates

    @cached_property
    def count(self) -> int:
        """The number of results; windows that end together in an hour that the clock skips count twice."""
        if not self.panes.shared:
            return int(self.due.entries.rows.num_rows)
        return int(self._spans.counts(self.panes.step).sum())

    def parts(self) -> Iterator[Firing]:
        """All results, in parts of about MOST_RESULTS."""
        if not self.panes.shared:
            entries = self.due.entries
            end = self.panes.last_end(entries.panes)[entries.pane]
            yield Firing(entries.rows.select(self.keys), entries.rows, end)
            return
        ordered = self._spans.ordered
        parts, of_keys = ordered.rows.select(self.aggregates.accumulators.names), ordered.rows.select(self.keys)
        for low, high in self._spans.stretches(self.panes.step):
            start, end = self._spans.first_entries(self.panes, low, high)
            if len(start):
                ranges = Ranges(start, _stops(ordered, start, end))
                yield Firing(
                    of_keys.take(pa.array(start)), merge_ranges(self.aggregates, parts, ordered.key, ranges), end
                )

    @cached_property
    def _spans(self) -> _Spans:
        return _spans(self.due, self.panes)


class _Spans(NamedTuple):
    """The entries by key, then by pane (``ordered``), and their order of ``arrival``. Each is the first entry of its
    key in the windows that end in ``[since, until)``."""

    ordered: Entries
    arrival: Indices
    since: Times
    until: Times

    def counts(self, step: int) -> Indices:
        """For each entry the number of windows in which it is the first one of its key."""
        window_counts: Indices = np.maximum((self.until - self.since) // step, 0)
        return window_counts

    def stretches(self, step: int) -> Iterator[tuple[int, int]]:
        """All ends of windows as ``[low, high)``, each with MOST_RESULTS or little more results; no key has any between
        them."""
        width = max(1, MOST_RESULTS // max(self.ordered.key_count, 1)) * step
        left = self
        while (left.until > left.since).any():
            low, end = int(left.since[left.until > left.since].min()), int(left.until.max())
            high = low + width if int(left.counts(step).sum()) > MOST_RESULTS else end
            yield low, high
            left = left._replace(since=np.maximum(left.since, high))

    def first_entries(self, panes: Panes, low: int, high: int) -> tuple[Indices, Times]:
        """For each key and window that ends in ``[low, high)`` the first entry of the key in the window, and the
        window's end, in order of firing."""
        since = np.maximum(self.since, low)
        here = self._replace(since=since, until=np.minimum(self.until, high))
        counts = here.counts(panes.step)[self.arrival]
        first = np.repeat(self.arrival, counts)
        nth = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        end = since[first] + nth * panes.step
        window = (end - end.min(initial=end[0] if len(end) else 0)) // panes.step
        order = stable_order(window, int(window.max(initial=0)) + 1)
        if panes.zone is not None:
            order = order[~panes.repeats(end[order])]
        return first[order], end[order]


def _spans(due: Due, panes: Panes) -> _Spans:
    entries, was = due.entries.by_key()
    since = due.begin[entries.pane]
    held = panes.last_end(entries.panes)[entries.pane[:-1]] + panes.step
    is_same = entries.key[1:] == entries.key[:-1]
    since[1:] = np.where(is_same, np.maximum(since[1:], held), since[1:])
    arrival = np.empty_like(was)
    arrival[was] = np.arange(len(was))
    return _Spans(entries, arrival, since, due.stop[entries.pane])


def _stops(entries: Entries, first: Indices, end: Times) -> Indices:
    """For each entry the position after the last one of its key in a pane before the end of the window."""
    pane_count = len(entries.panes)
    codes = entries.key * pane_count + entries.pane
    beyond = entries.key[first] * pane_count + np.searchsorted(entries.panes, end, side="left")
    return rows_below(codes, beyond, entries.key_count * pane_count)


def collapse(
    state: ChunkedState, entries: Entries, panes: Panes, clock: int, keys: Sequence[str], aggregates: Aggregates
) -> None:
    """Merges panes that all future windows of a CUMULATE contain together."""
    opened, last = panes.first_open(entries.panes, clock), panes.last_end(entries.panes)
    together = np.flatnonzero((opened <= last) & (entries.panes < opened - panes.step))
    _, leader, sizes = np.unique(last[together], return_index=True, return_counts=True)
    leaders = np.full(len(entries.panes), -1, np.int64)
    leaders[together] = together[np.repeat(leader, sizes)]
    chosen = leaders[entries.pane] >= 0
    moved = leaders[entries.pane[chosen]]
    collapsed = merged(entries.rows.filter(pa.array(chosen)), entries.panes, moved, keys, aggregates)
    for position in together[leader[sizes > 1]]:
        state.replace(int(entries.panes[position]), collapsed.of_pane(position))
    for position in together[leaders[together] != together]:
        state.replace(int(entries.panes[position]), None)
