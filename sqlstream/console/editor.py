"""The SQL editor of the page: what it completes and checks, and the queries that it runs.

Each run has a session of its own, in which the scripts of the command have run, so nobody sees what others define. All
share one Spark, which starts with the first run. A run that no page asks for any more is stopped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any

import pyarrow as pa

from sqlstream.analysis import Planner
from sqlstream.console.side_rows import shown_text
from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.query import Query, shown_rows_of
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.statements.registry import starts_job

NO_JOBS = "SS499"
MOST_ROWS = 500
MOST_SUGGESTIONS = 50
MOST_RUNNING = 8
"""Each runs a query of Spark."""

FORGOTTEN_S = 180.0
"""Longer than a browser lets the timers of a page in the background wait, which is a minute."""

_MOST_RUNS = 50
_LOOK_S = 5.0

STARTING, RUNNING, FINISHED, STOPPED, FAILED = "STARTING", "RUNNING", "FINISHED", "STOPPED", "FAILED"


class Run:
    """A script that was started in the editor, and the newest rows of its last statement. Its own thread writes, those
    of the server read.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._state = STARTING
        self._columns: tuple[str, ...] = ()
        self._tables: deque[pa.Table] = deque()
        self._rows: list[tuple[Any, ...]] = []
        self._total = 0
        self._error: str | None = None
        self._query: Query | None = None
        self._stopped = False
        self._version = 0
        self._lock = Lock()
        self.asked = time.monotonic()

    @property
    def is_over(self) -> bool:
        """True where nothing of it runs any more."""
        return self._state in (FINISHED, STOPPED, FAILED)

    def as_json(self, known: int | None) -> Mapping[str, Any]:
        """What a page shows. ``known``: the version that the page has; rows are left out where it is this one."""
        self.asked = time.monotonic()
        with self._lock:
            told = {"version": self._version, "state": self._state, "total": self._total, "error": self._error}
            if known == self._version:
                return told
            rows = [*self._rows]
            for table in self._tables:
                rows += shown_rows_of(table)
        texts = [[None if value is None else shown_text(value) for value in row] for row in rows[-MOST_ROWS:]]
        return {**told, "columns": self._columns, "rows": texts}

    def stop(self) -> None:
        """Stop it; the rows that it has shown stay."""
        with self._lock:
            self._stopped = True
            query = self._query
        if query is not None:
            query.stop()

    def carry_out(self, session: Session) -> None:
        """Run the script, and take the rows of its results as they come."""
        try:
            _require_no_jobs(self._text)
            for result in session.results(self._text, as_table=False):
                if isinstance(result, Query):
                    self._take(result)
                elif isinstance(result, Rows):
                    self._set(columns=result.columns, rows=result.shown()[-MOST_ROWS:], total=len(result))
                if self._stopped:
                    break
            self._end(STOPPED if self._stopped else FINISHED)
        except SqlStreamError as error:
            self.fail("\n\n".join(diagnostic.render() for diagnostic in error.with_source(self._text).diagnostics))
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")

    def fail(self, error: str) -> None:
        """It has ended with an error."""
        with self._lock:
            self._error = error
        self._end(STOPPED if self._stopped else FAILED)

    def _take(self, query: Query) -> None:
        """Of updating results the table as it is now, of others the newest rows."""
        with self._lock:
            self._query, self._state = query, RUNNING
        if self._stopped:  # between the start of the query and here
            query.stop()
        names = query.columns[1:] if query.is_updating else query.columns
        self._set(columns=names, rows=[], total=0)
        if query.is_updating:
            for table in query.tables():
                self._show(deque([table.slice(0, MOST_ROWS)]), table.num_rows)
        else:
            total, kept = 0, deque[pa.Table]()
            for table in query.batches():
                total += table.num_rows
                kept.append(table.slice(max(0, table.num_rows - MOST_ROWS)))
                while sum(each.num_rows for each in kept) - kept[0].num_rows >= MOST_ROWS:
                    kept.popleft()
                self._show(kept.copy(), total)

    def _show(self, tables: deque[pa.Table], total: int) -> None:
        with self._lock:
            self._tables, self._total = tables, total
            self._version += 1

    def _set(self, columns: Sequence[str], rows: list[tuple[Any, ...]], total: int) -> None:
        with self._lock:
            self._columns, self._rows, self._total = tuple(columns), rows, total
            self._tables = deque()
            self._version += 1

    def _end(self, state: str) -> None:
        with self._lock:
            self._state, self._query = state, None
            self._version += 1


def _require_no_jobs(text: str) -> None:
    for statement in parse_script(text):
        if starts_job(statement) and not isinstance(statement, nodes.Query):
            message = "the editor shows rows, and starts no jobs"
            hint = "Run it with sqlstream run; here EXPLAIN shows its plan, and its query the rows."
            raise ExecutionError(NO_JOBS, message, statement.span, hint=hint)


class Editor:
    """Completes, checks and runs SQL for pages. ``open_session``: opens a session with what the scripts of the command
    define; it is used by the thread of one run. ``planner``: knows the same definitions.
    """

    def __init__(self, open_session: Callable[[], Session], planner: Planner) -> None:
        self._open_session, self._planner = open_session, planner
        self._runs: dict[str, Run] = {}
        self._count = 0
        self._lock = Lock()
        self._closed = Event()
        self._thread = Thread(target=self._look, name="sqlstream-editor", daemon=True)
        self._thread.start()

    # --- while one types ---

    def complete(self, text: str, at: int) -> list[Mapping[str, Any]]:
        """What may stand at an offset in characters; each replaces the characters from its ``start`` on."""
        found = self._planner.knowing(text).complete(text, at)[:MOST_SUGGESTIONS]
        return [{"text": one.text, "kind": one.kind.value, "start": one.start, "detail": one.detail} for one in found]

    def check(self, text: str) -> list[Mapping[str, Any]]:
        """The problems of a text, with their lines."""
        return [
            {
                "line": None if problem.span is None else text.count("\n", 0, problem.span.start) + 1,
                "text": " ".join(filter(None, (f"{problem.code}: {problem.message}.", problem.detail, problem.hint))),
                "warning": problem.warning,
            }
            for problem in self._planner.check(text)
        ]

    # --- runs ---

    def run(self, text: str) -> str | None:
        """Start a script, and return the name of its run; None where too many run."""
        with self._lock:
            if sum(not run.is_over for run in self._runs.values()) >= MOST_RUNNING:
                return None
            self._count += 1
            name, run = str(self._count), Run(text)
            self._runs[name] = run
            for old in [each for each, other in self._runs.items() if other.is_over][
                : max(0, len(self._runs) - _MOST_RUNS)
            ]:
                del self._runs[old]
        Thread(target=self._carry_out, args=(run,), name=f"sqlstream-editor-{name}", daemon=True).start()
        return name

    def of(self, name: str) -> Run | None:
        """The run with this name; None where there is none, or it is too old."""
        return self._runs.get(name)

    def close(self) -> None:
        """Stop what runs."""
        self._closed.set()
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            if not run.is_over:
                with suppress(Exception):  # Spark may have ended before
                    run.stop()

    def _carry_out(self, run: Run) -> None:
        try:
            with self._open_session() as session:
                run.carry_out(session)
        except Exception as error:
            run.fail(str(error) if isinstance(error, SqlStreamError) else f"{type(error).__name__}: {error}")

    def _look(self) -> None:
        while not self._closed.wait(_LOOK_S):
            self.stop_forgotten()

    def stop_forgotten(self) -> None:
        """Stop the runs whose pages are closed: nobody has asked for their rows for a while."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            if not run.is_over and time.monotonic() - run.asked > FORGOTTEN_S:
                with suppress(Exception):
                    run.stop()
