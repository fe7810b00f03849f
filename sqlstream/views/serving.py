"""Serving the views of a script: runs all jobs of its statements in one Spark, and restarts them when they fail.

Only the serving thread uses the session; the page shows the last ``snapshot``.
"""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes, parse_script, to_sql
from sqlstream.jobs import Job, JobState
from sqlstream.jobs.records.record import JobRecord
from sqlstream.jobs.reports.plan_figures import FIGURES, Answer, LocalPage, PlanFigures, figures_of, page_of
from sqlstream.results import moment, time_text, watermark_text
from sqlstream.secrets import shown_script
from sqlstream.statements.materialized_views import MaterializedView, materialized_named
from sqlstream.views.keeping import ANOTHER_VIEW, OCCUPIED, ViewStatus

if TYPE_CHECKING:
    from sqlstream.session import Session

NOT_SERVED = "SS489"
DROPPED = "DROPPED"

_FIRST_DELAY_S, _LONGEST_DELAY_S = 1.0, 60.0
_RESTARTS = "restart-strategy.type"


@dataclass
class _Attempt:
    """The next start of a view or an INSERT that did not start, or whose job has failed for good."""

    delay_s: float = _FIRST_DELAY_S
    at: float = 0.0
    error: str | None = None


@dataclass
class _Served:
    """A statement with a job. ``view`` is None for INSERT and statement sets. ``dropped``: some process has dropped the
    view, so its job is not started again.
    """

    statement: nodes.Statement
    text: str
    view: MaterializedView | None = None
    job: Job | None = None
    attempt: _Attempt = field(default_factory=_Attempt)
    dropped: bool = False


class Serving:
    """Runs scripts for ``sqlstream serve``: starts the jobs of their statements and restarts them. ``tell`` is called
    with a line of text for each start that fails.
    """

    def __init__(self, session: Session, tell: Callable[[str], None]) -> None:
        self._session = session
        self._tell = tell
        self._served: list[_Served] = []
        session.views.keeps = True
        if _RESTARTS not in session.workspace.settings.given:
            session.workspace.settings.set(_RESTARTS, "exponential-delay")

    def run(self, scripts: Iterable[str]) -> None:
        """Execute the statements and start their jobs; ``look`` retries starts that fail.

        Raises SqlStreamErrors for mistakes in statements that start no job, BindError SS489 for a query, because nobody
        would read its rows.
        """
        for text in scripts:
            for statement in parse_script(text):
                try:
                    self._take(statement, text)
                except SqlStreamError as error:
                    raise error.with_source(text) from error.__cause__

    def _take(self, statement: nodes.Statement, text: str) -> None:
        match statement:
            case nodes.Query():
                message = "nobody sees the rows of a query that is served"
                hint = "Write CREATE MATERIALIZED VIEW name AS before it."
                raise BindError(NOT_SERVED, message, statement.span, hint=hint)
            case nodes.CreateMaterializedView() | nodes.Insert() | nodes.StatementSet():
                served = _Served(statement, text)
                self._served.append(served)
                self._start(served)
            case _:
                self._session.execute(statement, text)

    def look(self) -> None:
        """Starts the jobs again that have failed or were lost, and those that could not be started, each after a pause
        that grows with every failure. To be called from time to time.
        """
        now = time.monotonic()
        for served in self._served:
            try:
                if not served.dropped and now >= served.attempt.at and self._is_to_start(served):
                    self._start(served)
            except SqlStreamError as error:  # of the record of a job, which may be read again in a moment
                self._failed(served, str(error))

    def _is_to_start(self, served: _Served) -> bool:
        job = served.job
        if served.attempt.error is not None:
            return True
        if served.view is not None:
            status = self._session.views.status(served.view, self._session.workspace, exact=False)
            return status.state in ("FAILED", "LOST", "STOPPED") and not self._is_dropped(served, served.view)
        return job is not None and job.state is JobState.FAILED

    def _is_dropped(self, served: _Served, view: MaterializedView) -> bool:
        served.dropped = self._session.views.is_dropped(view, self._session.workspace)
        if served.dropped:
            self._tell(f'"{view.name}" has been dropped, and is not kept any more')
        return served.dropped

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to keep: others have dropped all views, and there are no other jobs."""
        return bool(self._served) and all(served.dropped for served in self._served)

    def _start(self, served: _Served) -> None:
        session, attempt = self._session, served.attempt
        if served.job is not None and served.job.exception is not None:
            self._failed(served, str(served.job.exception))
        try:
            if served.view is not None:
                served.job = session.views.begin(served.view, session.workspace) or served.job
            else:
                result = session.execute(served.statement, served.text)
                served.job = result if isinstance(result, Job) else None
                served.view = self._view_of(served.statement)
        except SqlStreamError as error:
            if served.view is None and any(d.code in (ANOTHER_VIEW, OCCUPIED) for d in error.diagnostics):
                raise  # which no second attempt mends
            self._failed(served, str(error.with_source(served.text)))
            return
        attempt.error = None

    def _failed(self, served: _Served, error: str) -> None:
        attempt = served.attempt
        if attempt.error != error:
            self._tell(error)
        attempt.error = error
        attempt.at = time.monotonic() + attempt.delay_s
        attempt.delay_s = min(attempt.delay_s * 2, _LONGEST_DELAY_S)

    def _view_of(self, statement: nodes.Statement) -> MaterializedView | None:
        if not isinstance(statement, nodes.CreateMaterializedView):
            return None
        return materialized_named(statement.name, self._session.workspace)

    # --- what is told -----------------------------------------------------------------------------------------

    def snapshot(self) -> list[Mapping[str, Any]]:
        """Returns a dictionary of property values, such as name and state, for each view and each other job, as the
        status page shows them.
        """
        return [dict(self._facts(served)) for served in self._served]

    def records(self) -> dict[str, JobRecord]:
        """Returns a dictionary from the name of each view or job that has a record to this record. The names are those
        in ``snapshot``.
        """
        records = ((_shown_name(served), _record_of(served, self._status(served))) for served in self._served)
        return {name: record for name, record in records if record is not None}

    def _facts(self, served: _Served) -> Iterator[tuple[str, Any]]:
        yield from _told(served, self._status(served))

    def _status(self, served: _Served) -> ViewStatus | None:
        if served.view is None:
            return None
        return self._session.views.status(served.view, self._session.workspace, exact=False)


def _record_of(served: _Served, status: ViewStatus | None) -> JobRecord | None:
    if status is not None:
        return status.record
    return None if served.job is None else served.job.record


def _shown_name(served: _Served) -> str:
    return served.view.name if served.view is not None else _name_of(served)


def _told(served: _Served, status: ViewStatus | None) -> Iterator[tuple[str, Any]]:
    view = served.view
    record = _record_of(served, status)
    state = status.state if status is not None else "NOT STARTED" if record is None else record.status
    state = DROPPED if served.dropped else state
    yield "name", _shown_name(served)
    yield "kind", _kind_of(served.statement)
    yield "state", state
    yield "table", None if view is None else view.table.option("table-name") or view.table.option("path")
    yield "epoch", None if status is None else status.epoch
    committed = None if status is None else status.committed
    yield "committed", None if committed is None else time_text(moment(committed))
    yield "age_seconds", None if committed is None else round(time.time() - committed, 1)
    progress = None if record is None else record.life.progress
    watermark = None if progress is None else progress.watermark_ms
    if progress is not None and progress.input_ended:
        yield "watermark", "end of input"
    else:
        yield "watermark", None if watermark is None else watermark_text(watermark)
    yield "rows_in", 0 if progress is None else progress.rows_in
    yield "rows_out", 0 if progress is None else progress.rows_out
    yield "rows_per_second", 0.0 if progress is None else round(progress.rows_per_second, 1)
    yield "restarts", 0 if progress is None else progress.restarts
    failure = None if record is None else record.error or record.life.last_failure
    yield "error", served.attempt.error or (None if failure is None else ": ".join(failure))
    yield "sql", shown_script(to_sql(served.statement))


def _kind_of(statement: nodes.Statement) -> str:
    return statement.kind.lower() if isinstance(statement, nodes.CreateMaterializedView) else "insert"


def _name_of(served: _Served) -> str:
    if served.job is not None:
        return served.job.name
    named = served.statement
    if isinstance(named, nodes.CreateMaterializedView):
        return str(named.name)
    return str(named.target) if isinstance(named, nodes.Insert) else "statement set"


# --- Plans of views with the counts of their jobs --------------------------------------------------------------


class PlanPages:
    """The web pages that show the plans of jobs. The serving thread calls ``take``, the threads of the web server call
    ``answer``.
    """

    def __init__(self) -> None:
        self._by_name: Mapping[str, PlanFigures] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of the views that have a page."""
        return frozenset(self._by_name)

    def take(self, records: Mapping[str, JobRecord]) -> None:
        """Updates the pages, which are those of the jobs in ``records`` whose plan can be shown. ``records``: the
        current record of each job, by name.
        """
        kept = dict[str, PlanFigures]()
        for name, record in records.items():
            before = self._by_name.get(name)
            try:
                if before is None or not before.is_of(record):
                    kept[name] = PlanFigures(record)
                else:
                    before.take(record)
                    kept[name] = before
            except SqlStreamError:
                continue
        self._by_name = kept

    def answer(self, path: str) -> Answer | None:
        """The web server's response to the path ``NAME/`` or ``NAME/figures.json``; None for other paths."""
        name, _, what = path.partition("/")
        figures = self._by_name.get(unquote(name))
        if figures is None:
            return None
        return {"": page_of, FIGURES: figures_of}[what](figures) if what in ("", FIGURES) else None


# --- The page, as self-contained HTML that refreshes itself, and as JSON ---------------------------------------


_PLANS = "/plans/"

_REFRESH_S = 2
_GOOD, _BAD = ("RUNNING", "FINISHED"), ("FAILED", "LOST", "DAMAGED")


@dataclass(frozen=True)
class Shown:
    """What the status page of ``sqlstream serve`` shows: the URL of the database with the views, without its password,
    and one dictionary of property values per view.

    ``plans`` are the names of the views that have a page with their plan.
    """

    url: str
    views: Sequence[Mapping[str, Any]] = ()
    plans: frozenset[str] = frozenset()


class Page(LocalPage):
    """Serves the status page on a port of this machine until it is closed. ``shown``: returns the page's content.
    ``plans``: the pages with plans. Both are used by the server's threads. ``token``: as of ``LocalPage``.
    """

    def __init__(
        self, port: int, shown: Callable[[], Shown], plans: PlanPages | None = None, token: str | None = None
    ) -> None:
        answers = partial(_answer, shown, plans or PlanPages())
        super().__init__(port, answers, "/, /views.json and /plans/NAME/", token)


def _answer(shown: Callable[[], Shown], plans: PlanPages, path: str) -> Answer | None:
    match path:
        case "/":
            return Answer(page(shown()))
        case "/views.json":
            return Answer(as_json(shown()), "application/json")
    return plans.answer(path.removeprefix(_PLANS)) if path.startswith(_PLANS) else None


def as_json(shown: Shown) -> str:
    """Returns JSON text with the URL of the server and, for each materialized view, what the page shows of it."""
    return json.dumps({"url": shown.url, "views": list(shown.views)}, ensure_ascii=False, indent=1) + "\n"


def page(shown: Shown) -> str:
    """The page as HTML, without external resources, so that it can be saved."""
    rows = "\n".join(_row(view, view["name"] in shown.plans) for view in shown.views)
    return _PAGE.format(refresh=_REFRESH_S, url=html.escape(shown.url), head=_HEAD, rows=rows, count=len(shown.views))


_COLUMNS = (
    ("name", "view"),
    ("state", "state"),
    ("epoch", "epoch"),
    ("age_seconds", "committed"),
    ("watermark", "watermark"),
    ("rows_in", "rows in"),
    ("rows_out", "rows out"),
    ("rows_per_second", "rows/s"),
    ("restarts", "restarts"),
)
_HEAD = "".join(f"<th>{title}</th>" for _, title in _COLUMNS)


def _row(view: Mapping[str, Any], has_plan: bool) -> str:
    state = str(view["state"])
    tone = "good" if state in _GOOD else "bad" if state in _BAD else "idle"
    cells = "".join(f"<td>{html.escape(_text(key, view))}</td>" for key, _ in _COLUMNS)
    error = view.get("error")
    told = f'<p class="error">{html.escape(str(error))}</p>' if error else ""
    plan = f' <a href="{_PLANS}{quote(str(view["name"]), safe="")}/">plan and rates</a>' if has_plan else ""
    sql = html.escape(str(view["sql"]))
    more = f"<details><summary>SQL{plan}</summary><pre>{sql}</pre></details>{told}"
    return f'<tr class="{tone}">{cells}</tr><tr class="more"><td colspan="{len(_COLUMNS)}">{more}</td></tr>'


def _text(key: str, view: Mapping[str, Any]) -> str:
    value = view.get(key)
    match key, value:
        case _, None:
            return "–"
        case "age_seconds", float() | int():
            return f"{value:,.0f} s ago"
        case "rows_per_second", float() | int():
            return f"{value:,.0f}"
        case _, int():
            return f"{value:,}"
    return str(value)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="refresh" content="{refresh}"><title>sqlstream: views</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }}
body {{ margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }}
h1 {{ font-size: 1.3rem; margin: 0 0 .2rem; }}
code, pre {{ font: 13px/1.4 ui-monospace, monospace; }}
table {{ border-collapse: collapse; width: 100%; margin-top: 1.2rem; }}
th, td {{ text-align: left; padding: .35rem .6rem; vertical-align: top; }}
th {{ border-bottom: 2px solid #8888; font-weight: 600; }}
tr.more td {{ border-bottom: 1px solid #8884; padding-top: 0; }}
tr > td:nth-child(2) {{ font-weight: 600; }}
tr.good > td:nth-child(2) {{ color: #1a8f4c; }}
tr.bad > td:nth-child(2) {{ color: #d0342c; }}
tr.idle > td:nth-child(2) {{ color: #9a7b00; }}
td:nth-child(n+6) {{ font-variant-numeric: tabular-nums; }}
.error {{ color: #d0342c; margin: .3rem 0 0; white-space: pre-wrap; }}
summary {{ cursor: pointer; opacity: .7; }}
</style></head>
<body><h1>Materialized views</h1>
<p>{count} at <code>{url}</code> · <a href="/views.json">views.json</a></p>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table></body></html>
"""
