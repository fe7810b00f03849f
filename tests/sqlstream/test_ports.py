"""What listens: each server is known to docs/security.md, is of this machine alone, and refuses whom it should."""

from __future__ import annotations

import ast
import http.client
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sqlstream.console.requests import Requests
from sqlstream.console.server import Console, ConsoleServer
from sqlstream.console.watching import Watcher
from sqlstream.jobs.reports.plan_figures import Answer, LocalPage
from sqlstream.local_server import Access, LocalServer
from sqlstream.telemetry.choices import HOST, OPTIONS, PORT
from sqlstream.telemetry.server import Listening, MetricsServer

ROOT = Path(__file__).parents[2]
LISTENING = {"HTTPServer", "ThreadingHTTPServer", "TCPServer", "ThreadingTCPServer", "UDPServer", "create_server",
             "start_server", "WSGIServer", "make_server", "bind", "TCPSite", "UnixSite"}  # fmt: skip
"""Names by which Python listens; ``bind`` is a method of sockets and a function of our binder, too."""

KNOWN = {
    "sqlstream/jobs/reports/plan_figures.py": "pages of plans and of views",
    "sqlstream/telemetry/server.py": "metrics",
    "sqlstream/console/server.py": "pages of all jobs",
    "sqlstream/connectors/receiving/webhook.py": "tables of requests that others send; its own tests ask it",
    "sqlstream/views/embedded.py": "looks for a free port of 127.0.0.1, which PostgreSQL then listens on",
    "sqlstream/testing/kafka_broker.py": "looks for a free port of 127.0.0.1, which the tests' broker then listens on",
}


def _listeners() -> Iterator[str]:
    for folder in ("sqlstream", "planner", "udfs", "grammar"):
        for path in (ROOT / folder).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            linked = folder == "sqlstream" and path.relative_to(ROOT).parts[1] in ("planner", "udfs", "grammar")
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if not linked and any(map(_listens, ast.walk(tree))):
                yield name


def _listens(node: ast.AST) -> bool:
    """A call of what listens, or a class made of it; ``bind`` only as a method with one tuple."""
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "bind":
            return isinstance(node.func, ast.Attribute) and [type(a) for a in node.args] == [ast.Tuple]
        named = {part.id for argument in node.args for part in ast.walk(argument) if isinstance(part, ast.Name)}
        return called in LISTENING or (called == "type" and bool(named & LISTENING))
    return isinstance(node, ast.ClassDef) and any(getattr(b, "id", "") in LISTENING for b in node.bases)


def test_everything_that_listens_is_known():
    assert sorted(_listeners()) == sorted(KNOWN)
    page = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    commands = ("--metrics-port", "sqlstream jobs plan", "sqlstream jobs serve", "sqlstream serve")
    assert all(word in page for word in (*commands, "PostgreSQL", "webhook"))


def test_addresses_of_others_are_not_the_default():
    (host,) = [option.default for option in OPTIONS if option.key == HOST]
    (port,) = [option.default for option in OPTIONS if option.key == PORT]
    assert (host, port) == ("127.0.0.1", None) and Listening(0).host == "127.0.0.1"
    for name in KNOWN:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r'"0\.0\.0\.0"|\(\(""', text), name


TOKEN = "0123456789abcdef"


@pytest.fixture(params=["metrics", "page", "console"], scope="module")
def server(request):
    opened: LocalServer
    if request.param == "metrics":
        opened = MetricsServer(Listening(0, token="s3cret"), list)
    elif request.param == "console":
        opened = ConsoleServer(Access(0, token=TOKEN), Console(Watcher(tuple), Requests(), "/jobs"))
    else:
        opened = LocalPage(0, lambda path: Answer("hello", "text/plain") if path == "/" else None, "/", TOKEN)
    yield opened
    opened.close()


def asked(server, path="/", method="GET", **headers):
    """The status and the body of an answer."""
    port = urlsplit(server.url).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{port}", **headers})
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_a_server_listens_on_this_machine_alone(server):
    assert server._server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1", ""])
def test_scripts_of_other_pages_get_nothing(server, host):
    """A name that somebody else makes mean 127.0.0.1 is in the header Host."""
    for path in ("/", "/metrics", "/health", "/ready", "/figures.json"):
        status, body = asked(server, path, Host=host)
        assert status == 403 and b"hello" not in body and b"sqlstream" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_that_listens_takes_other_methods(server, method):
    takes_forms = isinstance(server, ConsoleServer) and method == "POST"
    assert asked(server, "/", method)[0] == (401 if takes_forms else 501)


@pytest.mark.parametrize("path", ["/../../etc/passwd", "//etc/passwd", "/%2e%2e/etc/passwd", "/metrics/../x", "/x"])
def test_paths_are_those_that_there_are(server, path):
    headers = {} if isinstance(server, MetricsServer) else {"Authorization": f"Bearer {TOKEN}"}
    assert asked(server, path, **headers)[0] == 404


@pytest.mark.parametrize("path", ["/", "/jobs/x/", "/figures.json", "/views.json", "/?token=", "/?token=wrong"])
def test_pages_want_their_token(server, path):
    if isinstance(server, MetricsServer):
        return
    port = urlsplit(server.url).port
    wrong: tuple[dict[str, str], ...] = ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"sqlstream-{port}={TOKEN}"})
    for headers in wrong:
        status, body = asked(server, path, **headers)
        assert status == 401 and b"hello" not in body, headers


def test_the_address_of_a_page_opens_it_with_a_cookie():
    """Cookies of other servers of this machine, which browsers send too, do not matter."""
    page = LocalPage(0, lambda path: Answer("hello", "text/plain") if path == "/" else None, "/")
    try:
        assert asked(page)[0] == 401
        parts = urlsplit(page.address)
        connection = http.client.HTTPConnection(parts.netloc, timeout=5)
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        cookie = answer.headers["Set-Cookie"]
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert page.access.token not in cookie and "HttpOnly; SameSite=Strict" in cookie
        own = cookie.partition(";")[0]
        for others in ("", '_xsrf="a b"; ', 'settings={"a":"b, c"}; [x]=1; '):
            assert asked(page, Cookie=others + own) == (200, b"hello")
    finally:
        page.close()


def test_who_says_nothing_holds_no_thread_for_good(server, monkeypatch):
    handler = server._server.RequestHandlerClass.func
    assert handler.timeout == 30
    monkeypatch.setattr(handler, "timeout", 0.05)
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port), timeout=5) as connection:
        assert connection.recv(1) == b"", "closed by the server"


def test_metrics_want_their_token():
    server = MetricsServer(Listening(0, token="s3cret"), list)
    try:
        assert asked(server, "/metrics")[0] == asked(server, "/metrics?token=s3cret")[0] == 401
        for wrong in ("", "Bearer", "Bearer wrong", "bearer s3cret", "Basic czNjcmV0", "Bearer s3cret!"):
            assert asked(server, "/metrics", Authorization=wrong)[0] == 401
        assert asked(server, "/metrics", Authorization="Bearer s3cret")[0] == 200
    finally:
        server.close()
