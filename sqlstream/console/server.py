"""The web server of ``sqlstream jobs serve``: who may see the pages, who may ask of jobs, and which pages there are."""

from __future__ import annotations

import json
import secrets
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from sqlstream.console.editor import MOST_RUNNING, Editor
from sqlstream.console.pages import LIVE, job_live, job_page, list_live, list_page, login_page, sql_page
from sqlstream.console.requests import KINDS, Requests
from sqlstream.console.watching import Watcher
from sqlstream.errors import ExecutionError
from sqlstream.jobs.reports.plan_figures import FIGURES, NO_PAGE
from sqlstream.local_server import Access, LocalServer, is_loopback, name_of
from sqlstream.udfs.texts import reason_of

_LONGEST_FORM, _LONGEST_SCRIPT = 4096, 1 << 18
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {}; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)


@dataclass(frozen=True)
class Console:
    """What the pages show. ``folder``: the directory of the jobs, as text. ``editor``: that of SQL; None: there is
    none.
    """

    watcher: Watcher
    requests: Requests
    folder: str
    editor: Editor | None = None


@dataclass(frozen=True)
class Reply:
    """The answer to a request. ``nonce``: that of the page's script."""

    text: str
    kind: str = "text/html"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    nonce: str = ""


class ConsoleServer(LocalServer):
    """Serves the pages until it is closed. Raises ExecutionError SS483 where the port cannot be listened on."""

    def __init__(self, access: Access, console: Console) -> None:
        family = AF_INET6 if ":" in access.host else AF_INET
        server = type("_Server", (ThreadingHTTPServer,), {"address_family": family, "daemon_threads": True})
        try:
            listener: ThreadingHTTPServer = server((access.host, access.port), partial(_Handler, access, console))
        except OSError as error:
            message = f'the page cannot be shown on port {access.port} of "{access.host}": {reason_of(error)}'
            raise ExecutionError(NO_PAGE, message, hint="Give another one: --port N; 0 takes any.") from None
        super().__init__(listener, access.host, "sqlstream-console")


def _text(status: HTTPStatus, text: str) -> Reply:
    return Reply(f"{text}\n", "text/plain", status)


def _json(value: object) -> Reply:
    return Reply(json.dumps(value, ensure_ascii=False), "application/json")


def _see(path: str, **headers: str) -> Reply:
    return Reply("", "text/plain", HTTPStatus.SEE_OTHER, {"Location": path, **headers})


class _Handler(BaseHTTPRequestHandler):
    server_version = "sqlstream"
    timeout = 30  # seconds; a client that says nothing must not hold a thread for good

    def __init__(self, access: Access, console: Console, *arguments: Any) -> None:
        self._access, self._console = access, console
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer with a page."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Take a form: the token, or a request to a job."""
        self._answer(self._post)

    def _answer(self, reply: Callable[[], Reply]) -> None:
        """A fault of ours is an answer, too: a browser that gets none says that there is no server."""
        try:
            made = self._refused() or reply()
        except Exception:
            traceback.print_exc()
            made = _text(HTTPStatus.INTERNAL_SERVER_ERROR, "this page cannot be made; standard error says why")
        self._send(made)

    # --- who may ---

    def _refused(self) -> Reply | None:
        """Under another host's name a script of another page asks."""
        if is_loopback(self._access.host) and not is_loopback(name_of(self.headers.get("Host", ""))):
            return _text(HTTPStatus.FORBIDDEN, "these pages are for this machine alone")
        return None

    @property
    def _port(self) -> int:
        port: int = self.connection.getsockname()[1]
        return port

    @property
    def _has_bearer(self) -> bool:
        return self._access.has_bearer(self.headers)

    @property
    def _has_session(self) -> bool:
        return self._access.has_session(self.headers, self._port)

    def _opened(self, path: str) -> Reply:
        """The answer to a right token: it goes on without it in the address, with a cookie."""
        return _see(path, **{"Set-Cookie": self._access.new_cookie(self._port)})

    # --- pages ---

    def _get(self) -> Reply:
        path, _, query = self.path.partition("?")
        token = parse_qs(query).get("token")
        if token is not None:
            if path == "/" and self._access.is_token(token[0]):
                return self._opened("/")
            return Reply(login_page(wrong=True), status=HTTPStatus.UNAUTHORIZED)
        if not (self._has_session or self._has_bearer):
            return Reply(login_page(wrong=False), status=HTTPStatus.UNAUTHORIZED)
        return self._page(path) or _text(HTTPStatus.NOT_FOUND, "there are / and /jobs/NAME/")

    def _page(self, path: str) -> Reply | None:
        watcher, nonce = self._console.watcher, secrets.token_urlsafe(16)
        match path.split("/")[1:]:
            case [""]:
                has_editor = self._console.editor is not None
                return Reply(list_page(watcher, self._console.folder, nonce, has_editor), nonce=nonce)
            case ["sql", *what] if self._console.editor is not None:
                return self._sql_page(self._console.editor, what, nonce)
            case ["live"]:
                return Reply(list_live(watcher))
            case ["jobs", name, what]:
                return self._job_page(unquote(name), what, nonce)
        return None

    def _job_page(self, name: str, what: str, nonce: str) -> Reply | None:
        watcher, requests = self._console.watcher, self._console.requests
        job = watcher.jobs.get(name)
        if job is None:
            return None
        if what == "":
            page = job_page(name, job, requests, watcher.now, self._access.proof("form"), nonce)
            return Reply(page, nonce=nonce)
        if what == LIVE:
            return Reply(job_live(name, job, requests, watcher.now))
        if what == FIGURES and job.figures is not None:
            return _json(job.figures.figures().as_json())
        return None

    def _sql_page(self, editor: Editor, what: list[str], nonce: str) -> Reply | None:
        match what:
            case [""]:
                return Reply(sql_page(self._access.proof("form"), nonce), nonce=nonce)
            case ["runs", name] if (run := editor.of(name)) is not None:
                known = parse_qs(self.path.partition("?")[2]).get("known", [""])[0]
                return _json(run.as_json(int(known) if known.isdecimal() else None))
        return None

    # --- forms ---

    def _post(self) -> Reply:
        form = self._form()
        if form is None:
            return _text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the form is too long")
        if self.path == "/login":
            if self._access.is_token(form.get("token", "")):
                return self._opened("/")
            return Reply(login_page(wrong=True), status=HTTPStatus.UNAUTHORIZED)
        if not self._has_bearer and not (self._has_session and self._access.is_proof(form.get("form", ""), "form")):
            return _text(HTTPStatus.UNAUTHORIZED, "jobs are asked with a token")
        match self.path.split("/")[1:]:
            case ["jobs", name, kind] if kind in KINDS:
                return self._ask(unquote(name), kind, form.get("job"))
            case ["sql", *what] if self._console.editor is not None:
                return self._edit(self._console.editor, what, form)
        return _text(HTTPStatus.NOT_FOUND, f"there are /jobs/NAME/ and {', '.join(KINDS)}")

    def _ask(self, name: str, kind: str, job_id: str | None) -> Reply:
        """Ask a job. ``job_id``: that of the job whose page the button was on; jobs of several folders may have one
        name, which another one takes when the first is removed.
        """
        job = self._console.watcher.jobs.get(name)
        if job is None:
            return _text(HTTPStatus.NOT_FOUND, "there is no such job")
        if job_id is not None and job_id != job.record.id:
            return _text(HTTPStatus.CONFLICT, "this is the name of another job by now; go back and load the page again")
        if not self._console.requests.ask(name, kind, job):
            status = job.record.status
            return _text(HTTPStatus.CONFLICT, f"the job is {status} or works on another request; go back and look")
        return _see(f"/jobs/{quote(name, safe='')}/")

    def _edit(self, editor: Editor, what: list[str], form: Mapping[str, str]) -> Reply:
        text, at = form.get("text", ""), form.get("at", "")
        match what:
            case ["complete"]:
                return _json(editor.complete(text, min(int(at), len(text)) if at.isdecimal() else len(text)))
            case ["check"]:
                return _json(editor.check(text))
            case ["run"]:
                name = editor.run(text)
                if name is None:
                    return _text(HTTPStatus.CONFLICT, f"{MOST_RUNNING} queries run, and no more may; stop one of them")
                return _json({"run": name})
            case ["runs", name, "stop"] if (run := editor.of(name)) is not None:
                run.stop()
                return _json({})
        return _text(HTTPStatus.NOT_FOUND, "there are complete, check, run, and stop of runs")

    def _form(self) -> dict[str, str] | None:
        """The fields of the form that was sent; None where it is too long."""
        length = self.headers.get("Content-Length", "0")
        longest = _LONGEST_SCRIPT if self.path.startswith("/sql/") else _LONGEST_FORM
        if not length.isdecimal() or int(length) > longest:
            self.close_connection = True
            return None
        fields = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"))
        return {name: values[0] for name, values in fields.items()}

    def _send(self, reply: Reply) -> None:
        body = reply.text.encode()
        self.send_response(reply.status)
        headers = {
            "Content-Type": f"{reply.kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": _POLICY.format(f"'nonce-{reply.nonce}'" if reply.nonce else "'none'"),
            **_HEADERS,
            **reply.headers,
        }
        if reply.status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        for name, value in headers.items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # a browser that has gone on to another page
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  (a name of http.server)
        """Nobody reads a line for each request; addresses may hold the token."""
