"""Results of statements while they arrive: until they end, Ctrl-C stops them, or Ctrl-Z sends them to the
background."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from os import isatty
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.input import Input

from sqlstream.batch.run import BatchRun
from sqlstream.cli.execution import is_text
from sqlstream.cli.output import JsonLinesWriter, PagedWriter, StatusLine, TableWriter, plain_text, working
from sqlstream.cli.progress import (
    JobStatus,
    LiveTable,
    follow_on,
    is_shown_as_table,
    page_of_terminal,
    write_page,
    write_tail,
    written,
)
from sqlstream.grammar.nodes import Statement
from sqlstream.jobs import Job
from sqlstream.query import Query, shown_rows_of
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.settings import RESULT_MODE
from sqlstream.shell.chart import Chart, draw
from sqlstream.shell.display import Display
from sqlstream.shell.failures import BackgroundJobs, name_in_statement
from sqlstream.shell.interrupts import Pressed, SentBack, Stopped, listening, unbroken
from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    import pyarrow as pa

# --- Long results, for the pager -------------------------------------------------------------------------------


_MOST_ROWS = 1_000_000


@dataclass
class LongResult:
    """Collects a result for the pager. ``tables`` have its rows up to a limit, ``skipped`` counts the others. ``page``
    is the number of rows that fit on the terminal.
    """

    page: int
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    skipped: int = 0

    @property
    def is_long(self) -> bool:
        """True where the rows do not fit on the terminal."""
        return self.rows > self.page

    def add(self, table: pa.Table) -> pa.Table | None:
        """Adds further rows of the result. Returns those of them that still fit on the terminal, to be printed; None if
        none fits.
        """
        room = max(0, self.page - self.rows)
        kept = table.slice(0, max(0, _MOST_ROWS - self.rows))
        self.tables.append(kept)
        self.rows += kept.num_rows
        self.skipped += table.num_rows - kept.num_rows
        return table.slice(0, room) if room else None


# --- Queries in the background, whose rows are written to a file -----------------------------------------------


def new_file(job: str, folder: Path) -> Path:
    """A new empty file for the rows of a query. OSError where it cannot be created."""
    number = 1
    while True:
        file = folder / (f"{job}.jsonl" if number == 1 else f"{job}-{number}.jsonl")
        try:
            file.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return file


def write_on(tables: Iterable[pa.Table], file: Path, *, whole: bool) -> None:
    """Goes on reading the tables of a query that was sent to the background: a thread writes them to ``file`` until
    they end. ``whole``: each table replaces the one before; otherwise rows are appended.

    Errors are not raised here; the job of the query reports them.
    """
    Thread(target=_write, args=(tables, file, whole), name="sqlstream-sent-back", daemon=True).start()


def _write(tables: Iterable[pa.Table], file: Path, whole: bool) -> None:
    with suppress(Exception):
        if whole:
            for table in tables:
                beside = file.with_name(f".{file.name}")
                with beside.open("w", encoding="utf-8") as out:
                    _append(table, out)
                beside.replace(file)
        else:
            with file.open("a", encoding="utf-8") as out:
                for table in tables:
                    _append(table, out)


def _append(table: pa.Table, out: TextIO) -> None:
    writer = JsonLinesWriter(table.column_names, out)
    writer.write(shown_rows_of(table))
    writer.close()


# --- Rows that may move from the terminal to a file ------------------------------------------------------------


_POLL_SECONDS = 0.2


class Feed:
    """Reads tables on a thread. Iterating yields them, until a key is ``pressed``.

    The next iteration continues where the last one ended. It raises the errors that reading the tables raises.
    """

    def __init__(self, tables: Iterator[pa.Table], pressed: Pressed) -> None:
        self._tables = tables
        self._pressed = pressed
        self._waiting: queue.Queue[pa.Table | BaseException | None] = queue.Queue(1)
        self._closed = Event()
        Thread(target=self._take, name="sqlstream-feed", daemon=True).start()

    def __iter__(self) -> Iterator[pa.Table]:
        while True:
            self._pressed.heed()
            try:
                item = self._waiting.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def going_on(self) -> Iterator[pa.Table]:
        """Yields the remaining tables; keys do not end this iteration."""
        while (item := self._waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()

    def _take(self) -> None:
        try:
            for table in self._tables:
                self._put(table)
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, item: pa.Table | BaseException | None) -> None:
        while not self._closed.is_set():
            try:
                return self._waiting.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
        return None


_LOOK_SECONDS = 0.2


class Showing:
    """Shows results. ``keys`` is the input of the terminal, to detect keys."""

    def __init__(self, session: Session, display: Display, background: BackgroundJobs) -> None:
        self._session = session
        self._display = display
        self._background = background
        self._began = 0.0
        self.keys: Input | None = None

    def show(self, statement: Statement, result: Rows | Query | Job, began: float) -> None:
        """Shows a result. ``began`` is when the statement began (``time.monotonic``). Raises Stopped if Ctrl-C has
        ended the query or the wait.
        """
        self._began = began
        match result:
            case Query():
                self._show_query(result)
            case Job():
                self._show_job(result)
            case Rows() if result.columns == ("result",):
                self._display.say(plain_text(result))
            case Rows() if is_text(statement):
                self._display.show_text(plain_text(result) + "\n")
            case Rows():
                self._display.show_text(self._display.as_text(result.columns, result.shown()))

    # --- queries ---

    def _show_query(self, query: Query) -> None:
        """Show rows, or the table that they amount to; Ctrl-C stops the query."""
        live = self._typed_at() and self._display.redraws_tables
        as_table = is_shown_as_table(query, self._session.workspace.settings, by_default=live)
        tables = query.tables() if as_table else query.batches()
        self._follow(query, tables, as_table, lambda rows: self._show_tables(query, rows, as_table))

    def draw(self, query: Query, chart: Chart) -> None:
        """Show the rows of a query as a chart; Ctrl-C and Ctrl-Z as with any query."""
        as_table = query.is_updating
        tables = query.tables() if as_table else query.batches()
        self._began = time.monotonic()
        self._follow(query, tables, as_table, lambda rows: draw(query, chart, rows, self._display.out))

    def _follow(
        self, query: Query, tables: Iterator[pa.Table], as_table: bool, show: Callable[[Iterator[pa.Table]], None]
    ) -> None:
        """Show the tables until they end, Ctrl-C stops the query, or Ctrl-Z sends it to the background."""
        with self._stopped_by_ctrl_c(query.job), self._listening() as pressed:
            if pressed is None:
                return show(tables)
            feed, sent_back = Feed(tables, pressed), False
            try:
                while not sent_back:
                    try:
                        return show(iter(feed))
                    except SentBack:
                        pressed.ctrl_z.clear()
                        sent_back = self._send_back(query, feed, as_table)
            finally:
                if not sent_back:
                    feed.close()
        return None

    def _show_tables(self, query: Query, tables: Iterator[pa.Table], as_table: bool) -> None:
        if as_table:
            self._show_table(query, tables)
        elif self._session.workspace.settings[RESULT_MODE] == "tail" and (writers := self._display.paged_writers):
            make = partial(writers, query.columns)
            page = page_of_terminal(make(StringIO()).lines_per_row)
            write_tail(query, make, self._display.out, page, tables)
        else:
            self._show_rows(query, tables)

    def _show_table(self, query: Query, tables: Iterator[pa.Table]) -> None:
        """Show the table that the changes amount to, on a terminal in place; when it ends or is interrupted, its last
        state. A terminal gets a page of a long one that is interrupted, and all of one that has ended in the pager.
        """
        names = query.columns[1:]
        live = LiveTable(query, tables, self._display.paged_writers or TableWriter)
        has_ended = False
        try:
            follow_on(self._display.out, live)
            has_ended = True
        finally:
            writer = self._display.writer(names)
            paged = self._display.paged(writer)
            if live.table is None:
                writer.close()
            elif paged is None or live.table.num_rows <= (page := page_of_terminal(paged.lines_per_row)):
                writer.write(shown_rows_of(live.table))
                writer.close()
            elif has_ended and self._display.pager_in_use is not None:
                self._display.show_rows(names, [shown_rows_of(live.table)])
            else:
                write_page(paged, live.table, page)

    def _show_rows(self, query: Query, tables: Iterator[pa.Table]) -> None:
        """Show all rows; on a terminal a page of each micro-batch."""
        writer = self._display.writer(query.columns)
        paged = self._display.paged(writer)
        if paged is not None and query.job.is_bounded and self._display.pager_in_use is not None:
            return self._show_in_pager(query, tables, paged)
        try:
            with self._status(query.job) as status:
                for table in tables:
                    page = table if paged is None else table.slice(0, page_of_terminal(paged.lines_per_row))
                    with status.hidden():
                        writer.write(shown_rows_of(page))
                        if paged is not None:
                            paged.skip(table.num_rows - page.num_rows)
        finally:
            writer.close()
        return None

    def _show_in_pager(self, query: Query, tables: Iterator[pa.Table], writer: PagedWriter) -> None:
        """Show a bounded result: directly while it fits on the terminal, else through the pager at its end."""
        long = LongResult(page_of_terminal(writer.lines_per_row))
        try:
            with self._status(query.job) as status:
                for table in tables:
                    if rows := long.add(table):
                        with status.hidden():
                            writer.write(shown_rows_of(rows))
        finally:
            if long.is_long:
                self._display.show_rows(query.columns, map(shown_rows_of, long.tables), long.skipped)
            else:
                writer.close()

    def _send_back(self, query: Query, feed: Feed, as_table: bool) -> bool:
        """Let the query continue in the background and write its rows to a file; False where it cannot."""
        job = query.job
        if isinstance(job, BatchRun):
            self._display.say("a query over finished data ends by itself, and stays here; Ctrl-C ends it now")
            return False
        try:
            file = new_file(job.name, Path.cwd())
        except OSError as error:
            self._display.say(f'the query stays here: "{Path.cwd()}" cannot be written: {reason_of(error)}')
            return False
        self._background.add(job)
        write_on(feed.going_on(), file, whole=as_table)
        what = "its table, as it stands," if as_table else "the rows that follow"
        self._display.say(
            f'"{job.name}" goes on in the background: {what} in "{file}"\n'
            f'  "STOP JOB {name_in_statement(job.name)};" stops it; it stops when the shell ends'
        )
        return True

    # --- jobs ---

    def _show_job(self, job: Job) -> None:
        """Wait for a bounded INSERT, so that its result can be read next; leave others in the background."""
        if not job.is_bounded:
            return self._leave_in_background(job)
        try:
            with self._stopped_by_ctrl_c(job), self._listening() as pressed, self._status(job):
                while not job.wait(_LOOK_SECONDS):
                    if pressed is not None:
                        pressed.heed()
        except SentBack:
            return self._leave_in_background(job)
        return self._display.say(written(job))

    def _leave_in_background(self, job: Job) -> None:
        self._background.add(job)
        self._display.say(f'job "{job.name}" runs in the background; it stops when the shell ends')

    # --- Ctrl-C and Ctrl-Z ---

    @contextmanager
    def _stopped_by_ctrl_c(self, job: Job | BatchRun) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            with unbroken(), working("stopping"):
                job.stop()
            self._display.say("stopped")
            raise Stopped from None

    @contextmanager
    def _listening(self) -> Iterator[Pressed | None]:
        """The keys that are pressed in the block; None where nobody types."""
        if self.keys is None or not self._typed_at():
            yield None
            return
        with listening(self.keys) as pressed:
            yield pressed

    def _typed_at(self) -> bool:
        """Whether somebody types at the shell's prompt."""
        return self.keys is not None and isatty(self.keys.fileno())

    def _status(self, job: Job | BatchRun) -> StatusLine:
        """The status line of a job."""
        return StatusLine(JobStatus(job).text, since=self._began)
