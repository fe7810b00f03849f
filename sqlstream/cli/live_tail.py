"""The last rows of a result, which move on a terminal as rows come."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from sqlstream.cli.job_status import JobStatus
from sqlstream.cli.live import follow_on
from sqlstream.cli.output import PagedWriter
from sqlstream.results import shown_rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from rich.console import RenderableType

    from sqlstream.query import Query


def write_tail(
    query: Query, writer_into: Callable[[TextIO], PagedWriter], out: TextIO, page: int, tables: Iterator[pa.Table]
) -> None:
    """Show the last ``page`` rows of a query in place while they come; they stay when it ends, or Ctrl-C ends it.

    ``writer_into`` makes what writes rows into a text.
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
        import pyarrow as pa

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
        from rich.text import Text

        columns = shutil.get_terminal_size().columns
        return Text(self.text() + self._status.text(columns), no_wrap=True, overflow="crop")
