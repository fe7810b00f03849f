"""GET over our own connections, for servers with plain responses: HTTP/1.1 with Content-Length, no encoding, no
redirect, no cookie.

A session of aiohttp costs twice as much for such a request. It handles everything else: ``Unusual`` and OSError mean
that the request must be repeated there, so the session is also what reports failures to users. Only GET is sent this
way, because it may be repeated. Responses are parsed by httptools; if that is not installed, only the session is used.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias, cast

from sqlstream.udfs.lookup.requests import Deadlines
from sqlstream.udfs.lookup.sources.scalars import Template

if TYPE_CHECKING:
    from aiohttp import ClientResponse

IDLE_S = 15.0
"""How long an unused connection is kept, in seconds; the same as in aiohttp."""

_ORIGIN = re.compile(r"(https?)://([A-Za-z0-9.-]+)(?::([0-9]+))?(?=/)")
_TARGET = re.compile(r"[!\"$-~]*")  # visible ASCII without "#", after which nothing is sent
_HEADER = re.compile(r"[!-~]+: ?[\t -~]*")
_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "expect", "upgrade"})
_UNREAD = frozenset({b"content-encoding", b"transfer-encoding", b"set-cookie"})
_LONGEST_HEAD = 65_536


_Answer: TypeAlias = tuple[int, bytes, bytes]
"""Status, body and content type."""


class Unusual(Exception):
    """Raised for a response that ``PlainConnections`` cannot read, so that the ordinary client is used."""


@dataclass(frozen=True)
class ServerOrigin:
    """The scheme, host and port to which requests are sent; ``text`` is the beginning of their URLs."""

    text: str
    host: str
    port: int
    tls: bool


def can_read() -> bool:
    """True if the package that parses responses is installed."""
    return find_spec("httptools") is not None


def origin_of(url: Template) -> ServerOrigin | None:
    """The origin of a URL template.

    None if the sent URL may differ from the template: international names, users, or placeholders in the host.
    """
    match = _ORIGIN.match(url.start)
    texts = [text for text in url.parts if isinstance(text, str)]
    if match is None or not all(map(_TARGET.fullmatch, texts)):
        return None
    scheme, host, port = match.groups()
    tls = scheme == "https"
    return ServerOrigin(match[0], host, int(port or (443 if tls else 80)), tls)


def are_plain(headers: Sequence[tuple[str, str]]) -> bool:
    """True if no header needs the processing of the ordinary HTTP client."""
    return all(_HEADER.fullmatch(f"{n}: {v}") and ":" not in n and n.lower() not in _OURS for n, v in headers)


def is_plain(answer: ClientResponse) -> bool:
    """True if this response shows that ``PlainConnections`` can read the server's answers."""
    version = answer.version
    if version is None or tuple(version) != (1, 1) or answer.history or answer.cookies:
        return False
    return answer.content_length is not None and "Content-Encoding" not in answer.headers


class PlainConnections:
    """A pool of HTTP connections for simple responses, with less overhead than the ordinary client: one connection for
    each concurrent request, idle ones are reused. All methods run on one event loop.
    """

    def __init__(
        self, origin: ServerOrigin, headers: Sequence[tuple[str, str]], timeout_s: float, most_bytes: int
    ) -> None:
        from aiohttp.http import SERVER_SOFTWARE  # an optional package

        self._origin, self._timeout_s, self._most_bytes = origin, timeout_s, most_bytes
        self._loop = asyncio.get_running_loop()
        self._idle: deque[_Connection] = deque()
        self._closed = False
        self._deadlines: Deadlines[_Connection] = Deadlines(self._loop, timeout_s, _Connection.expire)
        given = {name.lower() for name, _ in headers}
        added = [("Accept-Encoding", "identity"), ("User-Agent", SERVER_SOFTWARE), ("Host", _host(origin))]
        sent = [*headers, *(header for header in added if header[0].lower() not in given)]
        self._rest = " HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent) + "\r\n"

    async def get(self, url: str) -> tuple[int, str]:
        """The status code and the body of the response to GET. TimeoutError where it takes longer than ``timeout_s``
        seconds, including the connecting.
        """
        connection = self._reused()
        if connection is None:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connected()
        answer = connection.ask(f"GET {url[len(self._origin.text) :]}{self._rest}".encode("ascii"))
        self._deadlines.add(connection)
        try:
            status, body, content_type = await answer
        finally:
            self._deadlines.remove(connection)
            self._keep(connection)
        try:
            return status, body.decode(_charset(content_type))
        except (UnicodeDecodeError, LookupError):
            raise Unusual from None

    def close(self) -> None:
        """Closes idle connections; requests in flight continue."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _reused(self) -> _Connection | None:
        """The one used last, so that the others get old."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and self._loop.time() - connection.used < IDLE_S:
                return connection
            connection.close()
        return None

    async def _connected(self) -> _Connection:
        there = self._origin
        _, protocol = await self._loop.create_connection(
            lambda: _Connection(self._loop, self._most_bytes), there.host, there.port, ssl=there.tls or None
        )
        return protocol

    def _keep(self, connection: _Connection) -> None:
        if self._closed or not connection.is_idle:  # a request that was cancelled or failed
            connection.close()
            return
        connection.used = self._loop.time()
        self._idle.append(connection)
        while connection.used - self._idle[0].used > IDLE_S:
            self._idle.popleft().close()


def _host(origin: ServerOrigin) -> str:
    usual = origin.port == (443 if origin.tls else 80)
    return origin.host if usual else f"{origin.host}:{origin.port}"


@lru_cache(64)
def _charset(content_type: bytes) -> str:
    message = Message()
    message["Content-Type"] = content_type.decode("latin-1")
    return message.get_content_charset() or "utf-8"


class _Connection(asyncio.Protocol):
    """One request at a time. ``used``: when it had its last answer, by the loop's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int) -> None:
        from httptools import HttpResponseParser  # an optional package

        self._loop = loop
        self._most_bytes = most_bytes
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[_Answer] | None = None
        self._parser = HttpResponseParser(self)
        self._expect()
        self.used = 0.0

    def _expect(self) -> None:
        """The next answer from its beginning."""
        self._received = 0
        self._fields: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._is_plain, self._is_whole, self._closes = True, False, False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_idle(self) -> bool:
        """Open, and nothing is asked that has no answer."""
        return self._answer is None and self.is_open

    def ask(self, request: bytes) -> asyncio.Future[_Answer]:
        assert self._transport is not None and self._answer is None, "one request at a time"
        answer = self._answer = self._loop.create_future()
        self._transport.write(request)
        return answer

    def expire(self) -> None:
        self._fail(TimeoutError())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(error or ConnectionResetError())

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # no request is in flight
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except Exception:  # the parser raises various exceptions
            self._is_plain = False
        if not self._is_plain or self._received > _LONGEST_HEAD + self._most_bytes:
            self._fail(Unusual())
        elif self._is_whole:
            self._finish()

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        if self._closes:
            self.close()
        if answer is not None and not answer.done():
            body, content_type = b"".join(self._body), self._fields.get(b"content-type", b"")
            answer.set_result((self._parser.get_status_code(), body, content_type))
        self._expect()

    # --- what the parser calls --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_whole:  # an unsolicited response
            self._is_plain = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields[name.lower()] = value

    def on_headers_complete(self) -> None:
        status, fields = self._parser.get_status_code(), self._fields
        length = fields.get(b"content-length", b"0" if status == 204 else b"")
        is_read = self._parser.get_http_version() == "1.1" and (200 <= status < 300 or status >= 400)
        has_length = length.isdigit() and int(length) <= self._most_bytes
        self._is_plain = self._is_plain and is_read and has_length and not _UNREAD & fields.keys()

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        self._is_whole, self._closes = True, not self._parser.should_keep_alive()

    def _fail(self, error: Exception) -> None:
        """Closes the connection after an error."""
        answer = self._answer
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self.close()
