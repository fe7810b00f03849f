"""Cells of SQL in notebooks: ``%load_ext sqlstream.notebook``, then ``%%sqlstream`` on top of a cell.

Needs IPython: ``pip install 'sqlstream[notebook]'``. Nothing else of the product imports this module.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import DisplayHandle

from sqlstream.arguments import named_parameters
from sqlstream.errors import SqlStreamError
from sqlstream.query import ArrowRows, Query, shown_rows_of
from sqlstream.results import SHOWN, Rows, html_table, text_table
from sqlstream.session import Session, connect
from sqlstream.shell.chart import Chart, Plot, svg_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from sqlstream.jobs import Job


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Registers the cell magics. IPython calls it for ``%load_ext sqlstream``."""
    shell.register_magics(SqlStreamMagics)


class LiveTable:
    """Displays a running query below a notebook cell: its last rows and a status line."""

    def __init__(self, columns: tuple[str, ...], rows: list[tuple[Any, ...]], about: str) -> None:
        self.columns = columns
        self.rows = rows
        self.about = about

    def __repr__(self) -> str:
        lines = text_table(self.columns, self.rows, len(self.rows)).splitlines()
        return "\n".join([*lines[:-1], self.about])

    def _repr_html_(self) -> str:
        table = html_table(self.columns, self.rows, len(self.rows)).partition("</table>")
        return f"{table[0]}</table><p>{html.escape(self.about)}</p>"


class LivePlot:
    """Displays a running query (``--plot``) below a notebook cell as a chart: a picture, or text where there is no
    browser.
    """

    def __init__(self, chart: Chart, about: str) -> None:
        self._html = f"{svg_of(chart)}<p>{html.escape(about)}</p>"
        self._text = f"chart of {chart.title}: {about}"

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


@magics_class
class SqlStreamMagics(Magics):
    """The IPython magic ``%%sqlstream``, which runs a cell as SQL."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._own: Session | None = None

    @magic_arguments()
    @argument("--to", metavar="NAME", help="keep the result as a DataFrame in the variable NAME")
    @argument("--rows", type=int, default=SHOWN, metavar="N", help=f"show the last N rows ({SHOWN})")
    @argument("--plot", metavar="COLUMN", help="show a chart of the column in place of the table")
    @argument("--by", metavar="COLUMN", help="with --plot: a line or a bar for each value of the column")
    @argument("--for", dest="seconds", type=float, metavar="SECONDS", help="stop the query after so many seconds")
    @argument("--session", metavar="NAME", help="use the session in the variable NAME in place of the notebook's own")
    @cell_magic
    def sqlstream(self, line: str, cell: str) -> Rows | Job | None:
        """Runs the cell as SQL. The displayed result of a query is updated while it runs; interrupting the kernel
        stops the query.

        ``:name`` in the cell is replaced by the value of the notebook's variable ``name``.
        """
        given = parse_argstring(self.sqlstream, line)
        with _short_tracebacks():
            result = self._session(given.session).sql(cell, self._arguments(cell))
            if not isinstance(result, Query):
                if given.to and isinstance(result, Rows):
                    self._keep(given.to, result)
                return result
            chart = None if given.plot is None else _chart(result, given.plot, given.by)
            last = _shown_live(result, given.rows, given.seconds, chart, whole=given.to is not None)
            if given.to:
                self._keep(given.to, last)
        return None

    def _session(self, name: str | None) -> Session:
        if name is not None:
            session = self._variables.get(name)
            if not isinstance(session, Session):
                raise UsageError(f"{name} is no session: write {name} = sqlstream.connect()")
            return session
        if self._own is None:
            self._own = connect()
        return self._own

    def _arguments(self, cell: str) -> dict[str, Any] | None:
        names = {name for name, _ in named_parameters(cell)}
        missing = sorted(names - self._variables.keys())
        if missing:
            raise UsageError(f":{missing[0]} is the variable {missing[0]}, and there is none")
        return {name: self._variables[name] for name in names} or None

    @property
    def _variables(self) -> Mapping[str, Any]:
        assert self.shell is not None
        variables: Mapping[str, Any] = self.shell.user_ns
        return variables

    def _keep(self, name: str, rows: Rows) -> None:
        assert self.shell is not None
        self.shell.push({name: rows.to_pandas()})


def _chart(query: Query, column: str, by: str | None) -> Chart:
    """UsageError, with the query stopped, where there is nothing to draw."""
    try:
        return Chart.of(query, Plot(column.strip("`"), by.strip("`") if by is not None else None))
    except ValueError as error:
        query.stop()
        raise UsageError(f"--plot {error}") from None


def _shown_live(query: Query, shown: int, seconds: float | None, chart: Chart | None, *, whole: bool) -> Rows:
    """Shows the query until it ends, or is stopped, and gives its rows; without ``whole`` the last ones alone."""
    columns = query.columns[1:] if query.is_updating else query.columns
    last = Rows(columns, query.types[1:] if query.is_updating else query.types)
    count = 0
    handle = DisplayHandle()
    waiting = "waiting for rows"
    handle.display(LiveTable(columns, [], waiting) if chart is None else LivePlot(chart, waiting))
    timer = None if seconds is None else Timer(seconds, query.stop)
    if timer is not None:
        timer.start()
    try:
        for table, new, count in _tables(query, shown, whole):
            last = ArrowRows.of(table)
            if chart is not None:
                chart.add(table if query.is_updating else new)
            handle.update(_live(last, columns, shown, _about(count, query), chart))
    except KeyboardInterrupt:  # the kernel's way to end a cell
        pass
    finally:
        if timer is not None:
            timer.cancel()
        query.stop()
    handle.update(_live(last, columns, shown, _about(count, query), chart))
    return last


def _tables(query: Query, shown: int, whole: bool) -> Iterator[tuple[pa.Table, pa.Table, int]]:
    """The table after each micro-batch, what is new where rows are only added, and how many rows there are."""
    count = 0
    if query.is_updating or whole:
        for table in query.tables():
            yield table, table.slice(min(count, table.num_rows)), table.num_rows
            count = table.num_rows
        return
    tail: pa.Table | None = None
    for batch in query.batches():
        count += batch.num_rows
        tail = batch if tail is None else pa.concat_tables([tail, batch])
        tail = tail.slice(max(0, tail.num_rows - shown))
        yield tail, batch, count


def _live(
    rows: Rows, columns: tuple[str, ...], shown: int, about: str, chart: Chart | None = None
) -> LiveTable | LivePlot:
    if chart is not None:
        return LivePlot(chart, about)
    table = rows.to_arrow()
    return LiveTable(columns, shown_rows_of(table.slice(max(0, table.num_rows - shown))), about)


def _about(count: int, query: Query) -> str:
    return f"{count} row{'' if count == 1 else 's'}, {query.job.state.value.lower()}"


@contextmanager
def _short_tracebacks() -> Iterator[None]:
    """What is wrong with SQL is shown as such, without the lines of Python that have noticed it."""
    try:
        yield
    except SqlStreamError as error:
        lines = str(error).splitlines()
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined] # what IPython asks errors for
        raise
