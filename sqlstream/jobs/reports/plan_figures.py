"""The page of a running plan: what a job's record says of each operator, totals since its start and present rates."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs.records.record import JobRecord
from sqlstream.jobs.reports.progress import Progress, size_text
from sqlstream.local_server import Access, LocalServer, is_loopback, name_of
from sqlstream.planner.explain.html import Figure, Figures, html_page, plan_tree
from sqlstream.planner.explain.to_json import from_json
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, Scan, StatementSet
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.results import moment, time_text, watermark_text
from sqlstream.udfs.texts import reason_of

# --- pages that a process shows to browsers on its own machine ---------------------------------------------------


NO_PAGE = "SS483"
HOST = "127.0.0.1"
_NO_TOKEN = "the address that the command has printed opens this page; programs send its token as their bearer token\n"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Answer:
    """The response of the local web server to a request. ``kind`` is its media type."""

    text: str
    kind: str = "text/html"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answers = Callable[[str], Answer | None]
"""What there is at a path, without what follows a question mark; None for nothing. Called from several threads."""


class LocalPage(LocalServer):
    """A web server on a port of this machine that serves pages until it is closed. Raises ExecutionError SS483 where
    the port is in use.

    ``port``: 0 takes any free one. ``answers``: returns the response to a path, None if there is no such page; it is
    called from several threads. ``paths``: the existing paths as text, for the message of error 404. ``token``: what
    opens the pages; not given, one is made, and ``address`` has it.
    """

    def __init__(self, port: int, answers: Answers, paths: str, token: str | None = None) -> None:
        self.access = Access(port, HOST) if token is None else Access(port, HOST, token)
        self._is_given = token is not None
        try:
            server = ThreadingHTTPServer((HOST, port), partial(_Handler, self.access, answers, paths))
        except OSError as error:
            message = f"the page cannot be shown on port {port}: {reason_of(error)}"
            raise ExecutionError(NO_PAGE, message, hint="Give another one: --port N; 0 takes any.") from None
        server.daemon_threads = True
        super().__init__(server, HOST, "sqlstream-page")

    @property
    def address(self) -> str:
        """What to open in a browser: with the token, unless it was given, so that it is known."""
        return self.url if self._is_given else f"{self.url}/?token={self.access.token}"


class _Handler(BaseHTTPRequestHandler):
    server_version = "sqlstream"
    timeout = 30  # seconds; a client that says nothing must not hold a thread for good

    def __init__(self, access: Access, answers: Answers, paths: str, *arguments: Any) -> None:
        self._access, self._answers, self._paths = access, answers, paths
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer with a page."""
        self._send(self._answer())

    def _answer(self) -> Answer:
        """Other hosts than this one's own names are refused, as scripts of other pages ask."""
        if not is_loopback(name_of(self.headers.get("Host", ""))):
            return Answer("this page is for 127.0.0.1 alone\n", "text/plain", 403)
        path, _, query = self.path.partition("?")
        port = self.connection.getsockname()[1]
        given = parse_qs(query).get("token")
        if given is not None and self._access.is_token(given[0]):
            cookie = self._access.new_cookie(port)
            return Answer("", "text/plain", 303, {"Location": "/", "Set-Cookie": cookie})
        if not (self._access.has_bearer(self.headers) or self._access.has_session(self.headers, port)):
            return Answer(_NO_TOKEN, "text/plain", 401, {"WWW-Authenticate": "Bearer"})
        found = self._answers(path)
        return found if found is not None else Answer(f"there are {self._paths}\n", "text/plain", 404)

    def _send(self, answer: Answer) -> None:
        body = answer.text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in {**_HEADERS, **answer.headers}.items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # a browser that has gone on to another page
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  (a name of http.server)
        """Nobody reads the requests of the page."""


NO_PLAN = "SS488"

RATE_S = 10.0
"""Rates are those of the micro-batches that ended in so many seconds, and of the last one in any case, which fades."""

_READ = 'rows that were read of table "{}", those that a filter drops among them'
_SHARED = "; the table is read in several places, this is the number of all of them"
_TAKEN = "rows that its exchange has brought to it; where it combines rows before, what became of them"
_GIVEN = "results that it has given, those that take others back among them"
_LATE = "rows that came behind the watermark, and that it did not take"
_STATE = (
    "entries of state after the last micro-batch, each of which may hold many rows, and bytes in memory and in files"
)
_WATERMARK = "that of the last micro-batch, and the partitions of Kafka tables that hold it there"
_ASKED = "rows with a key to ask for"
_REQUESTS = "requests that were sent, those that were tried again among them"
_WRITTEN = "rows that the sink was given"


class PlanFigures:
    """The plan of one job and its current numbers: row counts, rates, state size and so on. They are those of the
    record that was last passed to ``take``. It can be used from any thread.

    Raises ExecutionError SS488 for a record without a plan, or with one of another version.
    """

    def __init__(self, record: JobRecord) -> None:
        self._plan = _plan_of(record)
        self._record = record
        self._ends: deque[tuple[float, Progress]] = deque()
        self.take(record)

    def take(self, record: JobRecord) -> None:
        """Replaces the counts by those of a newer record of the job. Rates are computed anew after a restart of the
        job.
        """
        life = record.life
        if life.instance != self._record.life.instance:
            self._ends.clear()
        self._record, ends = record, self._ends
        if not ends or life.progress.batches != ends[-1][1].batches:
            ends.append((life.heartbeat, life.progress))
        while len(ends) > 2 and ends[1][0] <= life.heartbeat - RATE_S:
            ends.popleft()

    def is_of(self, record: JobRecord) -> bool:
        """Whether a record is of the same job and plan."""
        return (record.id, record.description.plan) == (self._record.id, self._record.description.plan)

    @property
    def plan(self) -> Output | Insert | StatementSet:
        """The plan that the job runs."""
        return self._plan

    @property
    def has_rates(self) -> bool:
        """True where two micro-batches have been reported, between which rates are computed."""
        return len(self._ends) > 1

    def figures(self, source: str | None = None) -> Figures:
        """Returns the current counts and rates of the job and its operators. ``source``: the address at which the page
        requests newer ones; None: the page is not updated.
        """
        rates = _Rates(self._record, tuple(self._ends))
        return Figures((*_of_job(self._record, rates), *_of_nodes(self._plan, rates)), source)

    def tree(self) -> str:
        """Returns the plan with its current counts as a list of HTML, for a page that shows more than the plan."""
        return plan_tree(self._plan, self.figures())

    def page(self, source: str | None = None) -> str:
        """Returns the page with the plan and its counts as HTML. ``source``: the address at which the page requests
        newer counts; None: the page is not updated.
        """
        record = self._record
        return html_page(self._plan, record.description.sql, f"Job {record.name}", self.figures(source))


def _plan_of(record: JobRecord) -> Output | Insert | StatementSet:
    try:
        plan = from_json(dict(record.description.plan))
    except (ValueError, KeyError, TypeError, AttributeError, SqlStreamError) as error:
        detail = (
            f"{type(error).__name__}: {error}" if record.description.plan else "The job has written down no plan yet."
        )
        raise ExecutionError(NO_PLAN, f'job "{record.name}" has no plan to show', detail=detail) from error
    assert isinstance(plan, Output | Insert | StatementSet), plan
    return plan


class _Rates:
    """Rates of whatever is counted, between the first of the kept micro-batches and the last."""

    def __init__(self, record: JobRecord, ends: tuple[tuple[float, Progress], ...]) -> None:
        self.progress = record.life.progress
        self._first = ends[0][1]
        last = ends[-1][0]
        until = last if record.life.heartbeat - last < RATE_S else record.life.heartbeat
        self.seconds = until - ends[0][0] if record.is_running else 0.0

    def counted(self, figure: Figure, count: Callable[[Progress], int | None]) -> Figure:
        """The figure with the present count, and its rate where there is one."""
        value = count(self.progress)
        if value is None:
            return figure
        rate = (value - (count(self._first) or 0)) / self.seconds if self.seconds > 0 else None
        return replace(figure, value=value, per_second=rate)


def _of_job(record: JobRecord, rates: _Rates) -> Iterator[Figure]:
    progress = rates.progress
    yield Figure(None, "status", "status", "as the job wrote it down", record.status)
    yield Figure(None, "at", "at", "when the job wrote these figures down", time_text(moment(record.life.heartbeat)))
    yield rates.counted(Figure(None, "in", "rows in", "rows that were read of all tables"), lambda p: p.rows_in)
    yield rates.counted(Figure(None, "out", "rows out", _WRITTEN), lambda p: p.rows_out)
    yield Figure(None, "watermark", "watermark", _WATERMARK, _watermark(progress))
    yield Figure(None, "batches", "micro-batches", "since the job was started", progress.batches)
    yield Figure(None, "batch_ms", "last micro-batch", "from its begin to its end", words=f"{progress.batch_ms:,} ms")
    yield Figure(None, "state", "state", _STATE, words=_size(progress.state_rows, progress.state_bytes))
    yield Figure(None, "waiting", "rows waiting", "for the answers to lookups, or for barriers", progress.pending or 0)
    yield Figure(None, "restarts", "restarts", "after a failure", progress.restarts)
    over = f"{rates.seconds:.0f} s" if rates.seconds > 0 else None
    yield Figure(None, "over", "rates over", "the last micro-batches", words=over)


def _of_nodes(plan: Node, rates: _Rates) -> Iterator[Figure]:
    """Operators with state are counted from the top, and lookups too, as a job's reports number them."""
    nodes = list(plan.walk())
    scans = [node.table.name for node in nodes if isinstance(node, Scan)]
    operators, lookups = 0, 0
    for number, node in enumerate(nodes):
        if isinstance(node, Scan):
            more = _READ.format(node.table.name) + (_SHARED if scans.count(node.table.name) > 1 else "")
            yield _rows_read(Figure(number, "read", "rows read", more), node.table.name, rates)
        if isinstance(node, Insert):
            yield _written(Figure(number, "written", "rows written", _WRITTEN), node, plan, rates)
        if isinstance(node, Output):
            yield rates.counted(Figure(number, "written", "rows out", _WRITTEN), lambda p: p.rows_out)
        if isinstance(node, Lookup):
            yield from _asked(number, lookups, rates)
            lookups += 1
        if node.keeps_state:
            yield from _of_operator(number, operators, node, rates)
            operators += 1


def _rows_read(figure: Figure, table: str, rates: _Rates) -> Figure:
    return rates.counted(figure, lambda p: p.read_by_table.get(table))


def _written(figure: Figure, insert: Insert, plan: Node, rates: _Rates) -> Figure:
    if insert is plan:
        return rates.counted(figure, lambda p: p.rows_out)
    return rates.counted(figure, lambda p: p.rows_by_table.get(insert.table.name))


def _asked(number: int, lookup: int, rates: _Rates) -> Iterator[Figure]:
    def rows(progress: Progress) -> int | None:
        return progress.lookups[lookup].rows if lookup in progress.lookups else None

    def requests(progress: Progress) -> int | None:
        return progress.lookups[lookup].requests if lookup in progress.lookups else None

    yield rates.counted(Figure(number, "asked", "rows asked for", _ASKED), rows)
    yield rates.counted(Figure(number, "requests", "requests", _REQUESTS), requests)


def _of_operator(number: int, operator: int, node: Node, rates: _Rates) -> Iterator[Figure]:
    yield rates.counted(Figure(number, "taken", "rows to it", _TAKEN), lambda p: p.taken_by_operator.get(operator))
    yield rates.counted(Figure(number, "given", "results", _GIVEN), lambda p: p.given_by_operator.get(operator))
    if node.awaited_domains:
        yield rates.counted(Figure(number, "late", "late rows", _LATE), lambda p: p.late_by_operator.get(operator))
    state = rates.progress.state_by_operator.get(operator)
    words = None if state is None else _size(*state)
    if state is None and operator in rates.progress.taken_by_operator:
        words = "with that of the operator below"
    yield Figure(number, "state", "state", _STATE, words=words)


def _watermark(progress: Progress) -> str:
    if progress.input_ended:
        return "end of input"
    held = f" held by {', '.join(progress.held_by)}" if progress.held_by else ""
    return watermark_text(progress.watermark_ms) + held


def _size(entries: int, size: int) -> str:
    return f"{entries:,} entries, {size_text(size)}"


# --- The page --------------------------------------------------------------------------------------------------


FIGURES = "figures.json"
"""Where a page finds its figures, beside itself."""


def page_of(figures: PlanFigures) -> Answer:
    """The web server's response with the whole page."""
    return Answer(figures.page(FIGURES))


def figures_of(figures: PlanFigures) -> Answer:
    """Returns the web server's response with the current counts and rates as JSON, by which an open page updates
    itself.
    """
    text = json.dumps(figures.figures().as_json(), ensure_ascii=False, indent=1)
    return Answer(f"{text}\n", "application/json")
