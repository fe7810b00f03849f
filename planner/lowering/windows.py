"""Window table functions: each row once per window that holds it.

Windows of fixed size are arithmetic on microseconds, exact before 1970 too. Sessions are Spark's ``session_window``
over a time that is one millisecond early, so that Spark closes them by the dialect's rule (W >= end - 1 ms).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.hidden_columns import (
    EPOCH_SHIFT_MS,
    EVENT_TIME,
    column,
    event_time,
    hidden,
    micros,
    passes_by,
    quoted,
)
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical.steps import Step
from sqlstream.planner.windows import Cumulate, Hop, Session, Tumble, Window, WindowColumns

_WINDOW = "__window"
_ROWS = "__rows"
_NUMBER = "__window_number"
_SESSION_TIME = "__session_time"
_EVERYTHING = "__everything"


def windowed(node: AssignWindows, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of a window table function: the rows with the columns of their windows."""
    rows = context.lower(step.input)
    if isinstance(node.window, Session):
        return _sessions(node, node.window, _fields(node, rows))
    return with_windows(rows, node)


def _fields(node: AssignWindows | WindowAggregate, rows: DataFrame) -> DataFrame:
    return rows.select(*(column(f.name) for f in node.input.schema), *hidden(rows))


def with_windows(rows: DataFrame, node: AssignWindows | WindowAggregate) -> DataFrame:
    """Repeats each row once for each window that contains its time, which is not NULL, and adds the window's bounds."""
    window, time, names = node.window, node.time, node.columns
    assert window is not None and time is not None, "windows of time need a time"
    bounds = bounds_of(window, micros(time))
    rows = _fields(node, rows)
    kept = [column(name) for name in rows.columns]
    number = F.lit(0)
    if bounds.candidates > 1:
        number = F.explode(F.sequence(F.lit(0), F.lit(bounds.candidates - 1)))
    held, passing = F.expr(f"{bounds.end} > {micros(time)}"), passes_by(rows)
    if passing is not None:
        held |= passing & (column(_NUMBER) == 0)
    rows = rows.select("*", number.alias(_NUMBER)).where(held)
    return rows.select(*kept, *window_columns(names, bounds.start, bounds.end))


def window_columns(names: WindowColumns, start: str, end: str) -> tuple[Column, Column, Column]:
    """The three columns of a window from SQL texts of its bounds in microseconds since 1970."""
    return (
        F.expr(f"timestamp_micros({start})").alias(names.start),
        F.expr(f"timestamp_micros({end})").alias(names.end),
        F.expr(f"timestamp_micros({end} - 1000L)").alias(names.time),
    )


@dataclass(frozen=True)
class Bounds:
    """SQL texts for the windows of fixed size that may contain a row's time. There are ``candidates`` of them, numbered
    from 0. Each starts at or before the time, but contains it only if it also ends after it.

    ``start`` and ``end`` compute a window's bounds from the time and the window's number, in microseconds since 1970.
    """

    candidates: int
    start: str
    end: str


def bounds_of(window: Window, ts: str) -> Bounds:
    """The ``Bounds`` of windows of fixed size. ``ts``: SQL text of the row's time in microseconds since 1970."""
    match window:
        case Tumble():
            size = _micros(window.size_ms)
            start = _aligned(ts, size, window.offset_ms)
            return Bounds(1, start, f"({start} + {size}L)")
        case Hop():
            size, slide = _micros(window.size_ms), _micros(window.slide_ms)
            start = f"({_aligned(ts, slide, window.offset_ms)} - {_NUMBER} * {slide}L)"
            return Bounds(-(-size // slide), start, f"({start} + {size}L)")
        case Cumulate():
            size, step = _micros(window.size_ms), _micros(window.step_ms)
            start = _aligned(ts, size, window.offset_ms)
            return Bounds(size // step, start, f"({start} + ({_NUMBER} + 1) * {step}L)")
    raise TypeError(f"{type(window).__name__} has no windows of fixed size")


def _aligned(ts: str, period: int, offset_ms: int) -> str:
    """SQL text: the newest multiple of ``period``, moved by the offset, that is not after ``ts``."""
    return f"({ts} - pmod({ts} - {_micros(offset_ms)}L, {period}L))"


def _micros(ms: int) -> int:
    return ms * 1000


# --- sessions -------------------------------------------------------------------------------------------------


def with_session_time(rows: DataFrame, time: str) -> DataFrame:
    """Adds to the rows a hidden timestamp column, made of the field ``time``, over which Spark's ``session_window`` can
    group (see ``session_keys``).
    """
    instant = F.expr(event_time(micros(time), -1))
    return rows.select("*", instant.alias(_SESSION_TIME, metadata=EVENT_TIME))


def session_keys(session: Session, *, keyed: bool) -> list[Column]:
    """The grouping keys of sessions, for rows that have passed ``with_session_time``. ``keyed``: the query has other
    grouping keys.

    Spark does not group by a session window alone. If there is no other key, a key is added that is always 0. It is
    computed from a column, because Spark would remove a literal.
    """
    window = F.session_window(column(_SESSION_TIME), f"{session.gap_ms} milliseconds").alias(_WINDOW)
    everything = F.expr(f"pmod(unix_micros({_SESSION_TIME}), 1L)").alias(_EVERYTHING)
    return [window] if keyed else [everything, window]


def session_columns(names: WindowColumns) -> tuple[Column, Column, Column]:
    """The start, end and time columns of closed session windows, from Spark's grouping key ``session_window``."""
    shift = (EPOCH_SHIFT_MS - 1) * 1000
    start, end = (f"(unix_micros({_WINDOW}.{bound}) - {shift}L)" for bound in ("start", "end"))
    return window_columns(names, start, end)


def _sessions(node: AssignWindows, session: Session, rows: DataFrame) -> DataFrame:
    """The rows of each session, all at once when it closes."""
    names = [f.name for f in node.input.schema]
    collecting = Collecting(by_arrival=True)
    packed = F.expr(collecting.partial(f"struct({', '.join(quoted(name) for name in names)})"))
    groups = [column(key).alias(f"__key_{i}") for i, key in enumerate(node.partition_by)]
    keys = [*groups, *session_keys(session, keyed=bool(groups))]
    assert node.time is not None, "sessions need a time"
    timed = with_session_time(with_arrival(rows), node.time)
    closed = timed.groupBy(*keys).agg(packed.alias(_ROWS))
    return closed.select(F.inline(F.expr(collecting.values(_ROWS))), column(_WINDOW)).select(
        *(column(name) for name in names), *session_columns(node.columns)
    )


# --- values of rows in the order in which their rows arrived -----------------------------------------------------
# Spark's aggregation sees rows in that order, except in sessions: to merge them it sorts rows by time. There each
# value travels with its place in the order of arrival, and the list is sorted by it when the session closes.


_ARRIVAL = "__arrival"
# The micro-batch, the partition of its source, the row: the clock of a JVM never goes back while a task runs. Spark
# has no number of the row for streams. A batch that runs again gives other numbers in the same order.
_PLACE = (
    "named_struct('batch', unix_micros(current_timestamp()), 'partition', spark_partition_id(), "
    "'row', CAST(java_method('java.lang.System', 'nanoTime') AS BIGINT))"
)
_EARLIER_FIRST = "(l, r) -> CASE WHEN l.arrival < r.arrival THEN -1 WHEN l.arrival > r.arrival THEN 1 ELSE 0 END"


def with_arrival(rows: DataFrame) -> DataFrame:
    """Adds the hidden column by which ``Collecting`` sorts values in order of arrival. Call it before the rows are
    shuffled for the aggregation.
    """
    return rows.select("*", F.expr(_PLACE).alias(_ARRIVAL))


@dataclass(frozen=True)
class Collecting:
    """Builds SQL of an aggregate that collects the values of a group into a list, and of expressions that read this
    list.

    ``by_arrival``: the list is sorted by arrival; the rows must have passed ``with_arrival``. NULLs are collected only
    with ``respecting_nulls``.
    """

    by_arrival: bool
    respecting_nulls: bool = False

    def partial(self, value: str, kept: str | None = None) -> str:
        """SQL text of the aggregate that collects the values of rows for which the condition ``kept`` is true."""
        if not self.by_arrival:
            respected = " RESPECT NULLS" if self.respecting_nulls else ""
            return f"collect_list({value})" + (f" FILTER (WHERE {kept})" if kept is not None else "") + respected
        placed = f"named_struct('arrival', {_ARRIVAL}, 'value', {value})"
        conditions = [] if kept is None else [f"({kept})"]
        conditions += [] if self.respecting_nulls else [f"({value}) IS NOT NULL"]
        return f"collect_list({placed})" + (f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else "")

    def picked(self, extreme: str, value: str, kept: str | None, *, ignores_nulls: bool) -> str:
        """SQL text of an aggregate that returns the value of the row that arrived first (``extreme`` is ``min_by``) or
        last (``max_by``), as a STRUCT. ``kept`` is a condition on rows, None for all.
        """
        assert self.by_arrival, "rows have no arrival"
        conditions = [f"({text})" for text in (kept,) if text is not None]
        conditions += [f"({value}) IS NOT NULL"] if ignores_nulls else []
        where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        return f"{extreme}(named_struct('value', {value}), {_ARRIVAL}){where}"

    def values(self, name: str) -> str:
        """SQL text of the collected list, sorted by arrival if required. ``name``: the column with the aggregate's
        result.
        """
        return f"transform(array_sort({name}, {_EARLIER_FIRST}), v -> v.value)" if self.by_arrival else name
