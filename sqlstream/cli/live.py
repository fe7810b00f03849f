"""Results that a terminal shows in place while they change."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING, Protocol, TextIO

import pyarrow as pa
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from sqlstream.arrow_rows import shown_rows_of
from sqlstream.cli.output import PagedWriter, TableWriter, Writer
from sqlstream.cli.progress import JobStatus
from sqlstream.settings import RESULT_MODE, Settings
from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlstream.query import Query


class Following(Protocol):
    """A display that follows a query. ``follow`` reads the query to its end; ``__rich__`` is the present display."""

    def follow(self) -> None:
        """Take all that the query gives, until it ends."""
        ...

    def __rich__(self) -> RenderableType: ...


def follow_on(out: TextIO, following: Following) -> None:
    """Follow a query. On a terminal show the display four times a second, and remove it at the end."""
    if not out.isatty():
        following.follow()
        return
    keep_stderr()
    console = Console(file=out, highlight=False)
    with Live(following, console=console, refresh_per_second=4, transient=True, redirect_stdout=False):
        following.follow()


# --- Updating results as a table -------------------------------------------------------------------------------


_SMALLEST_PAGE = 10


def page_of_terminal() -> int:
    """The number of rows that fit on the terminal, next to the head, the row count and the status lines."""
    return max(_SMALLEST_PAGE, shutil.get_terminal_size().lines - 8)


def is_shown_as_table(query: Query, settings: Settings) -> bool:
    """True for an updating query if the settings show its table rather than its changes."""
    return query.is_updating and settings[RESULT_MODE] == "table"


def write_table(query: Query, writer: Writer, out: TextIO, page: int, tables: Iterator[pa.Table] | None = None) -> None:
    """Write the table of an updating query once, when it has ended. Meanwhile a terminal shows its first ``page`` rows.

    Where Ctrl-C interrupts that, the table is written as it stands, and the caller ends the query. ``tables``: those
    of the query, where the caller takes them.
    """
    shown = _Shown(query, page, tables)
    try:
        follow_on(out, shown)
    finally:
        if shown.table is not None:
            writer.write(shown_rows_of(shown.table))
        writer.close()


class _Shown:
    """The newest table of a query, and how it looks on a terminal."""

    def __init__(self, query: Query, page: int, tables: Iterator[pa.Table] | None) -> None:
        self._tables = query.tables() if tables is None else tables
        self._page = page
        self._status = JobStatus(query.job)
        self.table: pa.Table | None = None

    def follow(self) -> None:
        for table in self._tables:
            self.table = table

    def __rich__(self) -> RenderableType:
        lines = StringIO()
        if self.table is not None:
            page = self.table.slice(0, self._page)
            writer = TableWriter(self.table.column_names, lines)
            writer.write(shown_rows_of(page))
            writer.skip(self.table.num_rows - page.num_rows)
            writer.close()
        lines.write(self._status.text())
        return Text(lines.getvalue(), no_wrap=True, overflow="crop")


# --- The last rows of a result ---------------------------------------------------------------------------------


def write_tail(
    query: Query, writer_into: Callable[[TextIO], PagedWriter], out: TextIO, page: int, tables: Iterator[pa.Table]
) -> None:
    """Show the last ``page`` rows of a query in place while they arrive. They stay when the query ends or is
    interrupted.

    ``writer_into`` makes the writer of rows into a text.
    """
    tail = _Tail(query, writer_into, page, tables)
    try:
        follow_on(out, tail)
    finally:
        out.write(tail.text())
        out.flush()


class _Tail:
    def __init__(
        self, query: Query, writer_into: Callable[[TextIO], PagedWriter], page: int, tables: Iterator[pa.Table]
    ) -> None:
        self._writer_into = writer_into
        self._page = page
        self._tables = tables
        self._status = JobStatus(query.job)
        self._last: pa.Table | None = None
        self._skipped = 0

    def follow(self) -> None:
        for table in self._tables:
            rows = table if self._last is None else pa.concat_tables([self._last, table])
            gone = max(0, rows.num_rows - self._page)
            self._skipped += gone
            self._last = rows.slice(gone).combine_chunks()

    def text(self) -> str:
        lines = StringIO()
        writer = self._writer_into(lines)
        if self._last is not None:
            writer.leave_out(self._skipped)
            writer.write(shown_rows_of(self._last))
        writer.close()
        return lines.getvalue()

    def __rich__(self) -> RenderableType:
        columns = shutil.get_terminal_size().columns
        return Text(self.text() + self._status.text(columns), no_wrap=True, overflow="crop")
