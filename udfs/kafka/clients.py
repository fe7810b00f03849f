"""Clients of librdkafka: how consumers are set up, and what is said where properties are wrong or brokers are away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlstream.errors import ConnectorError
from sqlstream.udfs.kafka.tokens import LOG, with_tokens

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

UNREACHABLE = "SS590"

_FETCHES_ON = {
    "fetch.queue.backoff.ms": "10",
    "fetch.wait.max.ms": "100",
    "queued.max.messages.kbytes": "16384",
}
"""Defaults other than librdkafka's. Where 100,000 messages wait for us, it fetches no more for a second, in which we
read them several times over. A consumer that goes to another offset waits for the last request, which brokers of a
silent topic keep for half a second. And of 64 MB that are fetched ahead, tasks on other consumers fetch most again."""

_OF_PRODUCERS = (
    "acks", "batch.", "compression.", "delivery.", "enable.gapless", "enable.idempotence", "linger.", "message.send.",
    "message.timeout.", "partitioner", "queue.buffering.", "request.required.", "retries", "sticky.", "transaction",
)  # fmt: skip
"""Properties that a table that is also written may have, and of which librdkafka would warn."""


def consumer_settings(properties: Mapping[str, str], group: str = "sqlstream") -> dict[str, Any]:
    """The settings of a consumer that is given its partitions and commits nothing by itself. ``properties``: those of
    a table, in librdkafka's names. Raises what ``with_tokens`` raises.
    """
    own = {"group.id": group, "enable.auto.commit": False, "enable.auto.offset.store": False,
           "auto.offset.reset": "error", "enable.partition.eof": True}  # fmt: skip
    given = {key: value for key, value in with_tokens(properties).items() if not key.startswith(_OF_PRODUCERS)}
    return {**_FETCHES_ON, **given, **own}


def consumer_of(properties: Mapping[str, str], group: str = "sqlstream", **more: Any) -> Consumer:
    """A consumer with the settings of ``consumer_settings``. ``more``: further settings of librdkafka. ConnectorError
    SS590 for wrong properties.
    """
    from confluent_kafka import Consumer, KafkaException  # an optional package

    try:
        made = Consumer({**consumer_settings(properties, group), **more}, logger=LOG)
    except KafkaException as error:
        raise wrong_properties(error) from None
    made.poll(0)  # gives librdkafka its first token, where it logs in by one
    return made


def is_of_coordinator(error: KafkaError) -> bool:
    """Whether it says that a coordinator is being elected: of requests that librdkafka does not repeat itself, it does
    not say that they may be repeated then.
    """
    from confluent_kafka import KafkaError  # an optional package

    return error.code() in (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
    )  # fmt: skip


def wrong_properties(error: Exception) -> ConnectorError:
    """SS590 for properties that librdkafka refuses."""
    reason = reason_of(error)
    if "GSSAPI" in reason:  # what a login is without a mechanism
        hint = (
            "Add 'properties.sasl.mechanism' = 'PLAIN', 'SCRAM-SHA-512' or 'OAUTHBEARER'; for Kerberos set "
            "'kafka.client' = 'spark'."
        )
    else:
        hint = "librdkafka's names are in its CONFIGURATION.md; 'kafka.client' = 'spark' takes those of Java."
    return ConnectorError(UNREACHABLE, f"options properties.… of Kafka are wrong: {reason}", hint=hint)


def unreachable(properties: Mapping[str, str], error: Exception, refusal: str | None = None) -> ConnectorError:
    """SS590 for brokers that do not answer the driver. ``properties``: those of librdkafka. ``refusal``: what it has
    said of a login or a certificate.
    """
    servers = properties.get("bootstrap.servers", "")
    if refusal is not None:
        hint = "Look at the options properties.security.protocol, properties.sasl.… and properties.ssl.… of the table."
        return ConnectorError(UNREACHABLE, f'Kafka\'s brokers "{servers}" refuse the connection: {refusal}', hint=hint)
    hint = "Look whether they run there, and at the options properties.… of the table."
    return ConnectorError(UNREACHABLE, f'Kafka\'s brokers "{servers}" do not answer: {reason_of(error)}', hint=hint)


def reason_of(error: Exception) -> str:
    """What librdkafka says in a KafkaException."""
    return str(error.args[0].str() if error.args and hasattr(error.args[0], "str") else error)
