"""The windows that close together, put together from the panes they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners.assigner import Times
from sqlstream.udfs.state.chunked import ChunkedState
from sqlstream.udfs.windows.merging import merge_ranges
from sqlstream.udfs.windows.numbering import rows_below, stable_order
from sqlstream.udfs.windows.pane_contents import Entries, merged
from sqlstream.udfs.windows.panes import Panes
from sqlstream.udfs.windows.ranges import Indices, Ranges

MOST_RESULTS = 2**18
"""Results that are held at once; more come out in several tables."""


class Firing(NamedTuple):
    """Results in order: the keys and accumulators of each, and the end of its window."""

    keys: pa.Table
    accumulators: pa.Table
    end: Times


def firings(
    entries: Entries, panes: Panes, begin: Times, stop: Times, keys: Sequence[str], aggregates: Aggregates
) -> Iterator[Firing]:
    """The windows that end in ``[begin, stop)`` of each pane: by end, then by first appearance of the key."""
    if not panes.shared:
        yield Firing(entries.rows.select(keys), entries.rows, panes.last_end(entries.panes)[entries.pane])
        return
    ordered, was = entries.by_key()
    names = aggregates.accumulators.names
    parts, of_keys = ordered.rows.select(names), ordered.rows.select(keys)
    first, end = _first_entries(ordered, was, panes, begin, stop)
    for at in range(0, len(first), MOST_RESULTS):
        start, of_end = first[at : at + MOST_RESULTS], end[at : at + MOST_RESULTS]
        values = merge_ranges(aggregates, parts, ordered.key, Ranges(start, _stops(ordered, start, of_end)))
        yield Firing(of_keys.take(pa.array(start)), values, of_end)


def _first_entries(entries: Entries, was: Indices, panes: Panes, begin: Times, stop: Times) -> tuple[Indices, Times]:
    """For each window and key the first entry of the key in the window, and the window's end, in order of firing."""
    since = begin[entries.pane]
    held = panes.last_end(entries.panes)[entries.pane[:-1]] + panes.step
    is_same = entries.key[1:] == entries.key[:-1]
    since[1:] = np.where(is_same, np.maximum(since[1:], held), since[1:])
    counts = np.maximum((stop[entries.pane] - since) // panes.step, 0)
    arrival = np.empty_like(was)
    arrival[was] = np.arange(len(was))
    first = np.repeat(arrival, counts[arrival])
    nth = np.arange(len(first)) - np.repeat(np.cumsum(counts[arrival]) - counts[arrival], counts[arrival])
    end = since[first] + nth * panes.step
    window = (end - end.min(initial=end[0] if len(end) else 0)) // panes.step
    order = stable_order(window, int(window.max(initial=0)) + 1)
    if panes.zone is not None:
        order = order[~panes.repeats(end[order])]
    return first[order], end[order]


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
    found = merged(entries.rows.filter(pa.array(chosen)), entries.panes, moved, keys, aggregates)
    for position in together[leader[sizes > 1]]:
        state.replace(int(entries.panes[position]), found.of_pane(position))
    for position in together[leaders[together] != together]:
        state.replace(int(entries.panes[position]), None)
