"""Pages that a process shows to browsers on its own machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from sqlstream.errors import ExecutionError
from sqlstream.udfs.texts import reason_of

NO_PAGE = "SS483"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Answer:
    """What a path has: ``kind`` is its media type."""

    text: str
    kind: str = "text/html"
    status: int = 200


Answers = Callable[[str], Answer | None]
"""What there is at a path, without what follows a question mark; None for nothing. Called from several threads."""


class LocalPage:
    """Answers on a port of this machine until closed; 0 takes any port. ``paths`` names all that there is.

    ExecutionError SS483 where the port is taken.
    """

    def __init__(self, port: int, answers: Answers, paths: str) -> None:
        try:
            self._server = ThreadingHTTPServer((HOST, port), partial(_Handler, answers, paths))
        except OSError as error:
            message = f"the page cannot be shown on port {port}: {reason_of(error)}"
            raise ExecutionError(NO_PAGE, message, hint="Give another one: --port N; 0 takes any.") from None
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, name="sqlstream-page", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop serving the page."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_version = "sqlstream"

    def __init__(self, answers: Answers, paths: str, *arguments: Any) -> None:
        self._answers, self._paths = answers, paths
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Other hosts than this one's own names are refused, as scripts of other pages ask."""
        host = self.headers.get("Host", "").partition(":")[0]
        if host not in (HOST, "localhost"):
            self._send(Answer("this page is for 127.0.0.1 alone\n", "text/plain", 403))
            return
        found = self._answers(self.path.partition("?")[0])
        self._send(found if found is not None else Answer(f"there are {self._paths}\n", "text/plain", 404))

    def _send(self, answer: Answer) -> None:
        body = answer.text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  (a name of http.server)
        """Nobody reads the requests of the page."""
