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
    """How time is divided into panes, the longest intervals that every window contains completely or not at all.
    Overlapping windows share the accumulators of panes.

    Windows have the length ``size`` and end every ``step``, in microseconds. ``cumulative`` ones begin every ``size``
    and grow by a step.
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
        """True if several windows share a pane; for TUMBLE each pane is a window."""
        return self.step != self.size

    # --- panes ------------------------------------------------------------------------------------------------

    def start(self, time: Times) -> Times:
        """For each time the start of its pane, in microseconds. Windows whose size is not a multiple of the slide
        divide each slide into two panes.
        """
        start = floor(time, self.step, self.offset)
        rest = 0 if self.cumulative else self.size % self.step
        return start + np.where(time - start >= rest, rest, 0) if rest else start

    def first_end(self, pane: Times) -> Times:
        """For each pane, given by its start, the end of the first window that contains it, in microseconds."""
        return floor(pane, self.step, self.offset + self.size) + self.step

    def last_end(self, pane: Times) -> Times:
        """For each pane, given by its start, the end of the last window that contains it, in microseconds."""
        if self.cumulative:
            return floor(pane, self.size, self.offset) + self.size
        return floor(pane + self.size, self.step, self.offset + self.size)

    def first_open(self, pane: Times, clock: int) -> Times:
        """For each pane, given by its start, the end of the first window containing it that has not closed at ``clock``
        (microseconds); beyond ``last_end`` if all have closed.
        """
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
        """One boolean per window end: true if the window of CUMULATE equals the previous one, because both ends lie in
        an hour that daylight saving skips.
        """
        if not self.cumulative:
            return np.zeros(len(end), bool)
        before = end - self.step
        ends_together: Flags = end_of(before, self.zone) == end_of(end, self.zone)
        return ends_together & (before > self.window_start(end))

    def closing_time(self, end: Times) -> Times:
        """For each window end the instant, in microseconds, at which the watermark or the clock closes the window."""
        return end_of(end, self.zone) - CLOSES_BEFORE_END


def floor(time: Times, period: int, offset: int) -> Times:
    """For each time the last multiple of ``period``, shifted by ``offset``, at or before it; all in microseconds."""
    # Division by a constant is vectorised in numpy, the remainder is not.
    return (time - offset) // period * period + offset


# --- stored panes: accumulators per pane and key, appended in chunks and merged when read ---------------------


MOST_PARTS = 16
"""A pane of more parts is merged once it has grown to twice its size, or right away while it is small."""

SMALL_ROWS = 2_048


@dataclass(frozen=True)
class Entries:
    """The contents of panes: one row for each pane and key, sorted by pane, then by first appearance of the key.
    ``pane`` has the index of each row's pane in ``panes``.
    """

    rows: pa.Table
    panes: Times
    pane: Indices
    key: Indices
    key_count: int

    def by_key(self) -> tuple[Entries, Indices]:
        """Returns a pair: these entries with their rows sorted by key, then by pane; and the index that each of these
        rows had before.
        """
        order = stable_order(self.key, self.key_count)
        return Entries(self.rows.take(pa.array(order)), self.panes, self.pane[order], self.key[order],
                       self.key_count), order  # fmt: skip

    def of_pane(self, position: int) -> pa.Table:
        start, stop = np.searchsorted(self.pane, (position, position + 1))
        return self.rows.slice(start, stop - start)


def read_entries(state: ChunkedState, panes: Times, keys: Sequence[str], aggregates: Aggregates) -> Entries:
    """Loads the contents of ``panes``, which are given by their starts. Stored rows of equal pane and key are merged;
    panes that merging makes smaller are replaced in the state.
    """
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
    """Merges rows of equal pane and key: in the result each pane has one row per key. ``panes``: the starts of the
    panes; ``pane``: for each row the index of its pane in these, ascending.
    """
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
    """Merges the stored chunks of panes to which rows were appended often. The amortized cost is constant for each
    appended row.
    """
    due = [int(pane) for pane in panes if _is_fragmented(state, int(pane))]
    if due:
        read_entries(state, np.array(due, np.int64), keys, aggregates)


def _is_fragmented(state: ChunkedState, pane: int) -> bool:
    parts, rows, base = state.extent(pane)
    return parts > MOST_PARTS and (rows >= 2 * base or base <= SMALL_ROWS)


# --- results of the windows that close together, merged from the panes they share -----------------------------


class Firing(NamedTuple):
    """Results of windows that have closed, one per key and window, in order: their keys, their accumulators, and the
    end of the window in microseconds.
    """

    keys: pa.Table
    accumulators: pa.Table
    end: Times


class Due(NamedTuple):
    """The windows that close in a call. For each pane of ``entries`` they are those that contain the pane and whose end
    is in ``[begin, stop)``, in microseconds.
    """

    entries: Entries
    begin: Times
    stop: Times


@dataclass(frozen=True)
class PaneResults:
    """Computes the results of windows that have closed, sorted by the window's end, then by first appearance of the
    key.
    """

    due: Due
    panes: Panes
    keys: Sequence[str]
    aggregates: Aggregates

    @cached_property
    def count(self) -> int:
        """The number of results. It is too high where two windows of CUMULATE end at the same instant, in an hour that
        daylight saving skips: the result is emitted once and counted twice.
        """
        if not self.panes.shared:
            return int(self.due.entries.rows.num_rows)
        return int(self._spans.counts(self.panes.step).sum())

    def parts(self) -> Iterator[Firing]:
        """Yields all results in order, as ``Firing``s of about MOST_RESULTS results each."""
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
    """Merges stored panes of a CUMULATE window into one, where all future windows contain either all or none of them,
    so that the state gets smaller. Replaces these ``entries`` in ``state``; ``panes`` tells the bounds of panes.
    ``clock`` is the watermark or the processing time in microseconds.
    """
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
