"""The pages as HTML: the list of jobs, one job, and the form that asks for the token. They need no other files.

Without scripts they come again by themselves; with them only what has changed is replaced, so that a reader's place and
what he has opened stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from urllib.parse import quote

from sqlstream.console.charts import STYLE as CHART_STYLE
from sqlstream.console.charts import chart
from sqlstream.console.editor import MOST_ROWS
from sqlstream.console.editor_page import STYLE as EDITOR_STYLE
from sqlstream.console.editor_page import editor_body
from sqlstream.console.requests import KINDS, Asked, Requests
from sqlstream.console.side_rows import SideRows
from sqlstream.console.watching import Savepoint, WatchedJob, Watcher
from sqlstream.jobs.records.history import CheckpointLine
from sqlstream.jobs.records.record import Failure, JobRecord
from sqlstream.jobs.reports.plan_figures import FIGURES
from sqlstream.planner.explain.html import PLAN_STYLE
from sqlstream.results import moment, time_text
from sqlstream.statements.jobs import CHECKPOINT_COLUMNS, checkpoint_rows, properties
from sqlstream.telemetry.figures import JobFigures
from sqlstream.telemetry.instruments import JOB_INSTRUMENTS, Instrument

LIVE = "live"
"""The part of a page that is asked for again."""

MOST_CHECKPOINTS = 20
_REFRESH_S = 10
_REFRESH_MS = 2000

_FIRST = (
    "sqlstream.source.rows",
    "sqlstream.sink.rows",
    "sqlstream.epoch.duration",
    "sqlstream.job.watermark.lag",
    "sqlstream.job.state.size",
    "sqlstream.job.late_rows",
    "sqlstream.source.bad_rows",
    "sqlstream.epoch.age",
)
"""The charts that everybody wants to see; the others are below them, folded."""

_NOT_DRAWN = (
    "sqlstream.job.status",
    "sqlstream.job.uptime",
    "sqlstream.job.watermark.time",
    "sqlstream.source.watermark",
    "sqlstream.epoch.last",
)
"""What rises by a second each second, and the state, are told in words."""

_GOOD, _BAD = ("RUNNING", "FINISHED"), ("FAILED", "LOST", "DAMAGED")

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --box: #8881; --strong: #087f5b; --warn: #a65400; --bad: #c92a2a; }
@media (prefers-color-scheme: dark) { :root { --strong: #3ddc97; --warn: #ffb454; --bad: #ff8787; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 0 1rem 3rem; }
header { display: flex; flex-wrap: wrap; gap: .2rem 1rem; align-items: baseline; margin: 1rem 0; }
h1 { font-size: 1.35rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.08rem; margin: 1.8rem 0 .5rem; }
a { color: inherit; } a:focus-visible, button:focus-visible, summary:focus-visible, input:focus-visible {
  outline: 3px solid var(--c0); outline-offset: 2px; }
pre, code { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--box); padding: .8rem; border-radius: 6px; overflow-x: auto; white-space: pre-wrap; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; vertical-align: top; border-bottom: 1px solid var(--box); }
th { border-bottom-color: var(--line); white-space: nowrap; } td.n { font-variant-numeric: tabular-nums; }
.wide:not(.rows) td { white-space: nowrap; }
.rows td { max-width: 24rem; overflow-wrap: anywhere; }
.good { color: var(--strong); } .bad { color: var(--bad); } .idle { color: var(--warn); }
b.state { white-space: nowrap; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr)); gap: .8rem; padding: 0;
  list-style: none; } .cards > li { background: var(--box); border-radius: 8px; padding: .7rem .9rem; }
.cards > li > a { font-weight: 600; overflow-wrap: anywhere; } .cards p { margin: .2rem 0 0; font-size: .9rem; }
form { display: inline; } button, input { font: inherit; padding: .5rem .9rem; border-radius: 6px; border: 1px solid
  var(--line); min-height: 2.75rem; background: var(--box); color: inherit; }
button { cursor: pointer; margin: .2rem .3rem .2rem 0; }
summary { cursor: pointer; padding: .2rem 0; } .hint { opacity: .85; } .grid { stroke: var(--line); fill: none; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .stale { opacity: .5; } .small { font-size: .85rem; }
@media (max-width: 40rem) { .properties tr { display: block; padding: .2rem 0; } .properties td { display: block;
  border: 0; padding: 0; } .properties td:first-child { opacity: .75; font-size: .85rem; } }
"""

_SCRIPT = (
    """
async function refresh() {
  try {
    const answer = await fetch('LIVE', {cache: 'no-store'});
    if (!answer.ok) throw answer.status;
    const live = document.getElementById('live'), next = document.createElement('div');
    next.innerHTML = await answer.text();
    for (const old of live.querySelectorAll('details[id]')) {
      const same = next.querySelector('#' + CSS.escape(old.id));
      if (same) same.open = old.open;
    }
    if (!live.contains(document.activeElement)) live.replaceChildren(...next.childNodes);
    if (document.querySelector('ul.plan')) {
      const figures = await (await fetch('FIGURES', {cache: 'no-store'})).json();
      for (const figure of figures.figures) {
        const shown = document.getElementById(figure.id);
        if (shown && shown.textContent !== figure.text) shown.textContent = figure.text;
      }
    }
    document.body.classList.remove('stale');
  } catch { document.body.classList.add('stale'); }
}
setInterval(() => { if (!document.hidden) refresh(); }, PAUSE);
""".replace("FIGURES", FIGURES)
    .replace("LIVE", LIVE)
    .replace("PAUSE", str(_REFRESH_MS))
)
"""What has the focus is not replaced below the fingers of whoever uses a keyboard. A page without server turns pale."""


def _page(title: str, body: str, nonce: str | None = None, own_script: str | None = None) -> str:
    """A page. With a ``nonce`` it has a script: ``own_script``, or else the one by which it shows what has changed."""
    refreshes = nonce is not None and own_script is None
    again = f'<noscript><meta http-equiv="refresh" content="{_REFRESH_S}"></noscript>' if refreshes else ""
    script = f'<script nonce="{nonce}">{own_script or _SCRIPT}</script>' if nonce else ""
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">{again}'
        f"<title>{escape(title)}</title><style>{_STYLE}{PLAN_STYLE}{CHART_STYLE}{EDITOR_STYLE}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}{script}</body></html>\n'


def login_page(wrong: bool) -> str:
    """The form that asks for the token. ``wrong``: the last one was not it."""
    told = '<p class="bad" role="alert">This is not the token.</p>' if wrong else ""
    form = (
        '<form method="post" action="/login"><p><label>Token<br>'
        '<input type="password" name="token" autocomplete="current-password" required autofocus></label></p>'
        "<button>Open</button></form>"
    )
    said = "<p>The page asks for the token that <code>sqlstream jobs serve</code> was started with, or has printed.</p>"
    return _page("sqlstream: token", f"<main><h1>Jobs</h1>{said}{told}{form}</main>")


def sql_page(form: str, nonce: str) -> str:
    """The SQL editor. ``form``: the value by which what it sends shows that it is of this page."""
    body, script = editor_body(form, MOST_ROWS)
    return _page("sqlstream: SQL", body, nonce, script)


# --- the list of jobs -------------------------------------------------------------------------------------------


def list_page(watcher: Watcher, folder: str, nonce: str, has_editor: bool = False) -> str:
    """The page of all jobs. ``folder``: where they keep their checkpoints, as text."""
    editor = '<a href="/sql/">SQL editor</a>' if has_editor else ""
    head = f"<header><h1>Jobs</h1><span>{escape(folder)}</span>{editor}</header>"
    return _page("sqlstream: jobs", f'{head}<main id="live">{list_live(watcher)}</main>', nonce)


def list_live(watcher: Watcher) -> str:
    """What of the list changes."""
    told = "" if watcher.error is None else f'<p class="bad" role="alert">{escape(watcher.error)}</p>'
    if not watcher.jobs:
        return told or "<p>There are no jobs yet.</p>"
    cards = (_card(name, job, watcher.now) for name, job in watcher.jobs.items())
    return f'{told}<ul class="cards">{"".join(cards)}</ul>'


def _card(name: str, job: WatchedJob, now: float) -> str:
    record = job.record
    progress = record.life.progress
    words = [f"{progress.rows_in:,} rows in", f"{progress.rows_out:,} rows out"]
    words += [f"{progress.restarts:,} restarts"] if progress.restarts else []
    words += [f"{sum(progress.bad_rows.values()):,} bad rows"] if any(progress.bad_rows.values()) else []
    words += [f"{progress.late_rows:,} late rows"] if progress.late_rows else []
    error = record.error
    failed = f'<p class="bad">{escape(": ".join(error))}</p>' if error is not None else ""
    rates = chart(_instrument(_FIRST[0]), job.history, now)
    link = f'<a href="/jobs/{quote(name, safe="")}/">{escape(name)}</a>'
    return f"<li>{link} {_state(record)}<p>{' · '.join(words)}</p>{failed}{rates}</li>"


def _state(record: JobRecord) -> str:
    tone = "good" if record.status in _GOOD else "bad" if record.status in _BAD else "idle"
    return f'<b class="state {tone}">{escape(record.status)}</b>'


def _instrument(name: str) -> Instrument[JobFigures]:
    return next(each for each in JOB_INSTRUMENTS if each.name == name)


# --- one job ----------------------------------------------------------------------------------------------------


def job_page(name: str, job: WatchedJob, requests: Requests, now: float, form: str, nonce: str) -> str:
    """The page of one job. ``form``: the value by which its forms show that they are of this page."""
    head = f'<header><a href="/">Jobs</a><h1>{escape(name)}</h1></header>'
    live = f'<main id="live">{job_live(name, job, requests, now)}</main>'
    tree = "<p>The job has written down no plan.</p>" if job.figures is None else job.figures.tree()
    sql = job.record.description.sql
    statement = f"<details><summary>Statement</summary><pre>{escape(sql)}</pre></details>" if sql else ""
    plan = f"<section><h2>Plan</h2>{tree}{statement}</section>"
    return _page(f"{name}: sqlstream", f"{head}{_buttons(job, requests, form)}{live}{plan}", nonce)


def _buttons(job: WatchedJob, requests: Requests, form: str) -> str:
    """They are outside of what is replaced, so that none moves below a finger; what is impossible now is refused."""
    kinds = [kind for kind in KINDS if kind != "restart" or requests.start_with is not None]
    buttons = "".join(
        f'<form method="post" action="{kind}"><input type="hidden" name="form" value="{form}">'
        f'<input type="hidden" name="job" value="{escape(job.record.id)}"><button>{escape(KINDS[kind])}</button></form>'
        for kind in kinds
        if not job.record.is_damaged
    )
    how = ""
    if requests.start_with is None:
        how = '<p class="small">Jobs are started again here where the page is given --start-with.</p>'
    return f"<details><summary>Checkpoint, savepoint, stop, restart</summary>{buttons}{how}</details>"


def job_live(name: str, job: WatchedJob, requests: Requests, now: float) -> str:
    """What of the page of a job changes."""
    record = job.record
    parts = (
        f'<p role="status">{_state(record)} {escape(_since(record))}</p>',
        _asked(requests.of(name)),
        _failures(record),
        _charts(job, now),
        "".join(map(_side, job.side_rows())),
        _checkpoints(job.checkpoints()),
        _savepoints(job.savepoints()),
        _properties(job),
    )
    return "".join(parts)


def _since(record: JobRecord) -> str:
    life = record.life
    if record.is_damaged:
        return ""
    ended = "" if life.ended is None else f", ended {time_text(moment(life.ended))}"
    return f"started {time_text(moment(life.started))}{ended}, times in UTC"


def _asked(asked: Sequence[Asked]) -> str:
    if not asked:
        return ""
    rows = ((time_text(moment(each.time)), KINDS[each.kind], _answer(each)) for each in asked)
    return f"<h2>Requests</h2>{_table(('time', 'request', 'answer'), rows)}"


def _answer(asked: Asked) -> str:
    if asked.error is not None:
        return f"{asked.error} {asked.hint or ''}".strip()
    return asked.answer if asked.answer is not None else "waiting for the job"


def _failures(record: JobRecord) -> str:
    items = [_failure(failure) for failure in reversed(record.failures)]
    error = record.error
    if error is not None and (not record.failures or record.failures[-1].message != error[1]):
        items.insert(0, f'<li><b class="bad">{escape(error[0])}</b> {escape(error[1])}</li>')
    return f"<h2>Failures</h2><ul>{''.join(items)}</ul>" if items else ""


def _failure(failure: Failure) -> str:
    hint = f'<br><span class="hint">{escape(failure.hint)}</span>' if failure.hint else ""
    when = time_text(moment(failure.time))
    return f'<li>{when} <b class="bad">{escape(failure.code)}</b> {escape(failure.message)}{hint}</li>'


def _charts(job: WatchedJob, now: float) -> str:
    first = [drawn for name in _FIRST if (drawn := chart(_instrument(name), job.history, now))]
    others = [each for each in JOB_INSTRUMENTS if each.name not in (*_FIRST, *_NOT_DRAWN)]
    folded = [drawn for each in others if (drawn := chart(each, job.history, now))]
    if not first:
        return (
            "<h2>Last hour</h2><p>Charts begin with the second look at a running job, ten seconds after the first.</p>"
        )
    more = f'<div class="charts">{"".join(folded)}</div>' if folded else ""
    below = f'<details id="metrics"><summary>All metrics</summary>{more}</details>' if more else ""
    return f'<h2>Last hour</h2><div class="charts">{"".join(first)}</div>{below}'


def _side(side: SideRows) -> str:
    title = f'<h2>{escape(side.what.capitalize())}: newest of table "{escape(side.table)}"</h2>'
    if side.reason is not None:
        return f"{title}<p>Not shown here: {escape(side.reason)}.</p>"
    if not side.rows:
        return f"{title}<p>None.</p>"
    return title + _table(side.columns, side.rows, "rows")


def _checkpoints(lines: Sequence[CheckpointLine]) -> str:
    if not lines:
        return "<h2>Checkpoints</h2><p>No epoch is complete yet.</p>"
    rows = [[value or "–" for value in row[1:]] for row in checkpoint_rows("", lines[:MOST_CHECKPOINTS])]
    return f"<h2>Checkpoints</h2>{_table(CHECKPOINT_COLUMNS[1:], rows)}"


def _savepoints(savepoints: Sequence[Savepoint]) -> str:
    if not savepoints:
        return ""
    rows = (
        (each.created[:19].replace("T", " "), str(each.epoch), each.path, "yes" if each.drained else "no")
        for each in savepoints
    )
    return f"<h2>Savepoints</h2>{_table(('created', 'epoch', 'path', 'drained'), rows, 'rows')}"


def _properties(job: WatchedJob) -> str:
    rows = properties(job.record, job.job.notes).fetchall()
    shown = _table(("property", "value"), _texts(rows), "rows properties")
    return f'<details id="properties"><summary>All properties</summary>{shown}</details>'


def _texts(rows: Iterable[Sequence[object]]) -> Iterator[list[str]]:
    for row in rows:
        yield ["–" if value is None else str(value) for value in row]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>" for row in rows)
    return f'<div class="wide {kind}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
