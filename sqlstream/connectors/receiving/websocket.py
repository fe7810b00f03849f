"""``websocket``: the messages that a server of WebSockets sends while there is a connection."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.http import address_of, check_headers, headers_of
from sqlstream.connectors.receiving.addresses import check_url, require_url
from sqlstream.connectors.receiving.receiver import Inbox, Lost, Patience, Receiver
from sqlstream.connectors.receiving.source import LARGEST, RECONNECT_OPTIONS, REQUEST_OPTIONS, MessageSource
from sqlstream.connectors.receiving.spool import Message
from sqlstream.connectors.receiving.sse import REFUSED, SILENCE, TOO_LARGE, require_aiohttp
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import DURATION, NAME, Option
from sqlstream.planner.catalog import Table
from sqlstream.secrets import NO_SECRETS, Secrets

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse, TraceRequestRedirectParams

_SCHEMES = ("ws", "wss")
_TOO_LARGE_CODE = 1009
_LASTED_SECONDS = 60.0
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class WebSocketReceiver(Receiver):
    """Reads what a server sends, and connects again where the connection ended.

    ``headers``: those of the request, for this server alone; ``first``: the texts that are sent when the connection is
    made. ``heartbeat_ms``: how often the server is pinged; 0: never.
    """

    name: str
    url: str = field(repr=False)
    address: str
    patience: Patience
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    protocols: tuple[str, ...] = ()
    first: str | None = field(default=None, repr=False)
    most_bytes: int = 16 << 20
    connect_ms: int = 30_000
    heartbeat_ms: int = 30_000
    silence_ms: int = 0
    secrets: Secrets = field(default=NO_SECRETS, repr=False)

    async def run(self, inbox: Inbox) -> None:
        """Connects again and again. ConnectorError SS661 where the server says what another attempt would not change,
        SS664 for a message that is too large.
        """
        from aiohttp import ClientError, ClientSession, ClientTimeout, TraceConfig  # an optional package

        redirects = TraceConfig()
        redirects.on_request_redirect.append(self._on_redirect)
        timeout = ClientTimeout(total=None, connect=self.connect_ms / 1000)
        async with ClientSession(timeout=timeout, trace_configs=[redirects]) as session:
            while True:
                async with self.patience.trying():
                    try:
                        await self._listen(session, inbox)
                    except (ClientError, TimeoutError) as error:
                        raise self._lost(error) from None

    async def _listen(self, session: ClientSession, inbox: Inbox) -> None:
        from aiohttp import ClientWSTimeout, WSMsgType  # an optional package

        opened = time.monotonic()
        silence = ClientWSTimeout(ws_receive=self.silence_ms / 1000 or None, ws_close=5)
        async with session.ws_connect(
            self.url, headers=dict(self.headers), protocols=self.protocols, timeout=silence, compress=15,
            heartbeat=self.heartbeat_ms / 1000 or None, max_msg_size=self.most_bytes,
        ) as socket:  # fmt: skip
            if self.first is not None:
                await socket.send_str(self.first)
            while True:
                received = await socket.receive()
                if received.type is WSMsgType.TEXT:
                    value = received.data.encode()
                elif received.type is WSMsgType.BINARY:
                    value = received.data
                else:
                    break
                self.patience.connected()
                await inbox.put([Message(value)])
        if time.monotonic() - opened > _LASTED_SECONDS:
            self.patience.connected()
        raise self._ended(socket)

    def _ended(self, socket: ClientWebSocketResponse) -> Exception:
        error = socket.exception()
        if _TOO_LARGE_CODE in (socket.close_code, getattr(error, "code", None)):
            message = f'{self.address} sends table "{self.name}" a message of more than {self.most_bytes} bytes'
            return ConnectorError(TOO_LARGE, message, hint="Raise the option max-message-bytes.")
        return Lost(f"the connection was closed with code {socket.close_code}" if error is None else str(error))

    def _lost(self, error: Exception) -> Exception:
        status = getattr(error, "status", None)
        if not isinstance(status, int) or status in _TRY_AGAIN:
            return Lost(str(error) or type(error).__name__)
        message = f'{self.address} lets table "{self.name}" not connect: status {status}'
        return ConnectorError(REFUSED, message, hint="Correct the options url, headers or auth.")

    async def _on_redirect(self, _session: object, _context: object, redirect: TraceRequestRedirectParams) -> None:
        redirect.response.close()
        message = f'{self.address} redirects table "{self.name}", and headers are for this server alone'
        raise ConnectorError(REFUSED, message, hint="Write the address that it redirects to in the option url.")


class WebSocket(MessageSource):
    """Tables of what a server of WebSockets sends, which the driver reads with aiohttp. Raises ConnectorError SS577
    without it.
    """

    name = "websocket"
    doc = "Messages that a server of WebSockets sends while the job is connected."
    own_options = (
        Option("url", NAME, "The address: wss://host/stream.", required=True),
        *REQUEST_OPTIONS,
        Option("subprotocols", NAME, "The protocols to choose from, with commas."),
        Option("subscribe", NAME, "A text that is sent whenever a connection is made, such as one that subscribes."),
        LARGEST,
        Option("heartbeat.interval", DURATION, "How often the server is pinged; without an answer the connection has "
               "ended. 0: never.", "30 s"),
        SILENCE,
        *RECONNECT_OPTIONS,
    )  # fmt: skip
    variables = ("auth.password", "auth.token", "auth.username", "headers.#", "subscribe", "url")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from super().check(table, spans)
        yield from check_url(table, spans, _SCHEMES)
        yield from check_headers(table, spans)

    def receiver(self, table: Table, values: Mapping[str, Any], scan: int) -> WebSocketReceiver:
        require_aiohttp(self.name)
        public, private = headers_of(table, values)
        address = address_of(values["url"])
        return WebSocketReceiver(
            name=table.name,
            url=require_url(values["url"], _SCHEMES),
            address=address,
            patience=Patience.of(table, values, address),
            headers=tuple({**public, **private}.items()),
            protocols=tuple(filter(None, map(str.strip, (values["subprotocols"] or "").split(",")))),
            first=values["subscribe"],
            most_bytes=values["max-message-bytes"],
            connect_ms=values["connect.timeout"],
            heartbeat_ms=values["heartbeat.interval"],
            silence_ms=values["silence.timeout"],
            secrets=secrets_of(table),
        )
