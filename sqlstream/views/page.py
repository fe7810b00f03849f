"""The page of ``sqlstream serve``: one self-contained HTML page that refreshes itself, and the same as JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from sqlstream.errors import ExecutionError
from sqlstream.udfs.texts import reason_of

NO_PAGE = "SS483"
HOST = "127.0.0.1"

_REFRESH_S = 2
_GOOD, _BAD = ("RUNNING", "FINISHED"), ("FAILED", "LOST", "DAMAGED")


@dataclass(frozen=True)
class Shown:
    """What the page shows: where the tables are, without a password, and the views."""

    url: str
    views: Sequence[Mapping[str, Any]] = ()


class Page:
    """Answers on a port of this machine until closed. ``shown`` is called from its threads."""

    def __init__(self, port: int, shown: Callable[[], Shown]) -> None:
        try:
            self._server = ThreadingHTTPServer((HOST, port), partial(_Handler, shown))
        except OSError as error:
            message = f"the page cannot be shown on port {port}: {reason_of(error)}"
            raise ExecutionError(NO_PAGE, message, hint="Give another one: --port N; 0 takes any.") from None
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, name="sqlstream-page", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_version = "sqlstream"

    def __init__(self, shown: Callable[[], Shown], *arguments: Any) -> None:
        self._shown = shown
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """The page and its JSON; other hosts than this one's own names are refused, as scripts of other pages ask."""
        host = self.headers.get("Host", "").partition(":")[0]
        if host not in (HOST, "localhost"):
            self._answer(403, "text/plain", "this page is for 127.0.0.1 alone\n")
            return
        match self.path.partition("?")[0]:
            case "/":
                self._answer(200, "text/html", page(self._shown()))
            case "/views.json":
                self._answer(200, "application/json", as_json(self._shown()))
            case _:
                self._answer(404, "text/plain", "there are / and /views.json\n")

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  (a name of http.server)
        """Nobody reads the requests of the page."""


def as_json(shown: Shown) -> str:
    return json.dumps({"url": shown.url, "views": list(shown.views)}, ensure_ascii=False, indent=1) + "\n"


def page(shown: Shown) -> str:
    """The whole page. It asks for nothing else, so that it can be saved."""
    rows = "\n".join(_row(view) for view in shown.views)
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


def _row(view: Mapping[str, Any]) -> str:
    state = str(view["state"])
    tone = "good" if state in _GOOD else "bad" if state in _BAD else "idle"
    cells = "".join(f"<td>{html.escape(_text(key, view))}</td>" for key, _ in _COLUMNS)
    error = view.get("error")
    told = f'<p class="error">{html.escape(str(error))}</p>' if error else ""
    more = f"<details><summary>SQL</summary><pre>{html.escape(str(view['sql']))}</pre></details>{told}"
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
