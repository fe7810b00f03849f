"""Windows: bound and frozen, part of the nodes that assign them. Expressions name fields of the node's input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import columns_of, sql, substituted
from sqlstream.planner.fields import Field, Schema, field_of
from sqlstream.planner.firing import PythonCall
from sqlstream.planner.intervals import ordinal, readable
from sqlstream.types import TIMESTAMP


@dataclass(frozen=True)
class RowCount:
    """A window's size or slide as a number of rows of a key, in place of milliseconds."""

    count: int


Measure = int | RowCount

CLOSES_AT_ONCE = 1
"""The size in milliseconds of windows that close when the watermark has passed their rows."""


@dataclass(frozen=True)
class BaseWindow:
    """The base of all windows: their SQL, texts for EXPLAIN, and properties for optimizer rules."""

    @property
    def sql_name(self) -> str:
        """The SQL name of the window kind: ``HOP``, ``COUNT WINDOW``."""
        return type(self).__name__.upper()

    @property
    def text(self) -> str:
        """The window in words for EXPLAIN: ``HOP slide 5 s size 10 s offset 1 s``."""
        raise NotImplementedError

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        """The expressions that the window computes for each row."""
        return ()

    @property
    def fields_read(self) -> set[str]:
        """The fields that the window reads of each row, apart from its time."""
        return set().union(*map(columns_of, self.expressions))

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The window with other names for the fields that its expressions read; ``names`` maps old to new."""
        return self

    def time_domain(self, domain: TimeDomain) -> TimeDomain | None:
        """The time domain of the column window_time, by which further windows can be assigned; None if that is
        impossible.

        ``domain``: that of the time by which this window is assigned.
        """
        return domain

    def follows_clock(self, domain: TimeDomain) -> bool:
        """True if windows that are assigned by a time of ``domain`` may fire by the clock of processing time."""
        return domain is TimeDomain.PROCESSING

    @property
    def columnar_only_clause(self) -> str | None:
        """The property of the window that Spark's own operators do not support; None where they support it."""
        return self.sql_name

    def wait_text(self, delay_ms: int) -> str:
        """How long a row waits for its first result, as the end of a sentence; empty if unknown.

        ``delay_ms``: the delay of the watermark.
        """
        return ""


@dataclass(frozen=True)
class Tumble(BaseWindow):
    """Windows of ``size_ms`` milliseconds that do not overlap.

    ``zone``: windows begin by the wall clock of that time zone, None for UTC.
    """

    size_ms: int
    offset_ms: int = 0
    zone: str | None = None

    @property
    def text(self) -> str:
        return f"TUMBLE size {readable(self.size_ms)}{_alignment_text(self)}"

    @property
    def columnar_only_clause(self) -> str | None:
        return _zone_clause(self.zone)

    def wait_text(self, delay_ms: int) -> str:
        return _longest_wait_text(self.size_ms + delay_ms)


@dataclass(frozen=True)
class Hop(BaseWindow):
    """Windows of ``size_ms`` that start every ``slide_ms``."""

    slide_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str | None = None

    @property
    def text(self) -> str:
        return f"HOP slide {readable(self.slide_ms)} size {readable(self.size_ms)}{_alignment_text(self)}"

    @property
    def columnar_only_clause(self) -> str | None:
        return _zone_clause(self.zone)

    def wait_text(self, delay_ms: int) -> str:
        return _longest_wait_text(self.slide_ms + delay_ms)


@dataclass(frozen=True)
class Cumulate(BaseWindow):
    """Windows that grow: every ``size_ms`` several windows begin together, of which each ends ``step_ms`` after the one
    before.
    """

    step_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str | None = None

    @property
    def text(self) -> str:
        return f"CUMULATE step {readable(self.step_ms)} size {readable(self.size_ms)}{_alignment_text(self)}"

    @property
    def columnar_only_clause(self) -> str | None:
        return _zone_clause(self.zone)

    def wait_text(self, delay_ms: int) -> str:
        return _longest_wait_text(self.step_ms + delay_ms)


@dataclass(frozen=True)
class Session(BaseWindow):
    """Sessions: a row belongs to the session of its key if its time is at most the gap after the previous row. The gap
    is a constant, or per row an expression of BIGINT milliseconds.

    ``start_when``: the session begins with the first row that meets it, earlier rows belong to none. ``end_when``: a
    row that meets it is the last of its session. Both are BOOLEAN expressions over the input.
    """

    gap_ms: int | exp.Expression
    max_duration_ms: int | None = None
    start_when: exp.Expression | None = None
    end_when: exp.Expression | None = None

    @property
    def text(self) -> str:
        gap = readable(self.gap_ms) if isinstance(self.gap_ms, int) else sql(_interval_of(self.gap_ms))
        parts = [f"gap {gap}"]
        if self.max_duration_ms is not None:
            parts.append(f"max duration {readable(self.max_duration_ms)}")
        if self.start_when is not None:
            parts.append(f"start when {sql(self.start_when)}")
        if self.end_when is not None:
            parts.append(f"end when {sql(self.end_when)}")
        return f"SESSION {' '.join(parts)}"

    @property
    def is_cut(self) -> bool:
        """True for sessions that may end before their gap, by START WHEN, END WHEN or a maximum duration."""
        return (self.max_duration_ms, self.start_when, self.end_when) != (None, None, None)

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        values = (self.gap_ms, self.start_when, self.end_when)
        return tuple(e for e in values if isinstance(e, exp.Expression))

    def renamed(self, names: Mapping[str, str]) -> Self:
        values: dict[str, exp.Expression] = {old: field_of(new) for old, new in names.items()}

        def renamed(expression: exp.Expression | None) -> exp.Expression | None:
            return substituted(expression, values) if expression is not None else None

        gap = self.gap_ms
        return replace(
            self,
            gap_ms=gap if isinstance(gap, int) else substituted(gap, values),
            start_when=renamed(self.start_when),
            end_when=renamed(self.end_when),
        )

    @property
    def columnar_only_clause(self) -> str | None:
        if isinstance(self.gap_ms, int) and not self.is_cut:
            return None
        return "SESSION with a gap per row, MAX_DURATION, START_WHEN or END_WHEN"

    def wait_text(self, delay_ms: int) -> str:
        if not isinstance(self.gap_ms, int):
            return ""
        return f", so a row waits at least {readable(self.gap_ms + delay_ms)}"


@dataclass(frozen=True)
class CountWindow(BaseWindow):
    """Windows of the last ``size`` rows of a key, evaluated after every ``slide`` rows; if both are equal, windows do
    not overlap.

    The first result is emitted after ``slide`` rows; with ``full_only``, after ``size`` rows.
    """

    size: int
    slide: int
    full_only: bool = False

    sql_name = "COUNT WINDOW"

    @property
    def text(self) -> str:
        sliding = f" slide {self.slide} rows" if self.slide != self.size else ""
        full = " full only" if self.full_only and self.slide != self.size else ""
        return f"COUNT WINDOW size {self.size} rows{sliding}{full}"

    def time_domain(self, domain: TimeDomain) -> TimeDomain | None:
        return None

    def follows_clock(self, domain: TimeDomain) -> bool:
        return False

    @property
    def rows_text(self) -> str:
        """A sentence for EXPLAIN that says after how many rows results are emitted."""
        if self.full_only:
            return f"results come with the {ordinal(self.size)} row of a key and every {self.slide} rows then"
        return f"results come with every {ordinal(self.slide)} row of a key"


@dataclass(frozen=True)
class RowMeasured(BaseWindow):
    """Windows with one measure in rows and the other in time.

    If the size is in rows: at each multiple of ``slide``, shifted by ``offset_ms``, the last ``size`` rows before it.
    If the slide is in rows: at each ``slide``-th row of a key, the rows whose times are in (time - size, time] of that
    row.
    """

    size: Measure
    slide: Measure
    offset_ms: int = 0

    sql_name = "HOP"

    @property
    def text(self) -> str:
        return f"HOP slide {_measure_text(self.slide)} size {_measure_text(self.size)}{_offset_text(self.offset_ms)}"

    def time_domain(self, domain: TimeDomain) -> TimeDomain | None:
        return None

    columnar_only_clause = "a window that mixes rows and time"

    @property
    def rows_text(self) -> str:
        """A sentence for EXPLAIN that says when results are emitted."""
        if isinstance(self.slide, RowCount):
            return f"results come with every {ordinal(self.slide.count)} row of a key"
        return f"results come every {readable(self.slide)}"


@dataclass(frozen=True)
class GlobalWindow(BaseWindow):
    """One window per key, which never closes; its results are emitted when a trigger fires."""

    sql_name = "GLOBAL WINDOW"

    text = "GLOBAL WINDOW"

    def time_domain(self, domain: TimeDomain) -> TimeDomain | None:
        return None


@dataclass(frozen=True)
class UserWindow(BaseWindow):
    """Windows that a user's Python class assigns. They close by the watermark or the clock."""

    call: PythonCall

    sql_name = "WINDOW USING"

    @property
    def text(self) -> str:
        return f"WINDOW USING {self.call.text}"

    def follows_clock(self, domain: TimeDomain) -> bool:
        return True


AlignedWindow = Tumble | Hop | Cumulate
Window = AlignedWindow | Session | CountWindow | RowMeasured | GlobalWindow | UserWindow


@dataclass(frozen=True)
class WindowColumns:
    """The names of the three fields that a window adds: start, end, and ``time``, which is 1 ms before the end."""

    start: str = "window_start"
    end: str = "window_end"
    time: str = "window_time"

    @property
    def names(self) -> frozenset[str]:
        """The names of the three fields: start, end, time."""
        return frozenset({self.start, self.end, self.time})

    def fields(self, domain: TimeDomain | None) -> Schema:
        """The three fields; ``time`` is a time attribute of the ``domain``, if that is given."""
        return (
            Field(self.start, TIMESTAMP, False),
            Field(self.end, TIMESTAMP, False),
            Field(self.time, TIMESTAMP, False, domain),
        )


DEFAULT_COLUMNS = WindowColumns()


# --- texts ----------------------------------------------------------------------------------------------------


def _alignment_text(window: AlignedWindow) -> str:
    return _offset_text(window.offset_ms) + (f" in {window.zone}" if window.zone else "")


def _offset_text(milliseconds: int) -> str:
    return f" offset {readable(milliseconds)}" if milliseconds else ""


def _measure_text(measure: Measure) -> str:
    return f"{measure.count} rows" if isinstance(measure, RowCount) else readable(measure)


def _zone_clause(zone: str | None) -> str | None:
    return "a window on the clock of a time zone" if zone is not None else None


def _longest_wait_text(wait_ms: int) -> str:
    return f", so a row waits up to {readable(wait_ms)} for its first result"


def _interval_of(milliseconds: exp.Expression) -> exp.Expr:
    """The interval whose milliseconds the binder took: what the user wrote as the gap of a session."""
    for sum_ in milliseconds.find_all(exp.Add):
        interval = sum_.expression.unnest()
        assert isinstance(interval, exp.Expr)
        return interval
    return milliseconds
