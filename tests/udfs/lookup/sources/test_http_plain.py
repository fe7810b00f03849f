"""Requests over connections of our own: which answers are read there, and that all others are read by aiohttp."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.udfs.lookup.sources.http_plain import PlainConnections, ServerOrigin, are_plain, can_read, origin_of
from sqlstream.udfs.lookup.sources.scalars import parse_template
from tests.udfs.lookup.sources.test_http import client_of, source

BODY = b'{"seats": 7}'
COLUMNS = "tailnum STRING; seats INT"


def answer(body: bytes = BODY, *fields: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


PLAIN = answer()


class Server:
    """Answers the n-th request with the n-th script, then with the last: bytes, None to hang, b"" to close."""

    def __init__(self, *scripts: bytes | list[bytes] | None) -> None:
        self._scripts = scripts
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                script = self._scripts[min(len(self.requests), len(self._scripts)) - 1]
                if script is None:
                    await reader.read()
                if not script:
                    break
                for part in script if isinstance(script, list) else [script]:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
                if b"Connection: close" in script:
                    break
        self.open -= 1
        writer.close()

    @property
    def plain(self) -> list[bool]:
        """Per request: did it come over a connection of our own?"""
        return [b"Accept-Encoding: identity" in request for request in self.requests]


@asynccontextmanager
async def client(server: Server, **options: object):
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    lookup_source = source(f"http://127.0.0.1:{port}/planes/{{tailnum}}?a=b", COLUMNS, "tailnum", **options)
    try:
        async with client_of(lookup_source) as opened:
            yield opened
    finally:
        listening.close()


def seats(server: Server, asked: Sequence[str] = ("N1", "N2", "N3"), **options: object) -> list[object]:
    """What the server answers to one key after the other; errors as their codes."""

    async def run() -> list[object]:
        collected: list[object] = []
        async with client(server, **options) as opened:
            for key in asked:
                try:
                    ((row,),) = await opened.ask([(key,)])
                    collected.append(row[1])
                except ConnectorError as error:
                    collected.append(error.code)
        return collected

    return asyncio.run(run())


needs_httptools = pytest.mark.skipif(not can_read(), reason="httptools is not installed")


def test_without_what_reads_answers_the_session_asks_alone(monkeypatch):
    monkeypatch.setattr("sqlstream.udfs.lookup.sources.http_plain.find_spec", lambda _: None)
    server = Server(PLAIN)
    assert seats(server) == [7, 7, 7]
    assert server.plain == [False, False, False]


@needs_httptools
def test_the_session_asks_first_and_then_one_connection_is_used_again():
    server = Server(PLAIN)
    assert seats(server, ["N1", "N 2", "N/3"], headers__X_Tenant="7") == [7, 7, 7]
    assert server.plain == [False, True, True]
    assert server.connections == 2
    lines = server.requests[1].split(b"\r\n")
    assert lines[0] == b"GET /planes/N%202?a=b HTTP/1.1"
    assert {b"Accept: application/json", b"X-Tenant: 7"} <= set(lines)
    assert any(line.startswith(b"Host: 127.0.0.1:") for line in lines)


@needs_httptools
def test_answers_come_in_any_pieces():
    pieces = [bytes([byte]) for byte in PLAIN]
    assert seats(Server(PLAIN, pieces)) == [7, 7, 7]


@needs_httptools
@pytest.mark.parametrize(
    ("script", "then"),
    [
        (answer(BODY, "Set-Cookie: a=b"), 7),
        (answer(gzip.compress(BODY), "Content-Encoding: gzip"), 7),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n" + BODY + b"\r\n0\r\n\r\n", 7),
        (answer(b"", status="301 Moved Permanently"), "SS575"),
        (answer(b'"\xff"'), "SS576"),
        (PLAIN + b"more", "SS574"),
    ],
    ids=["cookie", "encoded", "chunked", "redirect", "no text", "more than was asked for"],
)
def test_what_is_not_plain_is_read_by_the_session_from_then_on(script: bytes, then: object):
    server = Server(PLAIN, script)
    assert seats(server) == [7, then, then]
    assert server.plain == [False, True, False, False]


def test_answers_to_the_session_that_are_not_plain_keep_it():
    server = Server(answer(BODY, "Set-Cookie: a=b"))
    assert seats(server) == [7, 7, 7]
    assert server.plain == [False, False, False]


@pytest.mark.parametrize(
    "options", [{"max_connections": 4}, {"headers__Host": "planes.org"}, {"method": "POST", "body": "{}"}], ids=str
)
def test_some_requests_are_only_the_sessions(options: dict[str, object]):
    server = Server(PLAIN)
    assert seats(server, ["N1", "N2"], **options) == [7, 7]
    assert not any(server.plain)


@needs_httptools
def test_a_connection_that_the_server_closes_is_not_used_again():
    closing = answer(BODY, "Connection: close")
    server = Server(PLAIN, closing)
    assert seats(server) == [7, 7, 7]
    assert server.plain == [False, True, True]
    assert server.connections == 3


@needs_httptools
def test_a_connection_lost_under_a_request_is_replaced():
    server = Server(PLAIN, b"", PLAIN)
    assert seats(server) == [7, 7, 7]
    assert server.plain == [False, True, False, True]


def test_an_answer_that_ends_in_the_middle_is_the_sessions_error():
    server = Server(PLAIN, answer(BODY, "Connection: close")[:-3])
    assert seats(server, ["N1", "N2"]) == [7, "SS574"]


@needs_httptools
def test_statuses_mean_the_same():
    server = Server(PLAIN, answer(b"gone", status="404 Not Found"), answer(b"oh", status="500 Error"))

    async def run() -> list[object]:
        async with client(server) as opened:
            await opened.ask([("N1",)])
            missed = await opened.ask([("N2",)])
            with pytest.raises(ConnectorError) as error:
                await opened.ask([("N3",)])
            return [missed, error.value.code]

    assert asyncio.run(run()) == [[[]], "SS575"]
    assert server.plain == [False, True, True]


def test_answers_have_a_largest_size():
    assert seats(Server(PLAIN, answer(b" " * 500 + BODY)), ["N1", "N2"], max_answer_bytes=400) == [7, "SS576"]


@needs_httptools
def test_a_hanging_server_is_not_waited_for():
    server = Server(PLAIN, None)
    assert seats(server, ["N1", "N2"], timeout="200 ms") == [7, "SS574"]
    assert server.plain == [False, True]


@needs_httptools
def test_a_request_that_is_cancelled_takes_its_connection_with_it():
    server = Server(PLAIN, None, PLAIN)

    async def run() -> None:
        async with client(server) as opened:
            await opened.ask([("N1",)])
            hanging = asyncio.create_task(opened.ask([("N2",)]))
            while len(server.requests) < 2:
                await asyncio.sleep(0.01)
            hanging.cancel()
            with suppress(asyncio.CancelledError):
                await hanging
            assert await opened.ask([("N3",)]) == [[("N3", 7)]]
            while server.open > 2:
                await asyncio.sleep(0.01)

    asyncio.run(run())
    assert server.plain == [False, True, True]
    assert server.connections == 3


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/{k}", ("h", 80, False)),
        ("https://h.example:8443/{k}", ("h.example", 8443, True)),
        ("http://h?{k}", None),
        ("http://{k}.example/", None),
        ("http://me:secret@h/{k}", None),
        ("http://[::1]/{k}", None),
        ("http://h/{k}#here", None),
        ("http://h/ä/{k}", None),
        ("http://h/a b/{k}", None),
        ("http://h/{k}\r\nX: y", None),
    ],
)
def test_only_urls_that_are_sent_as_they_are_have_an_origin(url: str, expected: tuple[str, int, bool] | None):
    origin = origin_of(parse_template(url))
    assert (origin and (origin.host, origin.port, origin.tls)) == expected


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [("A", "b c", True), ("A", "b\r\nC: d", False), ("A", "ä", False), ("Host", "h", False), ("a b", "c", False)],
)
def test_only_headers_that_are_sent_as_they_are_are_plain(name: str, value: str, plain: bool):
    assert are_plain([(name, value)]) is plain


def head(*fields: str, line: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join([line, *fields, "", ""]).encode()


@needs_httptools
@pytest.mark.parametrize(
    "script",
    [
        head("Content-Length: 1", line="HTTP/1.0 200 OK") + b"7",
        head("Content-Length: 1", line="HTTP/1.1 2000 OK") + b"7",
        head("Content-Length: 1", line="HTTP/1.1 304 Not Modified"),
        head(line="HTTP/1.1 100 Continue") + PLAIN,
        head("Content-Length: +1") + b"7",
        head("Content-Length: 1", "Content-Length: 2") + b"7",
        head("Content-Length: 1", "Transfer-Encoding: chunked") + b"1\r\n7\r\n0\r\n\r\n",
        PLAIN + PLAIN,
        b"SSH-2.0-OpenSSH\r\n",
    ],
)
def test_answers_that_are_not_plain(script: bytes):
    server = Server(PLAIN, script, PLAIN)
    assert seats(server)[::2] == [7, 7]
    assert server.plain[:3] == [False, True, False]


@needs_httptools
@pytest.mark.parametrize(
    ("script", "text"),
    [
        (head("content-length:1") + b"7", "7"),
        (head("Content-Length: 3", "Content-Type: text/plain; charset=Latin-1") + b'"\xe9"', '"é"'),
        (head("Content-Length: 3", "Connection: Close") + b'"a"', '"a"'),
        (head("Content-Length: 0", line="HTTP/1.1 204"), ""),
    ],
)
def test_answers_that_are_plain(script: bytes, text: str):
    async def run() -> tuple[int, str]:
        server = Server(script)
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        origin = ServerOrigin("http://h", "127.0.0.1", listening.sockets[0].getsockname()[1], tls=False)
        connections = PlainConnections(origin, (), 5.0, 100)
        try:
            return await connections.get("http://h/")
        finally:
            connections.close()
            listening.close()
            while server.open:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)

    assert asyncio.run(run()) == (int(script[9:12]), text)
