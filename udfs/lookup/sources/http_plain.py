"""GET over connections of our own, for servers that answer plainly: HTTP/1.1 with Content-Length, no encoding, no
redirect, no cookie.

A session of aiohttp costs twice as much for such a request. It keeps all the rest: ``Unusual`` and OSError say that it
should ask again, so it is also what tells users of failures. Only GET goes this way, which may be asked twice.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from sqlstream.udfs.lookup.deadlines import Deadlines
from sqlstream.udfs.lookup.sources.templates import Template

if TYPE_CHECKING:
    from aiohttp import ClientResponse

IDLE_S = 15.0
"""How long a connection is kept that nobody uses; as aiohttp keeps its own."""

_LONGEST_HEAD = 65_536
_VERSION = b"HTTP/1.1 "
_ORIGIN = re.compile(r"(https?)://([A-Za-z0-9.-]+)(?::([0-9]+))?(?=/)")
_TARGET = re.compile(r"[!\"$-~]*")  # visible ASCII without "#", behind which nothing is sent
_HEADER = re.compile(r"[!-~]+: ?[\t -~]*")
_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "expect", "upgrade"})
_NAMES = rb"content-(?:length|type|encoding)|transfer-encoding|connection|set-cookie"
_FIELD = re.compile(rb"\r\n(" + _NAMES + rb")[ \t]*:([^\r\n]*)", re.IGNORECASE)
_UNREAD = frozenset({b"content-encoding", b"transfer-encoding", b"set-cookie"})


class Unusual(Exception):
    """An answer that is not plain."""


@dataclass(frozen=True)
class Origin:
    """Where requests go; ``text`` is how URLs begin."""

    text: str
    host: str
    port: int
    tls: bool


def origin_of(url: Template) -> Origin | None:
    """None where the URL may be different from what is sent: names in other scripts, users, places in the host."""
    found = _ORIGIN.match(url.start)
    texts = [part for part in url.parts if isinstance(part, str)]
    if found is None or not all(map(_TARGET.fullmatch, texts)):
        return None
    scheme, host, port = found.groups()
    tls = scheme == "https"
    return Origin(found[0], host, int(port or (443 if tls else 80)), tls)


def are_plain(headers: Sequence[tuple[str, str]]) -> bool:
    """True where headers can be sent as they are."""
    return all(_HEADER.fullmatch(f"{n}: {v}") and ":" not in n and n.lower() not in _OURS for n, v in headers)


def is_plain(answer: ClientResponse) -> bool:
    """Will the server answer the next request so that it can be read here?"""
    version = answer.version
    if version is None or tuple(version) != (1, 1) or answer.history or answer.cookies:
        return False
    return answer.content_length is not None and "Content-Encoding" not in answer.headers


class PlainConnections:
    """As many connections as there are requests at the same time; idle ones are kept. All methods run on one loop."""

    def __init__(self, origin: Origin, headers: Sequence[tuple[str, str]], timeout_s: float, most_bytes: int) -> None:
        from aiohttp.http import SERVER_SOFTWARE

        self._origin, self._timeout_s, self._most_bytes = origin, timeout_s, most_bytes
        self._loop = asyncio.get_running_loop()
        self._idle: deque[_Connection] = deque()
        self._closed = False
        self._deadlines: Deadlines[_Connection] = Deadlines(self._loop, timeout_s, _Connection.expire)
        known = {name.lower() for name, _ in headers}
        added = [("Accept-Encoding", "identity"), ("User-Agent", SERVER_SOFTWARE), ("Host", _host(origin))]
        sent = [*headers, *(header for header in added if header[0].lower() not in known)]
        self._rest = " HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent) + "\r\n"

    async def get(self, url: str) -> tuple[int, str]:
        """The status and the body. TimeoutError where it takes ``timeout_s`` to connect, or to answer."""
        connection = self._reused()
        if connection is None:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connected()
        answer = connection.ask(f"GET {url[len(self._origin.text) :]}{self._rest}".encode("ascii"))
        self._deadlines.add(connection)
        try:
            head, body = await answer
        finally:
            self._deadlines.remove(connection)
            self._keep(connection)
        try:
            return head.status, body.decode(head.charset)
        except (UnicodeDecodeError, LookupError):
            raise Unusual from None

    def close(self) -> None:
        """Requests under way go on."""
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


def _host(origin: Origin) -> str:
    usual = origin.port == (443 if origin.tls else 80)
    return origin.host if usual else f"{origin.host}:{origin.port}"


@dataclass(frozen=True)
class _Head:
    """``closes``: the server will take no more requests on the connection."""

    status: int
    length: int
    charset: str
    closes: bool


@lru_cache(1_024)
def read_head(head: bytes) -> _Head | None:
    """The head of an answer, without the blank line behind it; None where it is not plain.

    Servers say the same over and over, but for the length and, each second, the date.
    """
    status = head[9:12]
    if not head.startswith(_VERSION) or not status.isdigit() or head[12:13].strip():
        return None
    fields: dict[bytes, bytes] = {}
    for name, value in _FIELD.findall(head):
        if fields.setdefault(name.lower(), value.strip()) != value.strip():
            return None
    code, length = int(status), fields.get(b"content-length", b"")
    if code < 200 or 300 <= code < 400 or _UNREAD & fields.keys():
        return None
    if code == 204:
        length = b"0"
    if not length.isdigit():
        return None
    closes = fields.get(b"connection", b"keep-alive").lower() != b"keep-alive"
    return _Head(code, int(length), _charset(fields.get(b"content-type", b"")), closes)


def _charset(content_type: bytes) -> str:
    message = Message()
    message["Content-Type"] = content_type.decode("latin-1")
    return message.get_content_charset() or "utf-8"


class _Connection(asyncio.Protocol):
    """One request at a time. ``used``: when it had its last answer, by the loop's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int) -> None:
        self._loop = loop
        self._most_bytes = most_bytes
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[_Head, bytes]] | None = None
        self._received = bytearray()
        self._head: _Head | None = None
        self._begin = 0
        self.used = 0.0

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_idle(self) -> bool:
        """Open, and nothing is asked that has no answer."""
        return self._answer is None and self.is_open

    def ask(self, request: bytes) -> asyncio.Future[tuple[_Head, bytes]]:
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
        self._received += data
        if self._answer is None:  # nobody has asked
            self.close()
        elif self._head is not None or self._reads_head():
            self._read_body()

    def _reads_head(self) -> bool:
        """Is all of it there?"""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            begun = self._received.startswith(_VERSION[: len(self._received)])
            if not begun or len(self._received) > _LONGEST_HEAD:
                self._fail(Unusual())
            return False
        self._head, self._begin = read_head(bytes(self._received[:end])), end + 4
        if self._head is None or self._head.length > self._most_bytes:
            self._fail(Unusual())
            return False
        return True

    def _read_body(self) -> None:
        head, end = self._head, len(self._received) - self._begin
        assert head is not None
        if end < head.length:
            return
        answer, self._answer, self._head = self._answer, None, None
        body = bytes(self._received[self._begin :])
        self._received.clear()
        if head.closes or end > head.length:
            self.close()
        if answer is not None and not answer.done():
            if end > head.length:
                answer.set_exception(Unusual())
            else:
                answer.set_result((head, body))

    def _fail(self, error: Exception) -> None:
        """The connection is of no more use."""
        answer = self._answer
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self.close()
