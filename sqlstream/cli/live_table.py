"""The table that an updating result amounts to, which changes in place on a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from sqlstream.cli.job_status import JobStatus
from sqlstream.cli.live import follow_on
from sqlstream.cli.output import TableWriter, Writer
from sqlstream.results import shown_rows_of
from sqlstream.settings import RESULT_MODE, Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

    from sqlstream.query import Query


_SMALLEST_PAGE = 10


def page_of_terminal() -> int:
    """How many rows fit on the terminal, beside a head, their number and a status of some lines."""
    return max(_SMALLEST_PAGE, shutil.get_terminal_size().lines - 8)


def is_shown_as_table(query: Query, settings: Settings) -> bool:
    """True of an updating query where the setting asks for its table rather than for its changes."""
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
        from rich.text import Text

        lines = StringIO()
        if self.table is not None:
            page = self.table.slice(0, self._page)
            writer = TableWriter(self.table.column_names, lines)
            writer.write(shown_rows_of(page))
            writer.skip(self.table.num_rows - page.num_rows)
            writer.close()
        lines.write(self._status.text())
        return Text(lines.getvalue(), no_wrap=True, overflow="crop")
