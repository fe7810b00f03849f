"""Queues of RabbitMQ as tables: each message is acknowledged when it is on disk.

The broker gives a message again that was not acknowledged, and marks it. One that was stored, because the process ended
before its acknowledgement, is known where its sender has named it (``message_id``), and acknowledged only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

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
from sqlstream.options import BOOLEAN, NAME, WRONG_VALUE, Option, integer
from sqlstream.planner.catalog import Table
from sqlstream.secrets import NO_SECRETS, Secrets

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

REFUSED = repeating("SS661")
READ_TWICE = "SS669"


@dataclass(frozen=True)
class QueueReceiver(Receiver):
    """Reads a queue. ``ahead``: so many messages the broker gives before the first of them is acknowledged.
    ``declares``: a queue that is not there is made, a durable one.
    """

    name: str
    url: str = field(repr=False)
    queue: str
    ahead: int
    declares: bool
    connect_ms: int
    patience: Patience
    secrets: Secrets = field(default=NO_SECRETS, repr=False)

    async def run(self, inbox: Inbox) -> None:
        """Connects again and again. ConnectorError SS661 for what another attempt would not change."""
        from aio_pika import connect
        from aiormq import exceptions

        final = (
            exceptions.AuthenticationError,
            exceptions.ProbableAuthenticationError,
            exceptions.ChannelAccessRefused,
            exceptions.ChannelNotFoundEntity,
            exceptions.ChannelPreconditionFailed,
        )
        while True:
            async with self.patience.trying():
                try:
                    connection = await connect(self.url, timeout=self.connect_ms / 1000)
                    async with connection, connection.channel() as channel:
                        await self._read(channel, inbox)
                except final as error:
                    message = f'{self.patience.address} gives table "{self.name}" no messages: {error}'
                    hint = "Look whether the queue is there, and the user may read it."
                    raise ConnectorError(REFUSED, self.secrets.hidden(message), hint=hint) from None
                except exceptions.AMQPError as error:
                    raise Lost(str(error) or type(error).__name__) from None

    async def _read(self, channel: AbstractChannel, inbox: Inbox) -> None:
        await channel.set_qos(prefetch_count=self.ahead)
        queue = await channel.declare_queue(self.queue, durable=True, passive=not self.declares)
        given: asyncio.Queue[AbstractIncomingMessage | None] = asyncio.Queue()
        channel.close_callbacks.add(lambda *_: given.put_nowait(None))
        await queue.consume(given.put)
        self.patience.connected()
        while True:
            taken = [await given.get()]
            while not given.empty():
                taken.append(given.get_nowait())
            received = [message for message in taken if message is not None]
            new = [
                _message(message)
                for message in received
                if not (message.redelivered and message.message_id and inbox.knows(message.message_id))
            ]
            if new:
                await inbox.store(new)
            if received and inbox.lasting:
                await received[-1].ack(multiple=True)  # all of this channel that were given before are stored, too
            if None in taken:
                raise Lost("the connection has ended")


def _message(given: AbstractIncomingMessage) -> Message:
    headers = {name: str(value) for name, value in given.headers.items()}
    return Message(given.body, given.message_id, given.routing_key, headers or None)


class RabbitMq(MessageSource):
    """Tables of queues, which the driver reads with aio-pika."""

    name = "rabbitmq"
    doc = "Messages of a queue of RabbitMQ, acknowledged when they are on disk."
    own_options = (
        Option("url", NAME, "The broker: amqp://user:password@host:5672/vhost, or amqps://.", required=True),
        Option("queue", NAME, "The queue, which each job has for itself.", required=True, shown=True),
        Option("declare", BOOLEAN, "Makes the queue, a durable one, where it is not there.", "false", shown=True),
        Option("prefetch", integer(1, 65_535), "So many messages are given before one is acknowledged.", "1000",
               shown=True),
        *RECONNECT_OPTIONS,
    )  # fmt: skip
    own_metadata: ClassVar[Mapping[str, Metadata]] = {
        "message-id": Metadata("id", "STRING"),
        "routing-key": Metadata("subject", "STRING"),
        "headers": Metadata("headers", "MAP<STRING, STRING>"),
    }
    variables = ("url",)

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from super().check(table, spans)
        url = dict(table.options)["url"]
        if not url.startswith("${") and urlsplit(url).scheme not in ("amqp", "amqps"):
            message = f'option "url" of table "{table.name}" is no address of RabbitMQ'
            yield Diagnostic(WRONG_VALUE, message, spans.get("url"), hint="Write it as 'amqp://host:5672/'.")

    def remembered(self, values: Mapping[str, Any]) -> int:
        return 10 * int(values["prefetch"])

    def receiver(self, table: Table, values: Mapping[str, Any], scan: int) -> QueueReceiver:
        if scan:
            message = f'table "{table.name}" is read twice, and a queue gives each message once'
            raise ConnectorError(READ_TWICE, message, hint="Write its messages to files or a topic, and read those.")
        return QueueReceiver(
            name=table.name,
            url=values["url"],
            queue=values["queue"],
            ahead=values["prefetch"],
            declares=values["declare"],
            connect_ms=values["connect.timeout"],
            patience=Patience.of(table, values, address_of(values["url"])),
            secrets=secrets_of(table),
        )
