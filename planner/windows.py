"""Windows: bound and frozen, part of the nodes that assign them. Expressions name fields of the node's input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.firing import PythonCall
from sqlstream.planner.naming import field_of
from sqlstream.planner.nodes import Field, Schema
from sqlstream.planner.rewriting import columns_of, substituted
from sqlstream.types import TIMESTAMP


@dataclass(frozen=True)
class RowCount:
    """A size or slide that counts rows of a key, where others are milliseconds."""

    count: int


Measure = int | RowCount

CLOSES_AT_ONCE = 1
"""The size in milliseconds of windows that close when the watermark has passed their rows."""


@dataclass(frozen=True)
class Tumble:
    """``zone`` of this and the next two: windows start on that time zone's wall clock; None for UTC."""

    size_ms: int
    offset_ms: int = 0
    zone: str | None = None


@dataclass(frozen=True)
class Hop:
    slide_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str | None = None


@dataclass(frozen=True)
class Cumulate:
    step_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str | None = None


@dataclass(frozen=True)
class Session:
    """Rows of a key less than a gap apart, or touching; a gap per row is an expression of BIGINT milliseconds.

    ``start_when``: the session begins with the first row that meets it, rows before belong to none. ``end_when``: a
    row that meets it is the last of its session. Both are BOOLEAN expressions over the input.
    """

    gap_ms: int | exp.Expression
    max_duration_ms: int | None = None
    start_when: exp.Expression | None = None
    end_when: exp.Expression | None = None


@dataclass(frozen=True)
class CountWindow:
    """The last ``size`` rows of a key, every ``slide`` rows; equal where it tumbles.

    The first firing comes after ``slide`` rows, with ``full_only`` after ``size`` rows.
    """

    size: int
    slide: int
    full_only: bool = False


@dataclass(frozen=True)
class RowMeasured:
    """One measure in rows, the other in time.

    Size in rows: the last rows before each multiple of ``slide``, moved by ``offset_ms``. Slide in rows: at every
    ``slide``-th row of a key, the rows in (time - size, time] of that row.
    """

    size: Measure
    slide: Measure
    offset_ms: int = 0


@dataclass(frozen=True)
class GlobalWindow:
    """One window per key, which never closes."""


@dataclass(frozen=True)
class UserWindow:
    """Windows that a Python class assigns."""

    call: PythonCall


AlignedWindow = Tumble | Hop | Cumulate
Window = AlignedWindow | Session | CountWindow | RowMeasured | GlobalWindow | UserWindow


@dataclass(frozen=True)
class WindowColumns:
    """Names of the three fields that a window adds; ``time`` is 1 ms before the end."""

    start: str = "window_start"
    end: str = "window_end"
    time: str = "window_time"

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.start, self.end, self.time})

    def fields(self, domain: TimeDomain | None) -> Schema:
        return (
            Field(self.start, TIMESTAMP, False),
            Field(self.end, TIMESTAMP, False),
            Field(self.time, TIMESTAMP, False, domain),
        )


DEFAULT_COLUMNS = WindowColumns()


def kind_of_window(window: Window) -> str:
    """``HOP``, ``COUNT WINDOW``: how SQL names windows of this kind."""
    match window:
        case RowMeasured():
            return "HOP"
        case CountWindow():
            return "COUNT WINDOW"
        case GlobalWindow():
            return "GLOBAL WINDOW"
        case UserWindow():
            return "WINDOW USING"
    return type(window).__name__.upper()


def time_of_windows(window: Window | None, domain: TimeDomain) -> TimeDomain | None:
    """What windows can be built on window_time of these windows; None where it says nothing about completeness."""
    return None if isinstance(window, (CountWindow, RowMeasured, GlobalWindow)) else domain


# --- what they read ---------------------------------------------------------------------------------------------


def window_expressions(window: Window | None) -> tuple[exp.Expression, ...]:
    """What a window computes of each row."""
    if not isinstance(window, Session):
        return ()
    values = (window.gap_ms, window.start_when, window.end_when)
    return tuple(e for e in values if isinstance(e, exp.Expression))


def read_by_window(window: Window | None) -> set[str]:
    """The fields that a window reads of each row, beside its time."""
    return set().union(*map(columns_of, window_expressions(window)))


def renamed_window(window: Window, names: Mapping[str, str]) -> Window:
    """The window over other names of the same fields."""
    if not isinstance(window, Session):
        return window
    values: dict[str, exp.Expression] = {old: field_of(new) for old, new in names.items()}

    def renamed(expression: exp.Expression | None) -> exp.Expression | None:
        return substituted(expression, values) if expression is not None else None

    gap = window.gap_ms
    return replace(
        window,
        gap_ms=gap if isinstance(gap, int) else substituted(gap, values),
        start_when=renamed(window.start_when),
        end_when=renamed(window.end_when),
    )
