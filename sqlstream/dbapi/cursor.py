"""Cursors: statements in, rows out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from datetime import time as time_of_day
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot.tokens import Token, TokenType

from sqlstream.arguments import with_arguments
from sqlstream.dbapi.exceptions import Error, Warning, raised_as, raising  # noqa: A004
from sqlstream.errors import BindError, ExecutionError, Span, SqlStreamError
from sqlstream.grammar.script import tokenize
from sqlstream.query import Query, rows_of
from sqlstream.results import Rows
from sqlstream.types import DataType

# --- types of columns and constructors of values, as PEP 249 names them ------------------------------------------
# The ``type_code`` of a column is its type as DDL spells it, such as ``DECIMAL(10, 2)``; each equals one of the type
# objects here.


_WORD = re.compile(r"\w+")

Date, Time, Timestamp, Binary = date, time_of_day, datetime, bytes


@dataclass(frozen=True)
class TypeObject:
    """A DB-API type object, such as NUMBER. It is equal to the type code of each column type that belongs to it."""

    name: str
    types: frozenset[str]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.types == other.types
        if isinstance(other, str):
            word = _WORD.match(other)
            return word is not None and word[0] in self.types
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.types)


STRING = TypeObject("STRING", frozenset({"STRING", "ARRAY", "MAP", "STRUCT", "VARIANT", "VOID", "UNKNOWN"}))
"""Also what Python has as lists and dictionaries."""
BINARY = TypeObject("BINARY", frozenset({"BINARY"}))
NUMBER = TypeObject(
    "NUMBER", frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
)
DATETIME = TypeObject("DATETIME", frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL"}))
ROWID = TypeObject("ROWID", frozenset())
"""No column is one."""


def DateFromTicks(ticks: float) -> date:  # noqa: N802
    """Returns the local date at a time given in seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> time_of_day:  # noqa: N802
    """Returns the local time of day at a time given in seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """Returns the local date and time at a time given in seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


Column = tuple[str, str, None, None, int | None, int | None, None]
"""Name, type code, display size, internal size, precision, scale, whether NULL is allowed."""


def described(name: str, type_: DataType) -> Column:
    """Returns the tuple with which ``Cursor.description`` describes a column."""
    precision, scale = _digits(type_)
    return name, type_.ddl(), None, None, precision, scale, None


def _digits(type_: DataType) -> tuple[int | None, int | None]:
    match type_.name, type_.args:
        case "DECIMAL", (int(precision), int(scale)):
            return precision, scale
    return None, None


# --- executemany -----------------------------------------------------------------------------------------------


_ROWS_AT_ONCE = 1000
"""So many rows are parsed and planned in about a second."""


def statements_for(operation: str, rows: Iterable[Arguments]) -> Iterator[tuple[str, Arguments | None, int]]:
    """Splits an ``executemany`` into statements. Yields triples: the SQL text, its parameters, and how many of the
    parameter rows it executes.

    Rows of ``INSERT … VALUES (?, …)`` are combined into statements with many rows, whose parameters are None because
    their values are in the text.
    """
    values = _row_of_values(operation)
    if values is None:
        yield from ((operation, row, 1) for row in rows)
        return
    head, group, tail = operation[: values.start], operation[values.start : values.end], operation[values.end :]
    incoming = iter(rows)
    while chunk := list(islice(incoming, _ROWS_AT_ONCE)):
        yield head + ", ".join(_filled(operation, group, row) for row in chunk) + tail, None, len(chunk)


def _filled(operation: str, group: str, row: Arguments) -> str:
    try:
        return with_arguments(group, row)
    except SqlStreamError:
        with_arguments(operation, row)  # the same mistake, with its place in the whole statement
        raise


def _row_of_values(operation: str) -> Span | None:
    """Where ``(?, …)`` stands in ``INSERT … VALUES (?, …)``, if the text is that and has all its parameters there."""
    try:
        tokens = tokenize(operation)
    except SqlStreamError:
        return None  # it is told when the statement is executed
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens or tokens[0].token_type != TokenType.INSERT:
        return None
    starts = [i for i, token in enumerate(tokens) if token.token_type == TokenType.VALUES]
    if len(starts) != 1 or any(_is_parameter(token) for token in tokens[: starts[0]]):
        return None
    group = tokens[starts[0] + 1 :]
    return Span(group[0].start, group[-1].end + 1) if _is_one_group(group) else None


def _is_parameter(token: Token) -> bool:
    return token.token_type in (TokenType.PLACEHOLDER, TokenType.COLON)


def _is_one_group(tokens: Sequence[Token]) -> bool:
    """Whether the first parenthesis is closed by the last token."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.SEMICOLON or (depth == 0 and index < len(tokens) - 1):
            return False
    return bool(tokens) and depth == 0


if TYPE_CHECKING:
    from types import TracebackType

    from sqlstream.arguments import Arguments
    from sqlstream.batch.run import BatchRun
    from sqlstream.dbapi.connection import Connection
    from sqlstream.jobs import Job

    Result = Rows | Query | Job

CLOSED = "SS472"
NO_ROWS = "SS279"
CANCELLED = "SS473"
ENDLESS = "SS480"
WRONG_PARAMETERS = "SS259"

SYNC = "table.dml-sync"


class Cursor:
    """Executes statements and fetches their rows. It must be used by one thread, except for ``cancel``.

    ``rowcount`` is -1 where it is unknown: for a stream of rows and for background jobs. ``job``: the job that an
    INSERT started. ``messages``: the warnings of the last statement.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._closed = False
        self._cancelled = Event()
        self._others: set[str] | None = None
        self._running: BatchRun | Job | None = None
        self._forget()

    def _forget(self) -> None:
        self.description: list[Column] | None = None
        self.rowcount = -1
        self.lastrowid: None = None
        self.job: Job | None = None
        self.messages: list[tuple[type[Warning], str]] = []
        self._query: Query | None = None
        self._tables: Iterator[pa.Table] | None = None
        self._table: pa.Table | None = None
        self._rows: list[tuple[Any, ...]] | None = None
        self._offset = 0

    # --- statements -------------------------------------------------------------------------------------------

    def execute(self, operation: str, parameters: Arguments | None = None) -> Cursor:
        """Executes a statement, or a script whose last statement gives the result.

        A query over finished data has ended when this returns. Rows of a stream arrive while they are fetched. A
        bounded INSERT is waited for, unless SET 'table.dml-sync' says otherwise.
        """
        self._begin()
        _require_values(parameters)
        try:
            for result in self.connection.results(operation, parameters, self._on_begin, self._on_started):
                self._take(result)
        finally:
            self._others = None
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Arguments]) -> Cursor:
        """Executes a statement once for each set of parameters. For ``INSERT … VALUES (?, …)`` many rows are written
        at once.
        """
        self._begin()
        counted, certain = 0, True
        with raising():
            for text, parameters, _ in statements_for(operation, _checked(seq_of_parameters)):
                self.execute(text, parameters)
                if self.description is not None:
                    self._stop()
                    message = "executemany runs statements without rows, and this one gives some"
                    raise BindError(NO_ROWS, message, hint="Call execute() for each of the parameters.")
                counted, certain = counted + max(self.rowcount, 0), certain and self.rowcount >= 0
        self.rowcount = counted if certain else -1
        return self

    def _begin(self) -> None:
        self._require_open()
        self._stop()
        self._forget()
        self._cancelled.clear()

    def _on_begin(self, others: set[str]) -> None:
        self._others = others

    def _on_started(self, result: Result) -> None:
        self._running = None if isinstance(result, Rows) else result.job if isinstance(result, Query) else result
        self._others = None

    def _take(self, result: Result) -> None:
        self._forget()
        if isinstance(result, Rows):
            self._take_rows(result)
        elif isinstance(result, Query):
            self._take_query(result)
        else:
            self._take_job(result)

    def _take_rows(self, rows: Rows) -> None:
        if rows.columns == ("result",) and (said := _acknowledged(rows)) is not None:
            self.messages = [(Warning, said)] if said else []
            return
        self._describe(rows.columns, rows)
        self.rowcount = len(rows)
        self._tables = iter((rows.to_arrow(),))

    def _take_query(self, query: Query) -> None:
        self._query = query
        if query.job.is_batch:
            self._wait(query.job)
            self.rowcount = query.job.progress().rows_out
        elif self._cancelled.is_set():
            self._stop()
            raise _cancelled()
        self._describe(query.columns, query)
        self._tables = query.batches()

    def _take_job(self, job: Job) -> None:
        self.job = job
        settings = self.connection.session.workspace.settings
        if settings[SYNC] if SYNC in settings.given else job.is_bounded:
            self._wait(job)
            self.rowcount = job.progress().rows_out
        self._running = None

    def _wait(self, run: BatchRun | Job) -> None:
        if self._cancelled.is_set():
            run.stop()
        with raising():
            run.wait()
        if run.state.value == "STOPPED":
            raise _cancelled()

    def _describe(self, names: Sequence[str], typed: Rows | Query) -> None:
        self.description = [described(name, type_) for name, type_ in zip(names, typed.types, strict=True)]

    # --- rows -------------------------------------------------------------------------------------------------

    def fetchone(self) -> tuple[Any, ...] | None:
        """Returns the next row; None at the end. On a stream it waits for the row."""
        self._require_rows()
        return self._row() if self._has_more() else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Returns the next ``size`` rows, by default ``arraysize``. On an unbounded stream it waits for one row and
        returns what is available.
        """
        self._require_rows()
        wanted, rows = self.arraysize if size is None else size, list[tuple[Any, ...]]()
        while len(rows) < wanted and (self._is_in_hand() or not (rows and self._is_endless())) and self._has_more():
            rows.append(self._row())
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Returns all remaining rows. Raises ProgrammingError SS480 on an unbounded stream."""
        self._require_end()
        rows: list[tuple[Any, ...]] = []
        while self._has_more():
            rows.append(self._row())
        return rows

    def fetch_arrow_table(self) -> pa.Table:
        """Returns all remaining rows as an Arrow table. Raises ProgrammingError SS480 on an unbounded stream."""
        self._require_end()
        tables = list(self._rest())
        return pa.concat_tables(tables) if tables else self._empty()

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """Returns a reader of the remaining rows as Arrow record batches. On a stream they arrive while it runs."""
        self._require_rows()
        tables = self._rest()
        first = next(tables, None)
        if first is None:
            return pa.RecordBatchReader.from_batches(self._empty().schema, [])

        def batches() -> Iterator[pa.RecordBatch]:
            yield from first.to_batches()
            for table in tables:
                yield from table.to_batches()

        return pa.RecordBatchReader.from_batches(first.schema, batches())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def _row(self) -> tuple[Any, ...]:
        if self._rows is None:
            with raising():
                self._rows = rows_of(self._table)
        self._offset += 1
        return self._rows[self._offset - 1]

    def _is_in_hand(self) -> bool:
        return self._table is not None and self._offset < self._table.num_rows

    def _has_more(self) -> bool:
        """Whether there is a row, once it has come."""
        while not self._is_in_hand():
            assert self._tables is not None
            with raising():
                self._table = next(self._tables, None)
            self._rows, self._offset = None, 0
            if self._table is None:
                self._require_not_cancelled()
                return False
        return True

    def _rest(self) -> Iterator[pa.Table]:
        if self._table is not None:
            rest, self._offset = self._table.slice(self._offset), self._table.num_rows
            yield rest
        assert self._tables is not None
        with raising():
            yield from self._tables
        self._require_not_cancelled()

    def _empty(self) -> pa.Table:
        assert self._query is not None, "other results have a table"
        return Rows(self._query.columns, self._query.types).to_arrow()

    def _require_not_cancelled(self) -> None:
        if self._cancelled.is_set() and self._query is not None and self._query.job.state.value == "STOPPED":
            raise _cancelled()

    def _require_rows(self) -> None:
        self._require_open()
        if self.description is None:
            hint = "Fetch behind a query, SHOW, DESCRIBE or EXPLAIN."
            raise raised_as(BindError(NO_ROWS, "no statement has given rows", hint=hint))

    def _is_endless(self) -> bool:
        return self._query is not None and not self._query.job.is_bounded

    def _require_end(self) -> None:
        self._require_rows()
        if self._is_endless():
            hint = "Iterate over the cursor, or fetchmany(n), and close() it."
            message = "the query reads a source without an end, so it never has all rows"
            raise raised_as(ExecutionError(ENDLESS, message, hint=hint))

    # --- the rest ---------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancels the cursor's running ``execute`` or ``fetch…``, which then raises OperationalError SS473. Any thread
        may call it.
        """
        self._cancelled.set()
        running, others = self._running, self._others
        if running is not None:
            running.stop()
        elif others is not None:  # a statement begins: what it has started so far
            for run in self.connection.session.running:
                if run.id not in others:
                    run.stop()

    def _stop(self) -> None:
        """End the query of before; jobs of INSERT go on."""
        if self._query is not None:
            with raising():
                self._query.stop()
        self._running = None

    def close(self) -> None:
        """Closes the cursor: stops its query and discards the rows that were not fetched."""
        if not self._closed:
            self._stop()
            self._forget()
            self._closed = True

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing, because values have types of their own."""
        self._require_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, because values are always fetched completely."""
        self._require_open()

    def _require_open(self) -> None:
        if self._closed or self.connection.closed:
            raise raised_as(ExecutionError(CLOSED, "the cursor is closed", hint="Open another one with cursor()."))

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _acknowledged(rows: Rows) -> str | None:
    """What a definition says beyond OK; None for rows."""
    said = str(next(iter(rows), ("",))[0])
    return said.removeprefix("OK").removeprefix(". ") if said == "OK" or said.startswith("OK. ") else None


def _cancelled() -> Error:
    return raised_as(ExecutionError(CANCELLED, "the statement was cancelled"))


def _require_values(parameters: object) -> None:
    if parameters is not None and (
        isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping)
    ):
        message = f"parameters are a list of values or a dictionary, not a {type(parameters).__name__}"
        raise raised_as(BindError(WRONG_PARAMETERS, message, hint="Write execute(text, [value])."))


def _checked(rows: Iterable[Arguments]) -> Iterator[Arguments]:
    for row in rows:
        _require_values(row)
        yield row
