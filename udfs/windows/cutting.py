"""Sessions with MAX_DURATION, START_WHEN and END_WHEN: how the rows of a key, in order, are cut into sessions.

Rows are in order of time, those of one time in order of arrival. While no session is open, a row opens one if
START_WHEN holds for it, or where there is no such condition; else it belongs to none. While one is open, a row belongs
to it if it comes no later than the gap after one of its rows and less than MAX_DURATION after its first; a row that
does not closes it and may open the next. START_WHEN means nothing while a session is open. A row of a session for which
END_WHEN holds is its last.

A session is ``[start, end)`` from its first row to the earliest of: the gap after its rows, MAX_DURATION after its
start, and 1 ms after the row of END_WHEN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sqlstream.udfs.assigners.assigner import Flags, RowIndices, Times
from sqlstream.udfs.assigners.meeting import range_minima
from sqlstream.udfs.assigners.merging import MILLISECOND, Windows, on_line


class Ordered(NamedTuple):
    """Rows by key, time and arrival. ``reach``: the gap after each. ``opens``, ``closes``: START_WHEN and END_WHEN."""

    key: RowIndices
    time: Times
    reach: Times
    opens: Flags
    closes: Flags


class Pieces(NamedTuple):
    """Sessions in order: rows ``[first, stop)`` of the ordered ones, and the bounds in time."""

    first: RowIndices
    stop: RowIndices
    start: Times
    end: Times


def cut(rows: Ordered, max_duration: int | None) -> Pieces:
    stop = _stops(rows, max_duration)
    first = _reachable(rows, stop)
    stop = stop[first]
    end = -range_minima(-rows.reach, first, stop)
    if max_duration is not None:
        end = np.minimum(end, rows.time[first] + max_duration)
    end = np.where(rows.closes[stop - 1], np.minimum(end, rows.time[stop - 1] + MILLISECOND), end)
    return Pieces(first, stop, rows.time[first], end)


def _stops(rows: Ordered, max_duration: int | None) -> RowIndices:
    """For each row the first row that would not belong to a session beginning with it."""
    stop = np.minimum(_unreached(rows), _following(rows.closes) + 1)
    if max_duration is None:
        return stop
    line = on_line(Windows(rows.key, rows.time, rows.time + max_duration))
    return np.minimum(stop, np.searchsorted(line.start, line.end))


def _unreached(rows: Ordered) -> RowIndices:
    """For each row the first later row of another key, or that no row from this one on reaches."""
    line = on_line(Windows(rows.key, rows.time, rows.reach))
    first = np.arange(len(rows.key))
    stop = np.searchsorted(line.start, line.end, side="right")
    # What the rows in reach reach is in reach: chains of n rows take log n rounds.
    while ((farther := -range_minima(-stop, first, stop)) > stop).any():
        stop = farther
    return stop


def _following(flags: Flags) -> RowIndices:
    """For each position, also the one behind the last row, the first flagged row from there on."""
    count = len(flags)
    next_flagged = np.where(flags, np.arange(count), count)
    return np.minimum.accumulate(next_flagged[::-1])[::-1]


def _reachable(rows: Ordered, stop: RowIndices) -> RowIndices:
    """The first rows of sessions: from the first opening row of each key on, each time the one after the stop.

    Steps are doubled, so that n sessions behind one another take log n rounds.
    """
    count = len(rows.key)
    opening = np.append(_following(rows.opens), count)
    begins = np.zeros(count + 1, np.bool_)
    begins[opening[np.flatnonzero(np.diff(rows.key, prepend=-1))]] = True
    step = np.append(opening[stop], count)
    while (step < count).any():
        begins[step[begins]] = True
        step = step[step]
    return np.flatnonzero(begins[:count])
