"""\\plot: a column of a query's result as a chart in the terminal, which moves as the result does."""

from __future__ import annotations

import math
import re
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from sqlstream.cli.job_status import JobStatus
from sqlstream.cli.live import follow_on
from sqlstream.results import Columns, shown_rows_of

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

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
    """``column`` over time, a line for each value of the column ``by``."""

    column: str
    by: str | None = None

    @classmethod
    def of(cls, text: str) -> Plot | None:
        """That of ``COLUMN [BY COLUMN]``; None for another text."""
        match = _REQUEST.fullmatch(text.strip())
        return cls(match["column"], match["by"]) if match else None


def positions(plot: Plot, columns: Columns) -> tuple[int, int | None]:
    """Of the columns that are asked for. ValueError in words of a message where there is no such column, or where it
    has no numbers to draw."""
    names = tuple(name for name, _ in columns)
    column = _position(plot.column, names)
    if not columns[column][1].is_numeric:
        raise ValueError(f'draws numbers, and column "{names[column]}" is of type {columns[column][1]}')
    return column, None if plot.by is None else _position(plot.by, names)


@dataclass
class Chart:
    """What a query has given so far. Rows that are only added make lines, over the first column of times or else over
    the numbers of the rows. A result that is updated by a key makes a bar for each, any other one a line over the
    numbers of its changes."""

    column: int
    by: int | None
    time: int | None
    bars: bool
    title: str
    _points: dict[str, deque[Point]] = field(default_factory=dict)
    _count: int = 0

    @classmethod
    def of(cls, query: Query, plot: Plot) -> Chart:
        """ValueError as of ``positions``."""
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
        """The rows of a micro-batch; of a result that is updated, all rows that are there now."""
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
        """The chart as text of so many columns and lines."""
        import plotext

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
        """The bars that are drawn, the longest first."""
        bars = ((points[-1][1], name) for name, points in self._points.items())
        return sorted(bars, reverse=True)[:_MOST_BARS]

    def fullest(self) -> list[tuple[str, Sequence[Point]]]:
        """The lines that are drawn, by the value of BY."""
        lines = sorted(self._points.items(), key=lambda item: len(item[1]), reverse=True)
        return [(name, points) for name, points in lines[:_MOST_SERIES]]

    def ticks(self) -> tuple[list[float], list[str]] | None:
        """Times below the lines; None where they are over numbers."""
        moments = [moment for _, points in self.fullest() for moment, _ in points if isinstance(moment, datetime)]
        return _ticks(min(moments), max(moments)) if moments else None


def _highest(table: pa.Table, column: int) -> pa.Table:
    """The rows that make the longest bars."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ranks = pa.table({"value": table.column(column)})
    return table.take(pc.select_k_unstable(ranks, _MOST_BARS, [("value", "descending")]))


def _is_drawn(value: object) -> bool:
    """True of numbers that have a place on an axis."""
    return isinstance(value, int | float | Decimal) and math.isfinite(value)


def number_of(moment: int | datetime) -> float:
    """Where it stands on an axis."""
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
    """The chart of the query's ``tables`` while they come, in place; its last state stays. Ctrl-C interrupts."""
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
        from rich.text import Text

        size = shutil.get_terminal_size()
        text = Text.from_ansi(self.chart.drawn(size.columns, _height(size.lines)))
        return text.append("\n" + self._status.text())
