"""``sse``: the events that an HTTP server sends (``text/event-stream``), each once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from sqlstream.connectors.http import address_of, check_headers, headers_of
from sqlstream.connectors.receiving.addresses import check_url, require_url
from sqlstream.connectors.receiving.event_stream import Event, EventStream, EventTooLarge
from sqlstream.connectors.receiving.receiver import Inbox, Lost, Patience, Receiver
from sqlstream.connectors.receiving.source import LARGEST, RECONNECT_OPTIONS, REQUEST_OPTIONS, MessageSource, Metadata
from sqlstream.connectors.receiving.spool import Message
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span, repeating
from sqlstream.options import DURATION, NAME, Option
from sqlstream.planner.catalog import Table
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.udfs.lookup.sources.clients import beginning, no_package
from sqlstream.udfs.lookup.sources.http import HttpServer, send

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

REFUSED = repeating("SS661")
TOO_LARGE = repeating("SS664")

SILENCE = Option(
    "silence.timeout", DURATION, "A connection on which nothing comes for so long is made again; 0: never.", "5 min"
)
_SCHEMES = ("http", "https")
_TYPE = "text/event-stream"
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_SHOWN_BYTES = 1000


@dataclass(frozen=True)
class EventReceiver(Receiver):
    """Reads events of a server, and goes on after the last one where a connection ended.

    ``first_id``: the id to go on after where nothing was received yet. ``kinds``: the types of events that are rows;
    None for all. ``silence_ms``: a connection on which nothing comes for so long is made again; 0: never.
    """

    name: str
    url: str = field(repr=False)
    server: HttpServer
    patience: Patience
    first_id: str = ""
    kinds: frozenset[str] | None = None
    most_bytes: int = 16 << 20
    connect_ms: int = 30_000
    silence_ms: int = 0
    secrets: Secrets = field(default=NO_SECRETS, repr=False)

    async def run(self, inbox: Inbox) -> None:
        """Connects again and again. ConnectorError SS661 where the server says what another attempt would not change,
        SS664 for an event that is too large.
        """
        from aiohttp import ClientError, ClientSession, ClientTimeout  # an optional package

        timeout = ClientTimeout(total=None, connect=self.connect_ms / 1000, sock_read=self.silence_ms / 1000 or None)
        stream = EventStream(self.most_bytes, self.first_id if inbox.cursor is None else inbox.cursor)
        async with ClientSession(timeout=timeout, headers=self.server.headers) as session:
            while True:
                async with self.patience.trying():
                    try:
                        await self._listen(session, stream, inbox)
                    except (ClientError, TimeoutError) as error:
                        raise Lost(str(error) or type(error).__name__) from None
                    except EventTooLarge:
                        raise self._too_large() from None

    async def _listen(self, session: ClientSession, stream: EventStream, inbox: Inbox) -> None:
        """Reads one response to its end."""
        stream.begin()
        headers = {"Last-Event-ID": stream.id} if stream.id else {}
        async with send(session, self.server, "GET", self.url, headers=headers) as (answer, _):
            await self._require_events(answer)
            self.patience.connected()
            async for chunk in answer.content.iter_any():
                before = stream.id
                messages = [_message(event) for event in stream.events(chunk) if self._is_wanted(event)]
                if stream.retry_ms is not None:
                    self.patience.delay_ms = stream.retry_ms
                if messages or stream.id != before:
                    await inbox.put(messages, stream.id)

    def _is_wanted(self, event: Event) -> bool:
        return self.kinds is None or event.kind in self.kinds

    async def _require_events(self, answer: ClientResponse) -> None:
        if answer.status == 200 and answer.content_type == _TYPE:
            return
        if answer.status == 204:  # by the standard a server says so that there are no more
            raise self._refused("status 204: there are no more events", "Drop the table, or correct the option url.")
        text = beginning(self.secrets.hidden((await answer.content.read(_SHOWN_BYTES)).decode(errors="replace")))
        if answer.status in _TRY_AGAIN:
            raise Lost(f"status {answer.status}: {text}")
        if answer.status != 200:
            raise self._refused(f"status {answer.status}: {text}", "Correct the options url, headers or auth.")
        said = f"it answers {answer.content_type}, not {_TYPE}: {text}"
        raise self._refused(said, "Correct the option url: it must be one of server-sent events.")

    def _refused(self, reason: str, hint: str) -> ConnectorError:
        message = f'{self.server.address} sends no events to table "{self.name}": {reason}'
        return ConnectorError(REFUSED, message, hint=hint)

    def _too_large(self) -> ConnectorError:
        message = f'{self.server.address} sends table "{self.name}" an event of more than {self.most_bytes} bytes'
        return ConnectorError(TOO_LARGE, message, hint="Raise the option max-message-bytes.")


def _message(event: Event) -> Message:
    return Message(event.data, event.id or None, event.kind)


class ServerSentEvents(MessageSource):
    """Tables of the events of an HTTP server, which the driver reads with aiohttp. Raises ConnectorError SS577 without
    it.
    """

    name = "sse"
    doc = "Server-sent events of an HTTP server (text/event-stream), from where the job has read them."
    own_options = (
        Option("url", NAME, "The address: https://host/events.", required=True),
        *REQUEST_OPTIONS,
        Option("event-types", NAME, "Only events of these types are rows, with commas; message is that of most."),
        Option("event-id", NAME, "The Last-Event-ID that a job without checkpoint sends first."),
        LARGEST,
        SILENCE,
        *RECONNECT_OPTIONS,
    )
    own_metadata: ClassVar[Mapping[str, Metadata]] = {
        "event-id": Metadata("id", "STRING"),
        "event-type": Metadata("subject", "STRING"),
    }
    variables = ("auth.password", "auth.token", "auth.username", "headers.#", "url")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from super().check(table, spans)
        yield from check_url(table, spans, _SCHEMES)
        yield from check_headers(table, spans)

    def receiver(self, table: Table, values: Mapping[str, Any], scan: int) -> EventReceiver:
        require_aiohttp(self.name)
        public, private = headers_of(table, values)
        public = {"Accept": _TYPE, "Cache-Control": "no-cache"} | public
        address = address_of(values["url"])
        secrets = secrets_of(table)
        kinds = values["event-types"]
        return EventReceiver(
            name=table.name,
            url=require_url(values["url"], _SCHEMES),
            server=HttpServer(address, tuple(public.items()), tuple(private.items()), secrets),
            patience=Patience.of(table, values, address),
            first_id=values["event-id"] or "",
            kinds=None if kinds is None else frozenset(word.strip() for word in kinds.split(",")),
            most_bytes=values["max-message-bytes"],
            connect_ms=values["connect.timeout"],
            silence_ms=values["silence.timeout"],
            secrets=secrets,
        )


def require_aiohttp(connector: str) -> None:
    """Raises ConnectorError SS577 where aiohttp is not installed."""
    if find_spec("aiohttp") is None:
        raise no_package(connector, "aiohttp", "http")
