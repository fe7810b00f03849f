"""The command plot: a column of a result as a chart that moves while rows come, in the terminal or as SVG."""

from __future__ import annotations

import math
import re
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import RenderableType
from rich.text import Text

from sqlstream.cli.progress import JobStatus, follow_on
from sqlstream.query import shown_rows_of
from sqlstream.results import Columns

if TYPE_CHECKING:
    from sqlstream.query import Query

_MOST_POINTS = 2_000
"""Of a line; older ones leave on the left."""

_MOST_SERIES = 8
_MOST_BARS = 20
_MOST_ROWS = _MOST_POINTS * _MOST_SERIES
"""Of a micro-batch: older ones would be off the chart."""

_LEAST_LINES = 8
_TICKS = 4
Point: TypeAlias = tuple[int | datetime, float]
"""A number of a row or a time, and the value there."""

_REQUEST = re.compile(r"`?(?P<column>\w+)`?(?:\s+BY\s+`?(?P<by>\w+)`?)?", re.IGNORECASE)


@dataclass(frozen=True)
class Plot:
    """A chart of ``column`` over time, a line for each value of the column ``by``."""

    column: str
    by: str | None = None

    @classmethod
    def of(cls, text: str) -> Plot | None:
        """The plot of ``COLUMN [BY COLUMN]``; None for another text."""
        match = _REQUEST.fullmatch(text.strip())
        return cls(match["column"], match["by"]) if match else None


def positions(plot: Plot, columns: Columns) -> tuple[int, int | None]:
    """Returns a pair: the positions, from 0, of the drawn column and of the BY column (None without BY) in ``columns``,
    those of a query.

    ValueError with a message where a column does not exist, or the drawn one has no numbers.
    """
    names = tuple(name for name, _ in columns)
    column = _position(plot.column, names)
    if not columns[column][1].is_numeric:
        raise ValueError(f'draws numbers, and column "{names[column]}" is of type {columns[column][1]}')
    return column, None if plot.by is None else _position(plot.by, names)


@dataclass
class Chart:
    """A chart of the rows that a query has returned so far.

    A query that only inserts rows is drawn as lines; the x axis is its first timestamp column, or else the row number.
    An updating query is drawn as bars, one for each value of the BY column or of its key; without either as a line, in
    which each update of the result adds points.
    """

    column: int
    by: int | None
    time: int | None
    bars: bool
    title: str
    _points: dict[str, deque[Point]] = field(default_factory=dict)
    _count: int = 0

    @classmethod
    def of(cls, query: Query, plot: Plot) -> Chart:
        """Makes the chart, still empty, for the columns of a query that ``plot`` names. ValueError where such a column
        does not exist or has no numbers.
        """
        names = query.columns[1:] if query.is_updating else query.columns
        types = query.types[1:] if query.is_updating else query.types
        column, by = positions(plot, tuple(zip(names, types, strict=True)))
        if by is None and query.key:
            by = _position(query.key[0], names)
        times = [i for i, kind in enumerate(types) if kind.name.startswith("TIMESTAMP") and i != column]
        return cls(
            column,
            by,
            times[0] if times and not query.is_updating else None,
            bars=query.is_updating and by is not None,
            title=names[column] if by is None else f"{names[column]} by {names[by]}",
        )

    def add(self, table: pa.Table) -> None:
        """Adds the rows of a micro-batch to the chart; for an updating query ``table`` has all its current rows."""
        if self.bars:
            self._points.clear()
            table = _highest(table, self.column)
        else:
            self._count += max(0, table.num_rows - _MOST_ROWS)
            table = table.slice(max(0, table.num_rows - _MOST_ROWS))
        for row in shown_rows_of(table):
            moment, value = self._count + 1 if self.time is None else row[self.time], row[self.column]
            if _is_drawn(value) and isinstance(moment, int | datetime):
                name = "" if self.by is None else str(row[self.by])
                self._points.setdefault(name, deque(maxlen=_MOST_POINTS)).append((moment, float(value)))
                self._count += 1

    def drawn(self, width: int, height: int, *, colours: bool = True) -> str:
        """The chart as text of the given size in columns and lines."""
        import plotext  # an optional package

        plotext.clear_figure()
        plotext.theme("pro" if colours else "clear")
        plotext.plotsize(width, height)
        plotext.title(self.title)
        if self.bars:
            self._draw_bars(plotext)
        else:
            self._draw_lines(plotext)
        text: str = plotext.build()
        return text if colours else re.sub(r"\x1b\[[0-9;]*m", "", text)

    def _draw_bars(self, plotext: Any) -> None:
        """The highest on top."""
        values = self.longest()[::-1]
        if values:
            plotext.bar([name for _, name in values], [value for value, _ in values], orientation="h", width=0.6)

    def _draw_lines(self, plotext: Any) -> None:
        for name, points in self.fullest():
            plotext.plot(
                [number_of(moment) for moment, _ in points], [value for _, value in points], label=name or None
            )
        if ticks := self.ticks():
            plotext.xticks(*ticks)

    def longest(self) -> list[tuple[float, str]]:
        """The bars that are drawn, the longest first: pairs of value and label."""
        bars = ((points[-1][1], name) for name, points in self._points.items())
        return sorted(bars, reverse=True)[:_MOST_BARS]

    def fullest(self) -> list[tuple[str, Sequence[Point]]]:
        """The lines that are drawn, those with the most points first: pairs of a label (the value of the BY column) and
        the points.
        """
        lines = sorted(self._points.items(), key=lambda item: len(item[1]), reverse=True)
        return [(name, points) for name, points in lines[:_MOST_SERIES]]

    def ticks(self) -> tuple[list[float], list[str]] | None:
        """The labels with times of the x axis, as a pair: their positions and their texts. None where the axis shows
        row numbers.
        """
        moments = [moment for _, points in self.fullest() for moment, _ in points if isinstance(moment, datetime)]
        return _ticks(min(moments), max(moments)) if moments else None


def _highest(table: pa.Table, column: int) -> pa.Table:
    """The rows that make the longest bars."""
    ranks = pa.table({"value": table.column(column)})
    return table.take(pc.select_k_unstable(ranks, _MOST_BARS, [("value", "descending")]))


def _is_drawn(value: object) -> bool:
    """True of numbers that have a place on an axis."""
    return isinstance(value, int | float | Decimal) and math.isfinite(value)


def number_of(moment: int | datetime) -> float:
    """The position on the x axis of a chart: seconds since 1970 for a time, the number itself for a row number."""
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)


def _ticks(first: datetime, last: datetime) -> tuple[list[float], list[str]]:
    """Where times stand below the chart, and how they are written: the day only where there are several."""
    style = "%H:%M:%S" if last - first < timedelta(days=1) else "%Y-%m-%d %H:%M"
    times = [first + (last - first) * i / (_TICKS - 1) for i in range(_TICKS)] if last > first else [first]
    return [time.timestamp() for time in times], [time.strftime(style) for time in times]


def _position(name: str, names: tuple[str, ...]) -> int:
    for i, one in enumerate(names):
        if one.casefold() == name.casefold():
            return i
    raise ValueError(f'needs a column of the query, and "{name}" is none: it has {", ".join(names)}')


def draw(query: Query, chart: Chart, tables: Iterator[pa.Table], out: TextIO) -> None:
    """Draws the chart of a query on a terminal, again for each of its ``tables`` as they arrive. The last state stays
    on the screen. Ctrl-C interrupts.
    """
    try:
        follow_on(out, _Shown(query, chart, tables))
    finally:
        size = shutil.get_terminal_size()
        out.write(chart.drawn(size.columns, _height(size.lines), colours=out.isatty()) + "\n")
        out.flush()


def _height(lines: int) -> int:
    return max(_LEAST_LINES, min(lines - 4, lines * 2 // 3))


@dataclass
class _Shown:
    query: Query
    chart: Chart
    tables: Iterator[pa.Table]

    def __post_init__(self) -> None:
        self._status = JobStatus(self.query.job)

    def follow(self) -> None:
        for table in self.tables:
            self.chart.add(table)

    def __rich__(self) -> RenderableType:
        size = shutil.get_terminal_size()
        text = Text.from_ansi(self.chart.drawn(size.columns, _height(size.lines)))
        return text.append("\n" + self._status.text())


# --- The chart as SVG, without scripts -------------------------------------------------------------------------


WIDTH, HEIGHT = 720, 320

_COLOURS = ("#3b76c4", "#d9822b", "#3a9b5c", "#c4493b", "#7d5bb5", "#8a6d4b", "#c265a0", "#6b7280")
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 34, 14, 26
_BAR, _NAMES = 22, 150
_LEVELS = 5


def svg_of(chart: Chart) -> str:
    """The current chart as SVG."""
    bars = chart.longest() if chart.bars else []
    height = max(HEIGHT // 4, _TOP + _BAR * len(bars) + 8) if chart.bars else HEIGHT
    parts = "".join(_bars(bars) if chart.bars else _lines(chart))
    title = f'<text x="{WIDTH // 2}" y="16" text-anchor="middle" font-weight="600">{escape(chart.title)}</text>'
    style = 'style="font: 12px sans-serif; fill: currentColor"'
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" {style}>{title}{parts}</svg>'


def _bars(bars: Sequence[tuple[float, str]]) -> Iterator[str]:
    """From zero on, so that those below it go to the left."""
    values = [value for value, _ in bars]
    least, most = min([0.0, *values]), max([0.0, *values])
    room, span = WIDTH - _NAMES - 90, (most - least) or 1.0
    zero = _NAMES - least / span * room
    for number, (value, name) in enumerate(bars):
        top, length = _TOP + number * _BAR, abs(value) / span * room
        left = zero if value >= 0 else zero - length
        yield f'<text x="{_NAMES - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>'
        yield f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="{_BAR - 6}" fill="{_COLOURS[0]}"/>'
        yield f'<text x="{max(left + length, zero) + 6:.1f}" y="{top + 13}">{_shown(value)}</text>'


def _lines(chart: Chart) -> Iterator[str]:
    lines = chart.fullest()
    points = [(number_of(moment), value) for _, line in lines for moment, value in line]
    if not points:
        return
    across, up = _Axis([x for x, _ in points]), _Axis([y for _, y in points])
    for level in range(_LEVELS):
        value = up.least + up.span * level / (_LEVELS - 1)
        y = _y(up, value)
        yield f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#8884"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_shown(value)}</text>'
    places, names = chart.ticks() or ([across.least, across.most], [_shown(across.least), _shown(across.most)])
    for number, (place, name) in enumerate(zip(places, names, strict=True)):
        anchor = "start" if number == 0 else "end" if number == len(places) - 1 else "middle"
        yield f'<text x="{_x(across, place):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{escape(name)}</text>'
    for number, (_, line) in enumerate(lines):
        yield _line(line, _COLOURS[number % len(_COLOURS)], across, up)
    yield from _legend([name for name, _ in lines if name])


def _line(line: Sequence[Point], colour: str, across: _Axis, up: _Axis) -> str:
    places = " ".join(f"{_x(across, number_of(moment)):.1f},{_y(up, value):.1f}" for moment, value in line)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _legend(names: Sequence[str]) -> Iterator[str]:
    width = (WIDTH - _LEFT - _RIGHT) // max(len(names), 1)
    for number, name in enumerate(names):
        x, colour = _LEFT + number * width, _COLOURS[number % len(_COLOURS)]
        yield f'<text x="{x}" y="30" fill="{colour}">{escape(name[: max(width // 8, 3)])}</text>'


class _Axis:
    """From the least of some values to the most."""

    def __init__(self, values: Sequence[float]) -> None:
        self.least, self.most = min(values), max(values)

    @property
    def span(self) -> float:
        return (self.most - self.least) or 1.0


def _x(axis: _Axis, value: float) -> float:
    return _LEFT + (value - axis.least) / axis.span * (WIDTH - _LEFT - _RIGHT)


def _y(axis: _Axis, value: float) -> float:
    return HEIGHT - _BOTTOM - (value - axis.least) / axis.span * (HEIGHT - _TOP - _BOTTOM)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
