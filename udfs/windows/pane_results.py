"""The windows that close together, put together from the panes they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners.assigner import Times
from sqlstream.udfs.kernel import MOST_RESULTS
from sqlstream.udfs.state.chunked import ChunkedState
from sqlstream.udfs.windows.merging import merge_ranges
from sqlstream.udfs.windows.numbering import rows_below, stable_order
from sqlstream.udfs.windows.pane_contents import Entries, merged
from sqlstream.udfs.windows.panes import Panes
from sqlstream.udfs.windows.ranges import Indices, Ranges


class Firing(NamedTuple):
    """Results in order: the keys and accumulators of each, and the end of its window."""

    keys: pa.Table
    accumulators: pa.Table
    end: Times


class Due(NamedTuple):
    """The windows that end in ``[begin, stop)`` of each pane of the entries have closed."""

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
        """How many there are; windows that end together in an hour that the clock skips count twice."""
        if not self.panes.shared:
            return int(self.due.entries.rows.num_rows)
        return int(self._spans.counts(self.panes.step).sum())

    def parts(self) -> Iterator[Firing]:
        """All of them, MOST_RESULTS or little more at once."""
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
    """``ordered``: the entries by key, then by pane; ``arrival`` says in which order they were. Each is the first entry
    of its key in the windows that end in ``[since, until)``."""

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
    """Behind the last entry of the first one's key in a pane before the end."""
    pane_count = len(entries.panes)
    codes = entries.key * pane_count + entries.pane
    beyond = entries.key[first] * pane_count + np.searchsorted(entries.panes, end, side="left")
    return rows_below(codes, beyond, entries.key_count * pane_count)


def collapse(
    state: ChunkedState, entries: Entries, panes: Panes, clock: int, keys: Sequence[str], aggregates: Aggregates
) -> None:
    """Makes one pane of those that all windows to come of a CUMULATE hold together."""
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
