"""Writers of rows: as a table, JSON, CSV, or a line for each column. Each batch is flushed as it arrives."""

from __future__ import annotations

import base64
import csv
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from threading import RLock, Timer
from typing import TYPE_CHECKING, Protocol, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from types import TracebackType


Row = Sequence[object]
FOR_PROGRAMS = ("json", "jsonl", "csv", "markdown")
"""Those among which no other text may stand."""

# A value longer than this does not widen its column for all the others.
_WIDEST = 60


class Writer(Protocol):
    """Writes the rows of one result in some format, batch by batch. ``close`` ends the result."""

    def write(self, rows: Sequence[Row]) -> None:
        """Writes further rows of the result."""
        ...

    def close(self) -> None:
        """Ends the result, after its last row."""
        ...


def writer_for(style: str, names: Sequence[str], out: TextIO) -> Writer:
    """Returns a writer for one result. ``style``: one of FORMATS. ``names``: the column names. ``out``: where it
    writes.
    """
    match style:
        case "table":
            return TableWriter(names, out)
        case "json":
            return JsonWriter(names, out)
        case "jsonl":
            return JsonLinesWriter(names, out)
        case "csv":
            return CsvWriter(names, out)
        case "markdown":
            return MarkdownWriter(names, out)
        case "vertical":
            return VerticalWriter(names, out)
    raise TypeError(style)


class PagedWriter:
    """A writer for humans. It can leave out rows; the end of the result says how many rows there were."""

    def __init__(self, names: Sequence[str], out: TextIO) -> None:
        self._names = list(names)
        self._out = out
        self._count = 0
        self._skipped = 0

    def write(self, rows: Sequence[Row]) -> None:
        """Writes further rows of the result."""
        raise NotImplementedError

    @property
    def lines_per_row(self) -> int:
        """How many lines one row takes."""
        return 1

    def skip(self, count: int) -> None:
        """Leaves out ``count`` rows and writes a line that says so."""
        if count:
            self._out.write(f"  … {count:,} more\n")
            self._skipped += count
            self._out.flush()

    def leave_out(self, count: int) -> None:
        """Leaves out ``count`` rows without a line. They are included in the total."""
        self._skipped += count

    def close(self) -> None:
        """Writes the number of rows."""
        count = self._count + self._skipped
        shown = f", {self._count:,} shown" if self._skipped else ""
        self._out.write(f"({count:,} row{'' if count == 1 else 's'}{shown})\n")
        self._out.flush()


class TableWriter(PagedWriter):
    """Writes a text table. The first batch determines the column widths; a longer value later shifts only its own
    line.
    """

    def __init__(self, names: Sequence[str], out: TextIO) -> None:
        super().__init__(names, out)
        self._widths: list[int] | None = None
        self._right: list[bool] = []

    def write(self, rows: Sequence[Row]) -> None:
        """Writes further rows, before the first ones the header."""
        if not rows:
            return
        cells = [[_one_line(text_of(value)) for value in row] for row in rows]
        if self._widths is None:
            self._begin(cells, rows)
        for row in cells:
            self._line(row, self._right)
        self._count += len(cells)
        self._out.flush()

    def close(self) -> None:
        """Writes the number of rows, and the header if there were none."""
        if self._widths is None:
            self._begin([], [])
        super().close()

    def _begin(self, cells: Sequence[Sequence[str]], rows: Sequence[Row]) -> None:
        columns = list(zip(self._names, *cells, strict=True))
        self._widths = [min(max(map(cell_len, column)), max(_WIDEST, cell_len(column[0]))) for column in columns]
        self._right = [_is_numeric(row[i] for row in rows) for i in range(len(self._names))]
        self._line(self._names, [False] * len(self._names))
        self._out.write("+".join("-" * (width + 2) for width in self._widths) + "\n")

    def _line(self, cells: Sequence[str], right: Sequence[bool]) -> None:
        assert self._widths is not None
        padded = [_pad(cell, width, r) for cell, width, r in zip(cells, self._widths, right, strict=True)]
        self._out.write("|".join(f" {cell} " for cell in padded).rstrip() + "\n")


class VerticalWriter(PagedWriter):
    """Writes each row as one line per column, below a line with the row's number, for rows wider than the terminal."""

    def __init__(self, names: Sequence[str], out: TextIO) -> None:
        super().__init__(names, out)
        self._width = max(map(cell_len, names), default=0)

    @property
    def lines_per_row(self) -> int:
        """How many lines one row takes: that of its number, and one for each column."""
        return 1 + len(self._names)

    def write(self, rows: Sequence[Row]) -> None:
        """Writes further rows, one line per column."""
        for row in rows:
            self._count += 1
            self._out.write(f"-[ {self._count + self._skipped} ]".ljust(self._width + 4, "-") + "\n")
            for name, value in zip(self._names, row, strict=True):
                self._out.write(f"{_pad(name, self._width, False)} | {_one_line(text_of(value))}\n")
        self._out.flush()


class MarkdownWriter:
    """Writes a table in GitHub's Markdown."""

    def __init__(self, names: Sequence[str], out: TextIO) -> None:
        self._out = out
        self._line(names)
        self._line(["---"] * len(names))

    def write(self, rows: Sequence[Row]) -> None:
        """Writes further rows as lines of the table."""
        for row in rows:
            self._line([_one_line(text_of(value)).replace("|", "\\|") for value in row])
        self._out.flush()

    def close(self) -> None:
        """Flushes the output. The format has no end mark."""
        self._out.flush()

    def _line(self, cells: Iterable[str]) -> None:
        self._out.write(f"| {' | '.join(cells)} |\n")


class JsonLinesWriter:
    """Writes one JSON object per row and line. Repeated column names get a number, because an object cannot repeat a
    key.
    """

    def __init__(self, names: Sequence[str], out: TextIO) -> None:
        self._names = distinct(names)
        self._out = out

    def write(self, rows: Sequence[Row]) -> None:
        """Writes one object for each row."""
        for row in rows:
            self._out.write(self._object(row) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Flushes the output. The format has no end mark."""
        self._out.flush()

    def _object(self, row: Row) -> str:
        values = (json_value(value) for value in row)
        return json.dumps(dict(zip(self._names, values, strict=True)), ensure_ascii=False)


class JsonWriter(JsonLinesWriter):
    """Writes the whole result as one JSON array of objects. Rows are written as they arrive."""

    def __init__(self, names: Sequence[str], out: TextIO) -> None:
        super().__init__(names, out)
        self._before = "[\n"

    def write(self, rows: Sequence[Row]) -> None:
        """Writes further rows as elements of the array."""
        for row in rows:
            self._out.write(f"{self._before}{self._object(row)}")
            self._before = ",\n"
        self._out.flush()

    def close(self) -> None:
        """Ends the array."""
        self._out.write("[]\n" if self._before.startswith("[") else "\n]\n")
        super().close()


class CsvWriter:
    """Writes CSV (RFC 4180) with a header. NULL is an empty field."""

    def __init__(self, names: Sequence[str], out: TextIO) -> None:
        self._out = out
        self._csv = csv.writer(out, lineterminator="\n")
        self._csv.writerow(names)

    def write(self, rows: Sequence[Row]) -> None:
        """Writes further rows. NULL is an empty field."""
        self._csv.writerows([None if value is None else text_of(value) for value in row] for row in rows)
        self._out.flush()

    def close(self) -> None:
        """Flushes the output. The format has no end mark."""
        self._out.flush()


def plain_text(rows: Iterable[Row]) -> str:
    """Returns the first values of all rows as text, one per line."""
    return "\n".join(str(row[0]) for row in rows)


def distinct(names: Iterable[str]) -> list[str]:
    """Makes names unique by appending ``_2``, ``_3``, … to repeated ones."""
    unique: list[str] = []
    for name in names:
        candidate, n = name, 1
        while candidate in unique:
            n += 1
            candidate = f"{name}_{n}"
        unique.append(candidate)
    return unique


def text_of(value: object) -> str:
    """Formats a value for tables and CSV, as CAST to STRING does; ARRAY, MAP and STRUCT values are JSON."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime():
            return _timestamp(value, " ")
        case bytes() | bytearray():
            return bytes(value).hex()
        case Mapping() | list() | tuple():
            return json.dumps(json_value(value), ensure_ascii=False)
    return str(value)


def json_value(value: object) -> object:
    """Converts a value for JSON: times are ISO 8601 texts, BINARY is Base64, DECIMAL is a text because JSON numbers
    are read as binary ones.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)  # NaN and infinities are no JSON
        case datetime():
            return _timestamp(value, "T")
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {text_of(k): json_value(v) for k, v in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return json_value(value.asDict())
        case list() | tuple():
            return [json_value(v) for v in value]
        case date() | Decimal() | timedelta():
            return str(value)
    return str(value)


def _timestamp(value: datetime, separator: str) -> str:
    """The text of a time: no fraction of zero; no zone in tables, in JSON the zone that the value has."""
    text = value.replace(tzinfo=None).isoformat(separator)
    text = text.rstrip("0") if "." in text else text
    if separator == " " or value.tzinfo is None:
        return text
    offset = value.isoformat()[-6:]
    return text + ("Z" if offset == "+00:00" else offset)


def _is_numeric(values: Iterable[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in present)


def _one_line(text: str) -> str:
    """Control characters as escapes: a value must neither break its table nor steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


PATIENCE_SECONDS = 1.0
"""So long nobody wonders what happens."""


class StatusLine:
    """Shows the text that ``text`` returns at the bottom of the terminal while the ``with`` block runs, but not in the
    first second.

    ``since``: when that second starts, on the monotonic clock; by default now. A terminal that cannot redraw lines
    shows the text once.
    """

    def __init__(self, text: Callable[[], str], since: float | None = None) -> None:
        self._text = text
        self._since = time.monotonic() if since is None else since
        self._lock = RLock()
        self._due = self._hidden = self._closed = False
        self._told = False
        self._live: Live | None = None
        self._timer: Timer | None = None

    def __enter__(self) -> StatusLine:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Shows the line after one second, if standard error is a terminal."""
        if sys.stderr.isatty():
            keep_stderr()
            self._timer = Timer(max(0.0, self._since + PATIENCE_SECONDS - time.monotonic()), self._become_due)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Removes the line permanently."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._closed = True
            self._draw()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """A context manager that hides the line while something else is written to the same terminal."""
        with self._lock:
            self._hidden = True
            self._draw()
        try:
            yield
        finally:
            with self._lock:
                self._hidden = False
                self._draw()

    def _become_due(self) -> None:
        with self._lock:
            self._due = True
            self._draw()

    def _draw(self) -> None:
        shown = self._due and not self._hidden and not self._closed
        if shown and self._live is None:
            self._live = self._begun()
        elif not shown and self._live is not None:
            self._live.stop()
            self._live = None

    def _begun(self) -> Live | None:
        console = Console(stderr=True, highlight=False)
        if console.is_dumb_terminal:
            if not self._told:
                console.print(Text(self._text()))
            self._told = True
            return None
        spinner = Spinner("dots")

        def line() -> Spinner:
            spinner.update(text=Text(self._text()))  # names in it are no markup
            return spinner

        live = Live(console=console, get_renderable=line, refresh_per_second=4, transient=True, redirect_stdout=False)
        live.start()
        return live


@contextmanager
def working(what: str, shown: bool = True, since: float | None = None) -> Iterator[StatusLine]:
    """A context manager: the status line says what the block does (``what``) and for how long. It does nothing unless
    ``shown``.
    """
    begin = time.monotonic()
    status = StatusLine(lambda: f"{what} … {time.monotonic() - begin:.0f} s", since)
    if not shown:
        yield status
        return
    with status:
        yield status
