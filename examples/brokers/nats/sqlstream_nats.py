"""Streams of NATS JetStream as tables: each message is acknowledged when it is on disk, and is a row once.

A consumer of JetStream, which is durable, knows which messages were acknowledged, and sends others again. One that is
sent again although it was stored, because the process ended before its acknowledgement, is known by its sequence number
and acknowledged only. One that is sent for the first time is new: the numbers of a stream that was made again are, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

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
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

REFUSED = repeating("SS661")

_AT_ONCE = 200
"""Messages that are asked for together; a server gives none of more than a megabyte, by default."""
_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class NatsReceiver(Receiver):
    """Reads what a consumer of a stream is given. ``subject``: of which messages; ``durable``: the name of the
    consumer, which is made where there is none; ``policy``: where it begins then. ``login``: what the client takes
    for it.
    """

    name: str
    url: str = field(repr=False)
    subject: str
    stream: str | None
    durable: str
    policy: str
    ack_ms: int
    connect_ms: int
    patience: Patience
    login: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: Secrets = field(default=NO_SECRETS, repr=False)

    async def run(self, inbox: Inbox) -> None:
        """Connects again and again. ConnectorError SS661 for what another attempt would not change."""
        from nats import errors
        from nats.aio.client import Client
        from nats.js import errors as js_errors

        while True:
            async with self.patience.trying():
                client = Client()
                try:
                    await client.connect(
                        self.url, allow_reconnect=False, error_cb=_silent, name="sqlstream",
                        connect_timeout=max(1, self.connect_ms // 1000), **dict(self.login),  # type: ignore[arg-type]
                    )  # fmt: skip
                    await self._read(client.jetstream(), inbox)
                except (js_errors.NotFoundError, js_errors.BadRequestError, errors.AuthorizationError) as error:
                    raise self._refused(str(error)) from None
                except (errors.Error, TimeoutError) as error:
                    if "authorization" in str(error).lower():
                        raise self._refused(str(error)) from None
                    raise Lost(str(error) or type(error).__name__) from None
                finally:
                    with suppress(Exception):
                        await client.close()

    async def _read(self, stream: JetStreamContext, inbox: Inbox) -> None:
        from nats import errors
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        policy = AckPolicy.EXPLICIT if inbox.lasting else AckPolicy.NONE
        config = ConsumerConfig(
            ack_policy=policy, deliver_policy=DeliverPolicy(self.policy), ack_wait=self.ack_ms / 1000
        )
        durable = self.durable if inbox.lasting else None  # who only looks takes nothing from the job
        consumer = await stream.pull_subscribe(self.subject, durable, self.stream, config=config)
        if inbox.lasting and (await consumer.consumer_info()).config.ack_policy == AckPolicy.NONE:
            raise self._refused("the consumer takes what it gives for acknowledged (ack_policy none)")
        self.patience.connected()
        while True:
            try:
                given = await consumer.fetch(_AT_ONCE, _WAIT_SECONDS)
            except errors.TimeoutError:
                if not stream._nc.is_connected:
                    raise Lost("the connection has ended") from None
                continue
            messages = [(message.metadata.num_delivered > 1, _message(message)) for message in given]
            new = [own for again, own in messages if not (again and inbox.knows(own.id or ""))]
            if new:
                await inbox.store(new)
            if inbox.lasting:  # the server says that it knows before more is asked for
                await asyncio.gather(*(message.ack_sync(timeout=10) for message in given))

    def _refused(self, reason: str) -> ConnectorError:
        message = f'{self.patience.address} gives table "{self.name}" no messages: {self.secrets.hidden(reason)}'
        hint = "Look whether the stream has the subject, and the user may read it."
        return ConnectorError(REFUSED, message, hint=hint)


async def _silent(error: Exception) -> None:
    """What goes wrong is raised where it is asked for."""


def _message(given: Msg) -> Message:
    place = given.metadata
    return Message(given.data, str(place.sequence.stream), given.subject, given.headers)


class Nats(MessageSource):
    """Tables of JetStream, which the driver reads with nats-py."""

    name = "nats"
    doc = "Messages of a stream of NATS JetStream, acknowledged when they are on disk."
    own_options = (
        Option("url", NAME, "A server, which names the others: nats://host:4222, or tls://host:4222.", required=True),
        Option("subject", NAME, "Which messages: a subject, with * and >.", required=True, shown=True),
        Option("stream", NAME, "The stream; by default the one that has the subject.", shown=True),
        Option("consumer", NAME, "The durable consumer, of which each job has its own.", required=True, shown=True),
        Option(
            "scan.startup.mode",
            one_of("earliest", "latest"),
            "Where a consumer begins that is not there yet.",
            "earliest",
        ),
        Option("ack.timeout", DURATION, "After which time a consumer that is made here sends again what was not "
               "acknowledged.", "30 s", shown=True),
        Option("auth.token", NAME, "A token, best as ${NAME}."),
        Option("auth.username", NAME, "The user."),
        Option("auth.password", NAME, "The password, best as ${NAME}."),
        Option("auth.credentials", NAME, "A file of credentials, as nsc writes it."),
        *RECONNECT_OPTIONS,
    )  # fmt: skip
    own_metadata: ClassVar[Mapping[str, Metadata]] = {
        "sequence": Metadata("id", "BIGINT"),
        "subject": Metadata("subject", "STRING"),
        "headers": Metadata("headers", "MAP<STRING, STRING>"),
    }
    variables = ("auth.password", "auth.token", "auth.username", "url")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from super().check(table, spans)
        given = dict(table.options)
        if ("auth.username" in given) != ("auth.password" in given):
            message = 'options "auth.username" and "auth.password" need each other'
            yield Diagnostic(MISSING_OPTION, message, spans.get("auth.username") or spans.get("auth.password"))
        if wrong := set(".*> /\\") & set(given.get("consumer", "")):
            message = f'option "consumer" of table "{table.name}" has "{min(wrong)}", which no name of a consumer has'
            yield Diagnostic(WRONG_VALUE, message, spans.get("consumer"), hint="Write letters, digits, - and _.")

    def remembered(self, values: Mapping[str, Any]) -> int:
        return 10 * _AT_ONCE

    def receiver(self, table: Table, values: Mapping[str, Any], scan: int) -> NatsReceiver:
        login = {
            "token": values["auth.token"], "user": values["auth.username"], "password": values["auth.password"],
            "user_credentials": values["auth.credentials"],
        }  # fmt: skip
        return NatsReceiver(
            name=table.name,
            url=values["url"],
            subject=values["subject"],
            stream=values["stream"],
            durable=values["consumer"] if scan == 0 else f"{values['consumer']}_{scan + 1}",
            policy={"earliest": "all", "latest": "new"}[values["scan.startup.mode"]],
            ack_ms=values["ack.timeout"],
            connect_ms=values["connect.timeout"],
            patience=Patience.of(table, values, address_of(values["url"])),
            login=tuple((key, value) for key, value in login.items() if value is not None),
            secrets=secrets_of(table),
        )
