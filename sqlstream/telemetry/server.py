"""The web server of a process that runs jobs: ``/metrics`` for Prometheus, ``/health`` and ``/ready`` for probes."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import Any

from sqlstream.errors import ExecutionError
from sqlstream.local_server import LocalServer, is_loopback, name_of
from sqlstream.telemetry.exposition import Exposition, JobCollector
from sqlstream.telemetry.figures import JobFigures
from sqlstream.udfs.texts import reason_of

CANNOT_LISTEN = "SS475"
PATHS = ("/metrics", "/health", "/ready")


@dataclass(frozen=True)
class Listening:
    """Where the server listens. ``port`` 0: any free one. ``token``: what a request for metrics must have as its bearer
    token; None: nothing.
    """

    port: int
    host: str = "127.0.0.1"
    token: str | None = None


@dataclass(frozen=True)
class Reply:
    """The answer to a request."""

    body: bytes
    media_type: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK


Jobs = Callable[[], Iterable[JobFigures]]


def health(jobs: Iterable[JobFigures]) -> Reply:
    """Whether the process does its work: 503 where a job has failed for good."""
    return _reply(jobs, lambda states: "FAILED" not in states)


def readiness(jobs: Iterable[JobFigures]) -> Reply:
    """Whether all jobs are at work: 503 before the first has started, and while one waits to restart or has failed."""
    return _reply(jobs, lambda states: bool(states) and not {"RESTARTING", "FAILED"} & set(states))


def _reply(jobs: Iterable[JobFigures], good: Callable[[list[str]], bool]) -> Reply:
    jobs = list(jobs)
    ok = good([job.state for job in jobs])
    told = {
        "status": "ok" if ok else "unavailable",
        "jobs": [{"name": job.name, "state": job.state, "epoch": job.epochs.last_epoch} for job in jobs],
    }
    body = json.dumps(told, ensure_ascii=False).encode() + b"\n"
    return Reply(body, status=HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE)


class MetricsServer(LocalServer):
    """Serves the metrics and the health of jobs until it is closed. ``jobs``: their figures now, asked for from several
    threads. Raises ExecutionError SS475 where the port cannot be listened on.
    """

    def __init__(self, listening: Listening, jobs: Jobs) -> None:
        exposition = Exposition(JobCollector(jobs))
        handler = partial(_Handler, listening, jobs, exposition)
        family = AF_INET6 if ":" in listening.host else AF_INET
        server = type("_Server", (ThreadingHTTPServer,), {"address_family": family, "daemon_threads": True})
        try:
            listener: ThreadingHTTPServer = server((listening.host, listening.port), handler)
        except OSError as error:
            where = f'port {listening.port} of "{listening.host}"'
            message = f"metrics cannot be served on {where}: {reason_of(error)}"
            hint = "SET 'metrics.prometheus.port' to another one; 0 takes any."
            raise ExecutionError(CANNOT_LISTEN, message, hint=hint) from None
        super().__init__(listener, listening.host, "sqlstream-metrics")


class _Handler(BaseHTTPRequestHandler):
    server_version = "sqlstream"
    timeout = 30  # seconds; a client that says nothing must not hold a thread for good

    def __init__(self, listening: Listening, jobs: Jobs, exposition: Exposition, *arguments: Any) -> None:
        self._listening, self._jobs, self._exposition = listening, jobs, exposition
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer a request."""
        reply = self._reply(self.path.partition("?")[0])
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        if reply.status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(reply.body)

    def _reply(self, path: str) -> Reply:
        if is_loopback(self._listening.host) and not is_loopback(name_of(self.headers.get("Host", ""))):
            return _text(
                HTTPStatus.FORBIDDEN, "these pages are for this machine alone"
            )  # a script of another page asks
        match path:
            case "/health":
                return health(self._jobs())
            case "/ready":
                return readiness(self._jobs())
            case "/metrics":
                if not self._may_read():
                    return _text(HTTPStatus.UNAUTHORIZED, "the metrics are read with a token")
                return Reply(*self._exposition.text(self.headers.get("Accept", "")))
        return _text(HTTPStatus.NOT_FOUND, f"there are {', '.join(PATHS)}")

    def _may_read(self) -> bool:
        token = self._listening.token
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        return token is None or hmac.compare_digest(given, f"Bearer {token}".encode())

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  (a name of http.server)
        """Nobody reads a line for each request."""


def _text(status: HTTPStatus, text: str) -> Reply:
    return Reply(f"{text}\n".encode(), "text/plain; charset=utf-8", status)
