"""Merging of sessions: which windows of new rows and which stored sessions form one session. Flink's MergingWindowSet,
for all keys at once.

Windows ``[start, end)`` of one key merge when they intersect or touch: ``start <= other.end and other.start <= end``.
Rows are merged one after another in order of arrival. A row whose own window is late (``watermark >= end - 1 ms +
allowed``) is accepted if it touches a live session; otherwise it is late, even if a later row would have joined the
two. Every stored session is live, because the watermark has removed all others.

All keys are placed on one line, each in a range of its own, so that windows touch on the line exactly if they touch and
have the same key. A session is the union of windows that touch; it has no holes, so a row touches the session exactly
if it touches one of its windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sqlstream.udfs.assigners.assigner import Flags, RowIndices, Times

LATE = -1
MILLISECOND = 1000
_INT64 = np.iinfo(np.int64)
_STORED = -1
"""The arrival number of stored sessions, which precede all rows."""


class Windows(NamedTuple):
    """Windows and the number of the key of each, from 0. Windows of rows are in order of arrival."""

    key: RowIndices
    start: Times
    end: Times

    def __add__(self, other: object) -> Windows:
        assert isinstance(other, Windows)
        return Windows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class Sessions(NamedTuple):
    """The result of merging. ``windows``: the merged sessions, by key and start. ``row`` and ``stored``: the number of
    the session of each row and of each stored session; LATE for a late row."""

    windows: Windows
    row: RowIndices
    stored: RowIndices


def merge_sessions(stored: Windows, rows: Windows, watermark: int, allowed: int = 0) -> Sessions:
    """The sessions of ``stored`` sessions and ``rows``. ``watermark`` is NO_WATERMARK where no row can be late;
    ``allowed`` is the allowed lateness in microseconds."""
    in_time = taken_windows(stored, rows, watermark, allowed)
    if in_time.all():
        return merge_windows(stored, rows)
    return _with_late_rows(merge_windows(stored, Windows(*(column[in_time] for column in rows))), in_time)


def taken_windows(stored: Windows, rows: Windows, watermark: int, allowed: int = 0) -> Flags:
    """False for rows that are late."""
    late = late_windows(rows.end, watermark, allowed)
    return ~late | _rescued(stored, rows, late) if late.any() else ~late


def late_windows(end: Times, watermark: int, allowed: int) -> Flags:
    """True for ends of windows that the watermark has passed by the allowed lateness."""
    newest_late = min(max(watermark + MILLISECOND - allowed, _INT64.min), _INT64.max)
    return end <= newest_late


def merge_windows(stored: Windows, rows: Windows) -> Sessions:
    """The sessions of windows none of which is late."""
    combined = stored + rows
    if len(combined.key) == 0:
        return Sessions(combined, rows.key, stored.key)
    line = on_line(combined)
    order = np.argsort(line.start)
    start, reach = line.start[order], np.maximum.accumulate(line.end[order])
    first = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    session = np.empty(len(order), np.int64)
    session[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
    ends = np.maximum.reduceat(combined.end[order], first)
    leading = order[first]
    count = len(stored.key)
    return Sessions(Windows(combined.key[leading], combined.start[leading], ends), session[count:], session[:count])


def on_line(windows: Windows) -> Intervals:
    """The windows as intervals of one line, on which windows of different keys never touch."""
    key, start, end = windows
    if len(key) == 0:
        return Intervals(start, end)
    origin, length = int(start.min()), int(end.max()) - int(start.min()) + 2
    if length * (int(key.max()) + 1) > _INT64.max:
        # The line would be too long for times so far apart. Only their order matters, so ranks replace them.
        _, ranks = np.unique(np.concatenate((start, end)), return_inverse=True)
        start, end = np.split(ranks.astype(np.int64), 2)
        origin, length = 0, 2 * len(key) + 2
    offset = key * length - origin
    return Intervals(start + offset, end + offset)


def _rescued(stored: Windows, rows: Windows, late: Flags) -> Flags:
    """Late rows that meet a session which is live when they arrive.

    In each round those that meet what the round before has taken; at first, stored sessions and rows in time.
    """
    line = on_line(stored + rows)
    arrival = np.concatenate((np.full(len(stored.key), _STORED), np.arange(len(rows.key))))
    joined = np.concatenate((np.ones(len(stored.key), np.bool_), ~late))
    waiting, met = np.flatnonzero(~joined), np.flatnonzero(joined)
    while len(waiting) and len(met):
        earliest = earliest_meeting(line.take(waiting), line.take(met), arrival[met])
        live = earliest < arrival[waiting]
        met, waiting = waiting[live], waiting[~live]
        joined[met] = True
    return joined[len(stored.key) :]


def _with_late_rows(sessions: Sessions, in_time: Flags) -> Sessions:
    row = np.full(len(in_time), LATE, np.int64)
    row[in_time] = sessions.row
    return sessions._replace(row=row)


# --- intervals that touch -------------------------------------------------------------------------------------
# Two closed intervals touch exactly when one of them contains the start of the other. Both cases are minima over ranges
# of sorted starts, computed for all intervals at once with a table of minima over ranges of 1, 2, 4, … entries.


NEVER = np.iinfo(np.int64).max


class Intervals(NamedTuple):
    """Closed intervals ``[start, end]`` of a line."""

    start: Times
    end: Times

    def take(self, chosen: RowIndices) -> Intervals:
        """Some of the intervals, by index."""
        return Intervals(self.start[chosen], self.end[chosen])


def earliest_meeting(asked: Intervals, others: Intervals, arrival: RowIndices) -> RowIndices:
    """The least ``arrival`` among the ``others`` that touch each asked interval; NEVER if none does."""
    return np.minimum(_starting_within(asked, others, arrival), _holding_start(asked, others, arrival))


def _starting_within(asked: Intervals, others: Intervals, arrival: RowIndices) -> RowIndices:
    order = np.argsort(others.start, kind="stable")
    start = others.start[order]
    left, right = np.searchsorted(start, asked.start), np.searchsorted(start, asked.end, side="right")
    return range_minima(arrival[order], left, right)


def range_minima(values: RowIndices, left: RowIndices, right: RowIndices) -> RowIndices:
    """The minimum of ``values[left:right]`` for each pair. A range is the union of two overlapping ranges of a power of
    two."""
    minima = np.full(len(left), NEVER)
    level = _levels(right - left)
    for exponent in range(int(level.max(initial=-1)) + 1):
        width, here = 1 << exponent, np.flatnonzero(level == exponent)
        minima[here] = np.minimum(values[left[here]], values[right[here] - width])
        values = np.minimum(values[:-width], values[width:])
    return minima


def _holding_start(asked: Intervals, others: Intervals, arrival: RowIndices) -> RowIndices:
    """Each other writes its arrival to the range of starts that it holds, as two overlapping powers of two."""
    order = np.argsort(asked.start, kind="stable")
    start = asked.start[order]
    left, right = np.searchsorted(start, others.start), np.searchsorted(start, others.end, side="right")
    level = _levels(right - left)
    wider = np.full(0, NEVER)
    for exponent in range(int(level.max(initial=-1)), -1, -1):
        width, here = 1 << exponent, np.flatnonzero(level == exponent)
        minima = np.full(len(start) - width + 1, NEVER)
        if len(wider):
            minima[: len(wider)] = wider
            minima[width:] = np.minimum(minima[width:], wider)
        np.minimum.at(minima, left[here], arrival[here])
        np.minimum.at(minima, right[here] - width, arrival[here])
        wider = minima
    arrivals = np.full(len(start), NEVER)
    arrivals[order] = wider if len(wider) else NEVER
    return arrivals


def _levels(widths: RowIndices) -> RowIndices:
    """The exponent of the greatest power of two in each width; -1 for widths of zero."""
    return np.frexp(np.maximum(widths, 0).astype(np.float64))[1].astype(np.int64) - 1
