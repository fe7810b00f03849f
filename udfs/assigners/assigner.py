"""Window assigners: the windows that each row belongs to, and the sessions that rows are merged into.

A window is ``[start, end)`` in int64 microseconds since 1970 (UTC). Merging assigners (sessions) give each row a window
of its own; ``merge_sessions`` then merges these with each other and with the stored ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError, repeating
from sqlstream.formats.time_texts import clock_times, in_known_years
from sqlstream.udfs.event_times import LONGEST
from sqlstream.udfs.kernel import END_OF_TIME, LATE_ROWS, NO_WATERMARK, Context, Domain

NULL_EVENT_TIME = repeating("SS401")

Times = npt.NDArray[np.int64]
RowIndices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Assigned(NamedTuple):
    """The result of ``Assigner.assign``: arrays with one entry per pair of a row and a window that contains it, sorted
    by row, then by the window's end.
    """

    row: RowIndices
    start: Times
    end: Times


class Assigner(Protocol):
    """The interface of window assigners. Implementations are frozen and picklable."""

    @property
    def domain(self) -> Domain:
        """The clock, event time or processing time, that closes the windows."""
        ...

    @property
    def merging(self) -> bool:
        """True where windows of one key that intersect or touch are merged."""
        ...

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        """The windows that contain each row, which may be none or several. ExecutionError SS401 for a NULL time."""
        ...


LAST_INSTANT = 253_370_764_800_000_000
"""The year 9999: what the time is for rows that come when processing time has ended. Windows end after it."""


def times_of(rows: pa.Table, time: str | None, context: Context) -> Times:
    """An array with the time of each row in microseconds since 1970: the value of the column ``time``, or the current
    processing time if ``time`` is None. Raises ExecutionError SS401 for a NULL.
    """
    if time is None:
        return np.full(rows.num_rows, min(context.processing_time, LAST_INSTANT), np.int64)
    return micros(rows.column(time), time)


def rows_in_time(rows: pa.Table, time: str | None, domain: Domain, context: Context) -> tuple[pa.Table, Times]:
    """Returns a pair: the rows that are not late, and their times in microseconds. Late rows are counted and dropped.
    In processing time no row is late, and times after the current one become the current one.
    """
    times = times_of(rows, time, context)
    if domain is Domain.PROCESSING:
        return rows, np.minimum(times, context.processing_time)
    late = times <= context.watermark
    if not late.any():
        return rows, times
    context.count(LATE_ROWS, int(late.sum()))
    return rows.filter(pa.array(~late)), times[~late]


def micros(column: pa.ChunkedArray, name: str) -> Times:
    """The column ``name``, of timestamps or of integers that are microseconds, as int64 microseconds. ExecutionError
    SS401 for a NULL.
    """
    if column.null_count:
        raise ExecutionError(NULL_EVENT_TIME, f'the time "{name}" of a row is NULL', hint="Filter such rows out.")
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("us", column.type.tz))
    return np.asarray(pc.cast(column, pa.int64()).to_numpy(), np.int64)


def per_row(start: Times, end: Times, row_count: int) -> Assigned:
    """The result of an assigner that assigns each row to one window. ``start`` and ``end``: the bounds of each row's
    window, in microseconds.
    """
    return Assigned(np.arange(row_count, dtype=np.int64), start, end)


# --- instants and local time ----------------------------------------------------------------------------------
# Flink's rule applies where clocks change. An hour that the clock shows twice belongs to one window, which closes after
# the second one. A bound that the clock skips is the instant of the skip.


def to_wall(instants: Times, zone: str | None) -> Times:
    """The time that a wall clock in ``zone`` shows at each instant, in microseconds since 1970 on that clock. None
    means UTC.
    """
    if zone is None:
        return instants
    return _micros(clock_times(pa.array(instants).cast(pa.timestamp("us", "UTC")), zone))


def start_of(wall: Times, zone: str | None) -> Times:
    """For each local time ``wall`` the first instant at which a clock in ``zone`` shows it, or skips it (daylight
    saving): the first 02:30 if the clock shows 02:30 twice. ``wall`` is in microseconds since 1970 on that clock, the
    result in microseconds since 1970 UTC.
    """
    # Of the two instants around a skip Arrow's "latest" is the one after it, Flink's choice.
    return wall if zone is None else _instants(wall, zone, "earliest", "latest")


def end_of(wall: Times, zone: str | None) -> Times:
    """For each local time ``wall`` the instant at which a window that ends at ``wall`` closes. From then on a clock in
    ``zone`` never shows an earlier time: it is the second 02:30 if daylight saving lets the clock show 02:30 twice.
    ``wall`` is in microseconds since 1970 on that clock, the result in microseconds since 1970 UTC.
    """
    return wall if zone is None else _instants(wall - 1, zone, "latest", "earliest") + 1


def _instants(wall: Times, zone: str, ambiguous: str, nonexistent: str) -> Times:
    shown = pa.array(wall).cast(pa.timestamp("us"))

    def assumed(times: pa.Array) -> pa.Array:
        return pc.assume_timezone(times, zone, ambiguous=ambiguous, nonexistent=nonexistent)

    return _micros(in_known_years(shown, assumed))


def _micros(instants: pa.Array) -> Times:
    return np.asarray(instants.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


# --- TUMBLE, HOP and CUMULATE: windows of fixed size, aligned to the clock ------------------------------------
# Exact before 1970 too. ``offset`` shifts all bounds and may be negative. With a ``zone``, bounds are computed in the
# local time of that zone. ``time`` names the column with the rows' times; None means processing time, the time of the
# call.


@dataclass(frozen=True)
class Tumble:
    """The assigner of TUMBLE: windows of ``size`` microseconds that do not overlap."""

    time: str | None
    size: int
    offset: int = 0
    zone: str | None = None
    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        start = aligned(to_wall(times_of(rows, self.time, context), self.zone), self.size, self.offset)
        return per_row(start_of(start, self.zone), end_of(start + self.size, self.zone), rows.num_rows)


@dataclass(frozen=True)
class Hop:
    """The assigner of HOP: windows of ``size`` microseconds, one starting every ``slide``. ``size`` need not be a
    multiple of ``slide``; if it is smaller, some rows have no window.
    """

    time: str | None
    slide: int
    size: int
    offset: int = 0
    zone: str | None = None
    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        time = to_wall(times_of(rows, self.time, context), self.zone)
        back = np.arange(-(-self.size // self.slide) - 1, -1, -1, dtype=np.int64) * self.slide
        start = aligned(time, self.slide, self.offset)[:, np.newaxis] - back
        return _holding(time, start, start + self.size, self.zone)


@dataclass(frozen=True)
class Cumulate:
    """The assigner of CUMULATE: windows that start together every ``size`` microseconds and end one ``step`` after
    another.

    If several of them would end within an hour that daylight saving skips, they are one window that ends at that
    instant.
    """

    time: str | None
    step: int
    size: int
    offset: int = 0
    zone: str | None = None
    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        time = to_wall(times_of(rows, self.time, context), self.zone)
        start = aligned(time, self.size, self.offset)[:, np.newaxis]
        lengths = np.arange(self.step, self.size + 1, self.step, dtype=np.int64)
        return _holding(time, np.broadcast_to(start, (len(time), len(lengths))), start + lengths, self.zone)


def windows_of_a_row(assigner: Assigner) -> int:
    """The maximum number of windows that contain one row; 1 for assigners written by users."""
    match assigner:
        case Hop():
            return -(-assigner.size // assigner.slide)
        case Cumulate():
            return assigner.size // assigner.step
    return 1


def aligned(time: Times, period: int, offset: int) -> Times:
    """For each time the last window boundary at or before it: boundaries are the multiples of ``period``, shifted by
    ``offset``. All in microseconds.
    """
    return time - (time - offset) % period


def _holding(time: Times, start: Times, end: Times, zone: str | None) -> Assigned:
    """The candidate windows that end after their row, each as one row of ``Assigned``."""
    row, candidate = np.nonzero(end > time[:, np.newaxis])
    chosen = start[row, candidate], end[row, candidate]
    assigned = Assigned(row.astype(np.int64, copy=False), start_of(chosen[0], zone), end_of(chosen[1], zone))
    return assigned if zone is None else _once(assigned)


def _once(assigned: Assigned) -> Assigned:
    """Drops each window that equals the one before it."""
    differs = np.ones(len(assigned.row), bool)
    differs[1:] = np.logical_or.reduce([side[1:] != side[:-1] for side in assigned])
    return assigned if differs.all() else Assigned(*(side[differs] for side in assigned))


# --- SESSION --------------------------------------------------------------------------------------------------


WRONG_GAP = repeating("SS404")


@dataclass(frozen=True)
class Session:
    """Session windows: from the first row to ``gap`` after the last. ``gap`` is in microseconds, or the name of a
    BIGINT column with the gap of each row. SS404 for a gap that is not positive or exceeds 10,000 years."""

    time: str | None
    gap: int | str
    domain: Domain = Domain.EVENT
    merging: bool = True

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        start = times_of(rows, self.time, context)
        return per_row(start, start + gaps_of(rows, self.gap), rows.num_rows)


def gaps_of(rows: pa.Table, gap: int | str) -> Times | int:
    """The session gap in microseconds: an array if ``gap`` names a column, one integer if it is a constant.
    ExecutionError SS404 for a gap that is out of range.
    """
    if isinstance(gap, int):
        return gap
    if rows.column(gap).null_count:
        raise ExecutionError(WRONG_GAP, "the session gap of a row is NULL", hint=_HINT)
    gaps = micros(rows.column(gap), gap)
    if len(gaps) and gaps.min() <= 0:
        row = int(np.argmax(gaps <= 0))
        raise ExecutionError(
            WRONG_GAP, f"the session gap of a row is not positive: {gaps[row]} microseconds", hint=_HINT
        )
    if len(gaps) and gaps.max() > LONGEST:
        message = f"the session gap of a row is longer than 10,000 years: {gaps.max()} microseconds"
        raise ExecutionError(WRONG_GAP, message, hint="Limit it, for instance with LEAST.")
    return gaps


_HINT = "Give every row a gap of 1 millisecond or more, for instance with an ELSE."


# --- windows that an operator below has assigned --------------------------------------------------------------


@dataclass(frozen=True)
class GivenWindows:
    """The assigner for rows to which an upstream operator has already assigned windows. ``start`` and ``end`` name the
    columns with their bounds.
    """

    start: str = "window_start"
    end: str = "window_end"
    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        return per_row(
            micros(rows.column(self.start), self.start), micros(rows.column(self.end), self.end), rows.num_rows
        )


# --- GLOBAL WINDOW --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Global:
    """The assigner of GLOBAL: one window per key, ``[NO_WATERMARK, END_OF_TIME)``, that no clock closes. ``domain`` is
    the clock of its triggers.
    """

    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        count = rows.num_rows
        return per_row(np.full(count, NO_WATERMARK), np.full(count, END_OF_TIME), count)


# --- merging sessions -----------------------------------------------------------------------------------------
# ``merge_sessions`` determines which windows of new rows and which stored sessions form one session, like Flink's
# MergingWindowSet, for all keys at once.
#
# Windows ``[start, end)`` of one key merge when they intersect or touch: ``start <= other.end and other.start <= end``.
# Rows are merged one after another in order of arrival. A row whose own window is late (``watermark >= end - 1 ms +
# allowed``) is accepted if it touches a live session; otherwise it is late, even if a later row would have joined the
# two. Every stored session is live, because the watermark has removed all others.
#
# All keys are placed on one line, each in a range of its own, so that windows touch on the line exactly if they touch
# and have the same key. A session is the union of windows that touch; it has no holes, so a row touches the session
# exactly if it touches one of its windows.


LATE = -1
MILLISECOND = 1000
_INT64 = np.iinfo(np.int64)
_STORED = -1
"""The arrival number of stored sessions, which precede all rows."""


class Windows(NamedTuple):
    """Windows as three arrays with one entry per window: the index of its key, counted from 0, and its start and end in
    microseconds. Windows of rows are in the order in which the rows arrived.
    """

    key: RowIndices
    start: Times
    end: Times

    def __add__(self, other: object) -> Windows:
        assert isinstance(other, Windows)
        return Windows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class Sessions(NamedTuple):
    """The result of ``merge_sessions``. ``windows``: the merged sessions, by key and start. ``row`` and ``stored``: for
    each new row and for each stored session the index of the merged session that contains it; LATE for a late row.
    """

    windows: Windows
    row: RowIndices
    stored: RowIndices


def merge_sessions(stored: Windows, rows: Windows, watermark: int, allowed: int = 0) -> Sessions:
    """Merges ``stored`` sessions and the windows of new ``rows`` of the same key where they intersect or touch.

    All times are in microseconds. ``watermark`` is NO_WATERMARK where no row can be late; ``allowed`` is the allowed
    lateness.
    """
    in_time = taken_windows(stored, rows, watermark, allowed)
    if in_time.all():
        return merge_windows(stored, rows)
    return _with_late_rows(merge_windows(stored, Windows(*(column[in_time] for column in rows))), in_time)


def taken_windows(stored: Windows, rows: Windows, watermark: int, allowed: int = 0) -> Flags:
    """One boolean per window of ``rows``: true if the row is accepted, false if it is late. A late row is accepted if
    its window touches a session that is open when the row arrives. Times in microseconds.
    """
    late = late_windows(rows.end, watermark, allowed)
    return ~late | _rescued(stored, rows, late) if late.any() else ~late


def late_windows(end: Times, watermark: int, allowed: int) -> Flags:
    """One boolean per window end: true if a window with this end is closed, that is, the watermark has reached the
    window's last moment plus the allowed lateness. All in microseconds.
    """
    newest_late = min(max(watermark + MILLISECOND - allowed, _INT64.min), _INT64.max)
    return end <= newest_late


def merge_windows(stored: Windows, rows: Windows) -> Sessions:
    """Merges stored sessions and windows of rows where they intersect or touch; no row is late."""
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
    """Moves the windows of all keys to a single time axis, shifted so that windows of different keys never touch.
    Returns one interval per window.
    """
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
    """Closed intervals ``[start, end]`` of a single time axis, as two arrays."""

    start: Times
    end: Times

    def take(self, chosen: RowIndices) -> Intervals:
        """The intervals with these indices."""
        return Intervals(self.start[chosen], self.end[chosen])


def earliest_meeting(asked: Intervals, others: Intervals, arrival: RowIndices) -> RowIndices:
    """For each interval of ``asked``: among the intervals of ``others`` that touch it, the smallest value of
    ``arrival`` (their positions in the order of arrival); NEVER if none touches it.
    """
    return np.minimum(_starting_within(asked, others, arrival), _holding_start(asked, others, arrival))


def _starting_within(asked: Intervals, others: Intervals, arrival: RowIndices) -> RowIndices:
    order = np.argsort(others.start, kind="stable")
    start = others.start[order]
    left, right = np.searchsorted(start, asked.start), np.searchsorted(start, asked.end, side="right")
    return range_minima(arrival[order], left, right)


def range_minima(values: RowIndices, left: RowIndices, right: RowIndices) -> RowIndices:
    """An array with the minimum of ``values[left[i]:right[i]]`` for each ``i``; NEVER for empty ranges. Each minimum is
    computed from two overlapping ranges whose length is a power of two.
    """
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
