"""Topics of MQTT 5 as tables: each message is acknowledged when it is on disk, and is a row once.

The broker keeps a session for the client, in which it sends again what was not acknowledged, with the same packet
number and a mark. Such a message that was stored, because the process ended before its acknowledgement, is known by
this number and by what it holds, and acknowledged only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from sqlstream.connectors.http import address_of
from sqlstream.connectors.receiving import (
    RECONNECT_OPTIONS,
    Inbox,
    Lost,
    Message,
    MessageSource,
    Metadata,
    Patience,
    Receiver,
)
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span, repeating
from sqlstream.options import DURATION, MISSING_OPTION, NAME, WRONG_VALUE, Option, one_of
from sqlstream.planner.catalog import Table
from sqlstream.secrets import NO_SECRETS, Secrets

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

REFUSED = repeating("SS661")

_FINAL = {
    "Bad user name or password",
    "Not authorized",
    "Client identifier not valid",
    "Banned",
    "Topic filter invalid",
}
_AT_ONCE = 1000
_LONGEST_SESSION = 2**32 - 2  # seconds


@dataclass(frozen=True)
class MqttReceiver(Receiver):
    """Reads what a broker sends to the session of a client. ``session_ms``: how long it lasts without a connection."""

    name: str
    host: str
    port: int
    tls: bool
    topics: tuple[str, ...]
    client_id: str
    qos: int
    session_ms: int
    connect_ms: int
    patience: Patience
    login: tuple[str, str | None] | None = field(default=None, repr=False)
    secrets: Secrets = field(default=NO_SECRETS, repr=False)

    async def run(self, inbox: Inbox) -> None:
        """Connects again and again. ConnectorError SS661 for what another attempt would not change."""
        while True:
            async with self.patience.trying():
                events: asyncio.Queue[MQTTMessage | Exception | None] = asyncio.Queue()
                client = self._client(events, lasting=inbox.lasting)
                try:
                    await self._connect(client, events, lasting=inbox.lasting)
                    await self._read(client, events, inbox)
                finally:
                    client.disconnect()
                    await asyncio.to_thread(client.loop_stop)

    def _client(self, events: asyncio.Queue[Any], *, lasting: bool) -> Client:
        """A client whose thread tells what happens by ``events``: messages, errors, and None for what was asked for."""
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

        loop = asyncio.get_running_loop()

        def tell(event: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(events.put_nowait, event)

        def told(reason: Any) -> None:
            tell(self._failure(str(reason)) if reason.is_failure else None)

        client = Client(
            CallbackAPIVersion.VERSION2, self.client_id if lasting else f"sqlstream-{uuid4().hex[:12]}",
            protocol=MQTTProtocolVersion.MQTTv5, reconnect_on_failure=False, manual_ack=True,
        )  # fmt: skip
        client.on_connect = lambda _client, _data, _flags, reason, _properties: told(reason)
        client.on_subscribe = lambda _client, _data, _mid, reasons, _properties: told(reasons[0])
        client.on_disconnect = lambda _client, _data, _flags, reason, _properties: tell(Lost(str(reason)))
        client.on_message = lambda _client, _data, message: tell(message)
        if self.login is not None:
            client.username_pw_set(*self.login)
        if self.tls:
            client.tls_set()
        client.connect_timeout = self.connect_ms / 1000
        return client

    async def _connect(self, client: Client, events: asyncio.Queue[Any], *, lasting: bool) -> None:
        """Connects and subscribes. Messages of a session that goes on may come before the subscription is there."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = min(self.session_ms // 1000, _LONGEST_SESSION) if lasting else 0
        connect: Callable[..., object] = client.connect
        await asyncio.to_thread(
            connect, self.host, self.port, keepalive=30, clean_start=not lasting, properties=properties
        )
        client.loop_start()
        early = await self._until_answered(events)
        topics = self.topics if lasting else map(_unshared, self.topics)
        client.subscribe([(topic, self.qos) for topic in topics])
        for message in [*early, *await self._until_answered(events)]:
            events.put_nowait(message)
        self.patience.connected()

    async def _until_answered(self, events: asyncio.Queue[Any]) -> list[MQTTMessage]:
        messages = []
        async with asyncio.timeout(self.connect_ms / 1000):
            while (event := await events.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                messages.append(event)
        return messages

    async def _read(self, client: Client, events: asyncio.Queue[Any], inbox: Inbox) -> None:
        while True:
            given = [await events.get()]
            while len(given) < _AT_ONCE and not events.empty():
                given.append(events.get_nowait())
            failed = next((event for event in given if isinstance(event, Exception)), None)
            received = [message for message in given if message is not None and not isinstance(message, Exception)]
            messages = [(message, _message(message)) for message in received]
            new = [own for message, own in messages if not (message.dup and inbox.knows(own.id or ""))]
            if new:
                await inbox.store(new)
            for message in received:
                client.ack(message.mid, message.qos)
            if failed is not None:
                raise failed

    def _failure(self, reason: str) -> Exception:
        if reason not in _FINAL:
            return Lost(reason)
        message = f'{self.patience.address} gives table "{self.name}" no messages: {reason}'
        return ConnectorError(REFUSED, message, hint="Correct the options topics, client-id or auth.")


def _unshared(topic: str) -> str:
    """The filter of a shared subscription for who takes nothing from the others of its group."""
    return topic.split("/", 2)[2] if topic.startswith("$share/") and topic.count("/") > 1 else topic


def _message(given: MQTTMessage) -> Message:
    digest = sha256(given.topic.encode() + b"\0" + given.payload).hexdigest()[:16]
    pairs = getattr(given.properties, "UserProperty", None)
    return Message(bytes(given.payload), f"{given.mid}-{digest}", given.topic, dict(pairs) if pairs else None)


class Mqtt(MessageSource):
    """Tables of MQTT, which the driver reads with paho-mqtt."""

    name = "mqtt"
    doc = "Messages of topics of MQTT, acknowledged when they are on disk."
    own_options = (
        Option("url", NAME, "The broker: mqtt://host:1883, or mqtts://host:8883.", required=True),
        Option("topics", NAME, "Filters of topics, with commas; + and # stand for any.", required=True, shown=True),
        Option("client-id", NAME, "The name of the session, of which each job has its own.", required=True, shown=True),
        Option("qos", one_of("0", "1"), "1: each message is acknowledged; 0: a message may be lost.", "1", shown=True),
        Option("session.expiry", DURATION, "For so long the broker keeps messages for a job that does not run.", "7 d",
               shown=True),
        Option("auth.username", NAME, "The user."),
        Option("auth.password", NAME, "The password, best as ${NAME}."),
        *RECONNECT_OPTIONS,
    )  # fmt: skip
    own_metadata: ClassVar[Mapping[str, Metadata]] = {
        "topic": Metadata("subject", "STRING"),
        "user-properties": Metadata("headers", "MAP<STRING, STRING>"),
    }
    variables = ("auth.password", "auth.username", "url")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from super().check(table, spans)
        given = dict(table.options)
        if "auth.password" in given and "auth.username" not in given:
            message = 'option "auth.password" needs "auth.username"'
            yield Diagnostic(MISSING_OPTION, message, spans.get("auth.password"))
        url = given["url"]
        if "${" not in url and (urlsplit(url).scheme not in ("mqtt", "mqtts") or not urlsplit(url).hostname):
            message = f'option "url" of table "{table.name}" is no address of MQTT'
            yield Diagnostic(WRONG_VALUE, message, spans.get("url"), hint="Write it as 'mqtt://host:1883'.")

    def remembered(self, values: Mapping[str, Any]) -> int:
        return 10 * _AT_ONCE

    def receiver(self, table: Table, values: Mapping[str, Any], scan: int) -> MqttReceiver:
        url = urlsplit(values["url"])
        user = values["auth.username"] or unquote(url.username or "")
        password = values["auth.password"] or unquote(url.password or "")
        return MqttReceiver(
            name=table.name,
            host=url.hostname or "",
            port=url.port or (8883 if url.scheme == "mqtts" else 1883),
            tls=url.scheme == "mqtts",
            topics=tuple(topic.strip() for topic in values["topics"].split(",")),
            client_id=values["client-id"] if scan == 0 else f"{values['client-id']}-{scan + 1}",
            qos=int(values["qos"]),
            session_ms=values["session.expiry"],
            connect_ms=values["connect.timeout"],
            patience=Patience.of(table, values, address_of(values["url"])),
            login=(user, password or None) if user else None,
            secrets=secrets_of(table),
        )
