"""\\plot: a column of a query's result as a chart in the terminal, which moves as the result does."""

from __future__ import annotations

import re
import shutil
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO

from sqlstream.cli.progress import line_of
from sqlstream.results import shown_rows_of
from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

    from sqlstream.query import Query

_MOST_POINTS = 2_000
"""Of a line; older ones leave on the left."""

_MOST_SERIES = 8
_MOST_BARS = 20
_LEAST_LINES = 8
_TICKS = 4
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
    _points: dict[str, deque[tuple[Any, float]]] = field(default_factory=dict)
    _count: int = 0

    @classmethod
    def of(cls, query: Query, plot: Plot) -> Chart:
        """ValueError in words of a message where the query has no such columns."""
        names = query.columns[1:] if query.is_updating else query.columns
        types = query.types[1:] if query.is_updating else query.types
        column = _place(plot.column, names)
        by = None if plot.by is None else _place(plot.by, names)
        if by is None and query.key:
            by = _place(query.key[0], names)
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
        for row in shown_rows_of(table):
            value = row[self.column]
            if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                name = "" if self.by is None else str(row[self.by])
                self._points.setdefault(name, deque(maxlen=_MOST_POINTS)).append((self._moment(row), float(value)))

    def _moment(self, row: tuple[Any, ...]) -> Any:
        self._count += 1
        if self.time is not None:
            return row[self.time]
        return self._count

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
        values = sorted(((points[-1][1], name) for name, points in self._points.items()), reverse=True)[:_MOST_BARS]
        if values:
            values.reverse()
            plotext.bar([name for _, name in values], [value for value, _ in values], orientation="h", width=0.6)

    def _draw_lines(self, plotext: Any) -> None:
        newest = sorted(self._points.items(), key=lambda item: len(item[1]), reverse=True)[:_MOST_SERIES]
        for name, points in newest:
            known = [point for point in points if point[0] is not None]
            plotext.plot([_number(moment) for moment, _ in known], [value for _, value in known], label=name or None)
        moments = [moment for _, points in newest for moment, _ in points if isinstance(moment, datetime)]
        if moments:
            plotext.xticks(*_ticks(min(moments), max(moments)))


def _number(moment: Any) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)


def _ticks(first: datetime, last: datetime) -> tuple[list[float], list[str]]:
    """Where times stand below the chart, and how they are written: the day only where there are several."""
    style = "%H:%M:%S" if last - first < timedelta(days=1) else "%Y-%m-%d %H:%M"
    times = [first + (last - first) * i / (_TICKS - 1) for i in range(_TICKS)] if last > first else [first]
    return [time.timestamp() for time in times], [time.strftime(style) for time in times]


def _place(name: str, names: tuple[str, ...]) -> int:
    for i, one in enumerate(names):
        if one.casefold() == name.casefold():
            return i
    raise ValueError(f'needs a column of the query, and "{name}" is none: it has {", ".join(names)}')


def draw(query: Query, chart: Chart, out: TextIO) -> None:
    """The chart while the query runs, in place; its last state stays. Ctrl-C interrupts."""
    shown = _Shown(query, chart)
    try:
        if out.isatty():
            _follow_on_terminal(shown, out)
        else:
            shown.follow()
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
    began: float = field(default_factory=time.monotonic)

    def follow(self) -> None:
        for table in self._tables():
            self.chart.add(table)

    def _tables(self) -> Iterator[pa.Table]:
        return self.query.tables() if self.query.is_updating else self.query.batches()

    def __rich__(self) -> RenderableType:
        from rich.text import Text

        size = shutil.get_terminal_size()
        text = Text.from_ansi(self.chart.drawn(size.columns, _height(size.lines)))
        return text.append("\n" + line_of(self.query.job, time.monotonic() - self.began))


def _follow_on_terminal(shown: _Shown, out: TextIO) -> None:
    from rich.console import Console
    from rich.live import Live

    keep_stderr()
    console = Console(file=out, highlight=False)
    with Live(shown, console=console, refresh_per_second=4, transient=True, redirect_stdout=False):
        shown.follow()
