"""The page of ``sqlstream serve``: one self-contained HTML page that refreshes itself, and the same as JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from sqlstream.local_page import Answer, LocalPage
from sqlstream.views.plan_pages import PlanPages

_PLANS = "/plans/"

_REFRESH_S = 2
_GOOD, _BAD = ("RUNNING", "FINISHED"), ("FAILED", "LOST", "DAMAGED")


@dataclass(frozen=True)
class Shown:
    """What the page shows: where the tables are, without a password, and the views. ``plans``: the names of those whose
    plan can be shown."""

    url: str
    views: Sequence[Mapping[str, Any]] = ()
    plans: frozenset[str] = frozenset()


class Page(LocalPage):
    """Answers on a port of this machine until closed. ``shown`` and ``plans`` are asked from its threads."""

    def __init__(self, port: int, shown: Callable[[], Shown], plans: PlanPages | None = None) -> None:
        super().__init__(port, partial(_answer, shown, plans or PlanPages()), "/, /views.json and /plans/NAME/")


def _answer(shown: Callable[[], Shown], plans: PlanPages, path: str) -> Answer | None:
    match path:
        case "/":
            return Answer(page(shown()))
        case "/views.json":
            return Answer(as_json(shown()), "application/json")
    return plans.answer(path.removeprefix(_PLANS)) if path.startswith(_PLANS) else None


def as_json(shown: Shown) -> str:
    return json.dumps({"url": shown.url, "views": list(shown.views)}, ensure_ascii=False, indent=1) + "\n"


def page(shown: Shown) -> str:
    """The whole page. It asks for nothing else, so that it can be saved."""
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
