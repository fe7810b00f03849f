"""What the options of a table of Kafka say of writing: guarantees, partitioners, and topics that a job creates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.connector import NOT_A_SINK, SharedName
from sqlstream.connectors.kafka.client import client_properties
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import BOOLEAN, MISSING_OPTION, NAME, STRING, WRONG_VALUE, Option, integer, one_of
from sqlstream.planner.catalog import Table
from sqlstream.udfs.lookup.sources.clients import no_package

if TYPE_CHECKING:
    from confluent_kafka import Producer

GUARANTEE, PREFIX, PARTITIONER = "sink.delivery-guarantee", "sink.transactional-id-prefix", "sink.partitioner"
EXACTLY_ONCE, NONE = "exactly-once", "none"
CREATE, PARTITIONS, REPLICAS, CONFIG = "topic.create", "topic.partitions", "topic.replication-factor", "topic.config."

_DELIVERY = (
    Option(
        GUARANTEE,
        one_of("at-least-once", EXACTLY_ONCE, NONE),
        "at-least-once: a micro-batch ends when brokers have its messages, and sends them again if it runs again. "
        "exactly-once: it is one transaction. none: it does not wait, and goes on where messages are lost.",
        "at-least-once",
        source=False,
        sink=True,
    ),
    Option(
        PREFIX,
        NAME,
        "The name of the transactions of exactly-once, by which a job that starts again ends those that it left open: "
        "each sink has one of its own.",
        source=False,
        sink=True,
    ),
)
PARTITIONER_OPTION = Option(
    PARTITIONER,
    one_of("default", "fixed", "round-robin"),
    "Which partition gets a message: that of its key, as by Java's clients, or any without a key; the same for all of "
    "a task; or each in turn.",
    "default",
    source=False,
    sink=True,
)
_TOPICS = (
    Option(
        CREATE, BOOLEAN, "A job that writes creates the topic if it does not exist.", "false", source=False, sink=True
    ),
    Option(PARTITIONS, integer(1), "How many partitions it gets; else as the brokers say.", source=False, sink=True),
    Option(
        REPLICAS,
        integer(1, 32_767),
        "How many brokers have each partition; else as the brokers say.",
        source=False,
        sink=True,
    ),
    Option(f"{CONFIG}#", STRING, "Any property of the topic, such as retention.ms.", source=False, sink=True),
)
WRITING_OPTIONS = (*_DELIVERY, *_TOPICS)
"""Options of both connectors."""


def writes_once(table: Table) -> bool:
    """True where each micro-batch is a transaction."""
    return (table.option(GUARANTEE) or "").strip().lower() == EXACTLY_ONCE


def prefix_of(table: Table) -> SharedName | None:
    """The name of a table's transactions, which no other sink of a query may have; None without transactions."""
    if not writes_once(table):
        return None
    hint = "Two sinks of one prefix would end the transactions of each other: give each one of its own."
    # Also of other brokers: the same ones may be named in another way.
    return SharedName(f"option '{PREFIX}' = '{table.option(PREFIX)}'", hint, table.option(PREFIX))


def check_writing(table: Table, spans: Mapping[str, Span], *, by_spark: bool) -> Iterable[Diagnostic]:
    """SS503 and SS504 for options of writing that need each other, or another client."""
    given = dict(table.options)
    if writes_once(table) and PREFIX not in given:
        message = f'"{GUARANTEE}" = \'{EXACTLY_ONCE}\' needs the option "{PREFIX}"'
        hint = f"Add '{PREFIX}' = '…', the same each time the job starts, and unlike that of any other sink."
        yield Diagnostic(MISSING_OPTION, message, spans.get(GUARANTEE), hint=hint)
    if PREFIX in given and not writes_once(table):
        message = f"option \"{PREFIX}\" needs '{GUARANTEE}' = '{EXACTLY_ONCE}'"
        hint = f"Add '{GUARANTEE}' = '{EXACTLY_ONCE}' to WITH."
        yield Diagnostic(MISSING_OPTION, message, spans.get(PREFIX), hint=hint)
    creates = given.get(CREATE, "").strip().lower() == "true"
    for key in given:
        if not creates and (key in (PARTITIONS, REPLICAS) or key.startswith(CONFIG)):
            message = f"option \"{key}\" needs '{CREATE}' = 'true'"
            yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint=f"Add '{CREATE}' = 'true' to WITH.")
    if creates and not _is_one_topic(given.get("topic")):
        message = f'option "{CREATE}" needs the name of one topic, the option "topic"'
        yield Diagnostic(WRONG_VALUE, message, spans.get(CREATE), hint="Write 'topic' = '…'.")
    for key in given if by_spark else ():
        waits = key == GUARANTEE and given[key].strip().lower() == "at-least-once"
        if key in (CREATE, PREFIX, GUARANTEE) and not waits:
            message = f'option "{key}" has no effect on Spark\'s connector'
            hint = "Leave it or 'kafka.client' = 'spark' out."
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint)
        if key == PARTITIONER and given[key].strip().lower() == "fixed":
            message = f'Spark\'s connector has no "{key}" = "fixed"'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Leave out 'kafka.client' = 'spark'.")


def _is_one_topic(topic: str | None) -> bool:
    return bool(topic) and ";" not in str(topic)


# --- what a job needs of it ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewTopic:
    """How a topic is made. ``config``: pairs of its properties."""

    partitions: int | None
    replicas: int | None
    config: tuple[tuple[str, str], ...]


def writing_properties(table: Table, values: Mapping[str, Any]) -> dict[str, str]:
    """librdkafka's properties of a table that is written. ``values``: its parsed and resolved options. SS577 without
    confluent-kafka, SS507 for tables of several topics.
    """
    if find_spec("confluent_kafka") is None:
        raise no_package(table.connector, "confluent-kafka")
    if not _is_one_topic(values["topic"]):
        message = f'table "{table.name}" cannot be written: it is not of one topic'
        raise ConnectorError(NOT_A_SINK, message, hint="Create a table for it with 'topic' = '…'.")
    return client_properties(values)


def new_topic(values: Mapping[str, Any], usual: Mapping[str, str] | None = None) -> NewTopic | None:
    """How a table's topic is made if it does not exist; None where it must exist. ``usual``: properties of the topic
    that the options may change.
    """
    if not values[CREATE]:
        return None
    config = {k.removeprefix(CONFIG): str(v) for k, v in values.items() if k.startswith(CONFIG) and "#" not in k}
    return NewTopic(values[PARTITIONS], values[REPLICAS], tuple(sorted({**(usual or {}), **config}.items())))


# --- topics -----------------------------------------------------------------------------------------------------

_SECONDS = 30
_NO_TOPIC = "SS590"


def require_topic(properties: Mapping[str, str], topic: str, creation: NewTopic | None) -> None:
    """Creates the topic if it does not exist and ``creation`` says how. ConnectorError SS590 where there is none, or
    where the brokers do not answer; SS679 where they do not create it.
    """
    from sqlstream.udfs.kafka.produce import producer_of  # Arrow

    producer = producer_of(properties)
    if _leaders(producer, properties, topic) is None:
        if creation is None:
            message = f'topic "{topic}" does not exist'
            hint = f"Create it, correct the option \"topic\", or let the job create it: '{CREATE}' = 'true'."
            raise ConnectorError(_NO_TOPIC, message, hint=hint)
        _create(producer, properties, topic, creation)


def _leaders(producer: Producer, properties: Mapping[str, str], topic: str) -> list[int] | None:
    """The broker that leads each partition of a topic, less than 0 where none does; None where there is no such topic.
    All are asked for, because brokers may create one that is asked for by name.
    """
    found = _asked(properties, lambda: producer.list_topics(timeout=_SECONDS)).topics.get(topic)
    return None if found is None else [partition.leader for partition in found.partitions.values()]


def _asked(properties: Mapping[str, str], ask: Callable[[], Any]) -> Any:
    from confluent_kafka import KafkaException  # an optional package

    from sqlstream.udfs.kafka.clients import unreachable

    try:
        return ask()
    except KafkaException as error:
        raise unreachable(properties, error) from None


NOT_CREATED = "SS679"


def _create(producer: Producer, properties: Mapping[str, str], topic: str, creation: NewTopic) -> None:
    from confluent_kafka import KafkaError, KafkaException  # an optional package
    from confluent_kafka.admin import NewTopic as Asked

    from sqlstream.udfs.kafka import admin
    from sqlstream.udfs.kafka.clients import reason_of
    from sqlstream.udfs.kafka.produce import common_properties

    asked = Asked(topic, creation.partitions or -1, creation.replicas or -1, config=dict(creation.config))
    client = admin.admin_of(None, common_properties(properties))
    try:
        client.create_topics([asked], operation_timeout=_SECONDS)[topic].result(_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # by another job, at this moment
            hint = f"Correct the options topic.… of the table, or create it and leave '{CREATE}' out."
            message = f'Kafka does not create topic "{topic}": {reason_of(error)}'
            raise ConnectorError(NOT_CREATED, message, hint=hint) from None
    finally:
        admin.close(client)
    deadline = time.monotonic() + _SECONDS
    while min(_leaders(producer, properties, topic) or [-1]) < 0:
        if time.monotonic() > deadline:
            message = f'topic "{topic}" was created, and its partitions have no leaders'
            raise ConnectorError(NOT_CREATED, message, hint="See whether enough brokers run.")
        time.sleep(0.05)
