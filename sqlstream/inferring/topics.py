"""What topics of Kafka hold: the last messages of each partition, as JSON, CSV, text, or by a schema of a registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from urllib.parse import unquote, urlsplit

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.kafka.client import PREFIX, client_properties
from sqlstream.connectors.kafka.source import require_librdkafka
from sqlstream.errors import ConnectorError
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.schema_columns import columns_of_schema
from sqlstream.formats.schema_registry import AVRO, JSON, PROTOBUF, Registry
from sqlstream.grammar.quoting import quote_name
from sqlstream.inferring.proposal import NO_SAMPLE, Sample
from sqlstream.inferring.texts import form_of
from sqlstream.inferring.types import InferredColumn
from sqlstream.secrets import secret_texts
from sqlstream.sources.kafka.brokers import Brokers
from sqlstream.sources.kafka.offsets import Bound, TopicSettings
from sqlstream.udfs.kafka.fetched import PARTITION, TOPIC, Slot
from sqlstream.udfs.kafka.reader import Span
from sqlstream.udfs.kafka.samples import sample

_FORMATS = {AVRO: "avro-confluent", PROTOBUF: "protobuf-confluent", JSON: "json-confluent"}
_HEADER = 5
_ADDRESS = "kafka://host:9092/topic"
_KEY = "message_key"


def address_of(text: str) -> tuple[str, str]:
    """The brokers and the topic of ``kafka://host:9092,host:9092/topic``. ConnectorError SS590 for another text."""
    parts = urlsplit(text)
    topic = unquote(parts.path.strip("/"))
    if not parts.netloc or not topic or "/" in topic:
        what = "has no topic" if parts.netloc and not topic else "is no address of a topic"
        raise ConnectorError(
            NO_SAMPLE, f'"{text}" {what}', hint=f"Write {_ADDRESS}; sqlstream topics host:9092 lists the topics."
        )
    return parts.netloc, topic


def sample_of_topic(
    text: str,
    properties: Mapping[str, str],
    registry: str | None,
    format: str | None,  # noqa: A002
    most: int,
) -> Sample:
    """What is seen of the last messages of a topic, ``most`` at most. ``properties``: those of the client.

    ConnectorError SS590 where brokers do not answer, there is no such topic, or nothing in it, SS505 where the messages
    are bytes of which nothing is known, SS577 without confluent-kafka, SS598 and SS599 as registries answer.
    """
    brokers, topic = address_of(text)
    given = {f"{PREFIX}bootstrap.servers": brokers, **{f"{PREFIX}{key}": value for key, value in properties.items()}}
    options = {"connector": "kafka", "topic": topic, **_shown(given), "scan.startup.mode": "earliest-offset"}
    keys, values = _last(_settings(given, topic), most)
    if not values:
        hint = "Send one first; where a registry has its schema, leave the columns of CREATE TABLE out instead."
        raise ConnectorError(NO_SAMPLE, f'topic "{topic}" has no messages with values', hint=hint)
    seen = f"the last {len(values):,} messages" if len(values) > 1 else "one message"
    seen = f'{seen} of topic "{topic}"'
    if format is None and all(value[:1] == b"\0" and len(value) > _HEADER for value in values):
        return _by_registry(values, registry, options, seen)
    texts = _texts(values, topic)
    form = form_of(texts, format=format)
    more, of_keys = ([], {}) if form.format == "debezium-json" else _keys(keys, texts, form.columns)
    named = {"value.format": form.format, **of_keys} if of_keys else {"format": form.format}
    return Sample(form.columns, {**options, **named, **form.options}, seen, tuple(more), True, form.notes)


def _shown(given: Mapping[str, str]) -> dict[str, str]:
    """The properties as the statement has them: a variable in place of a secret."""
    return {key: _variable(key) if secret_texts(key, value) else value for key, value in given.items()}


def _variable(key: str) -> str:
    name = key.removeprefix(PREFIX).replace(".", "_").upper()
    return f"${{KAFKA_{name}}}"


# --- messages ---------------------------------------------------------------------------------------------------


def _settings(given: Mapping[str, str], topic: str) -> TopicSettings:
    require_librdkafka()
    return TopicSettings(
        client_properties(given), (topic,), None, None, Bound("earliest-offset"), None, "none", None, 0,
        skips_lost=True,
    )  # fmt: skip


def _last(settings: TopicSettings, most: int) -> tuple[list[bytes | None], list[bytes]]:
    """Keys and values of the last messages, those of a partition in their order."""
    with closing(Brokers(settings)) as brokers:
        held = [p for p in brokers.held() if p.begin < p.end]
    share = -(-most // max(1, len(held)))
    last: dict[Slot, Span] = {p.partition: Span(max(p.begin, p.end - share), p.end) for p in held}
    keys: list[bytes | None] = []
    values: list[bytes] = []
    for messages in sample(settings.properties, ("key", "value", TOPIC, PARTITION), last):
        for key, value in zip(messages.column("key").to_pylist(), messages.column("value").to_pylist(), strict=True):
            if value and value.strip():
                keys.append(key)
                values.append(value)
    return keys[:most], values[:most]


def _texts(values: Iterable[bytes], topic: str) -> list[str]:
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError:
        message = f'messages of topic "{topic}" are bytes that say nothing of their columns'
        hint = (
            "Declare the columns, with 'format' = 'avro' and 'avro.schema', or 'protobuf' and 'protobuf.descriptor'; "
            "only messages of a schema registry say which schema they have."
        )
        raise ConnectorError(WRONG_COLUMN, message, hint=hint) from None


def _keys(
    keys: Sequence[bytes | None], values: Sequence[str], columns: Sequence[InferredColumn]
) -> tuple[list[str], dict[str, str]]:
    """A column for keys that are texts and no field of the value, and its options; none where there are no keys."""
    texts = [key.decode(errors="replace") for key in keys if key is not None]
    known = {column.name.casefold() for column in columns}
    if len(texts) < len(keys) or not texts or any("\ufffd" in text or text[:1] == "{" for text in texts):
        return [], {}
    if any([str(value) for value in column.values] == texts for column in columns) or _KEY in known:
        return [], {}
    options = {"key.format": "raw", "key.fields": _KEY, "value.fields-include": "EXCEPT_KEY"}
    return [f"{quote_name(_KEY)} STRING"], options


# --- messages of a registry -------------------------------------------------------------------------------------


def _by_registry(values: Sequence[bytes], registry: str | None, options: Mapping[str, str], seen: str) -> Sample:
    numbers = sorted({int.from_bytes(value[1:_HEADER], "big") for value in values})
    if registry is None:
        message = f"messages begin with the id of a schema ({numbers[-1]}), which a schema registry has"
        hint = "Say where it is: --registry http://host:8081."
        raise ConnectorError(WRONG_COLUMN, message, hint=hint)
    server = replace(Registry((registry,)), patience=5.0)
    schema = server.schema(numbers[-1])
    if schema is None:
        message = f'schema registry "{server.shown}" knows no schema with the id {numbers[-1]}'
        raise ConnectorError(WRONG_COLUMN, message, hint="Look whether it is the one that the producers use.")
    try:
        columns = columns_of_schema(schema)
    except SchemaError as error:
        message = f"schema {schema.id} of the registry {error}"
        raise ConnectorError(WRONG_COLUMN, message, hint="Declare the columns that are wanted.") from None
    form = _FORMATS[schema.kind]
    notes = ("Messages have several schemas; the newest one gives the columns.",) if any(pairwise(numbers)) else ()
    made = [InferredColumn(name, kind, True, ()) for name, kind in columns]
    return Sample(made, {**options, "format": form, f"{form}.url": server.shown}, seen, (), True, notes)
