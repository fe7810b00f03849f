"""``sqlstream topics``: what the topics of Kafka hold, how far a consumer group has come, and the last messages."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing

import click
import pyarrow as pa

from sqlstream.cli.output import working, writer_for
from sqlstream.connectors.kafka.client import PREFIX, client_properties
from sqlstream.connectors.kafka.source import require_librdkafka
from sqlstream.sources.kafka.brokers import Brokers
from sqlstream.sources.kafka.offsets import Bound, TopicSettings
from sqlstream.udfs.kafka.fetch import RANGES, FetchedMessages
from sqlstream.udfs.kafka.fetched import PARTITION, TOPIC

_COLUMNS = ("topic", "partition", "begin", "end", "messages")
_OF_GROUP = ("committed", "lag")
_OF_MESSAGES = (TOPIC, PARTITION, "offset", "timestamp", "key", "headers", "value")


def topics_command(
    brokers: str,
    topics: tuple[str, ...],
    group: str | None,
    messages: int | None,
    properties: tuple[str, ...],
    output: str,
) -> None:
    """Prints a row for each partition, or for each of its last ``messages``. ConnectorError SS577 without
    confluent-kafka, SS590 where brokers do not answer, or a topic does not exist.
    """
    if messages is not None and (group is not None or not topics):
        raise click.UsageError("--messages needs a TOPIC" if group is None else "--messages excludes --group")
    settings = _settings(brokers, topics, group, properties)
    with working("asking the brokers"):
        rows = [*(_rows(settings) if messages is None else _last_messages(settings, messages))]
    names = _COLUMNS if group is None else (*_COLUMNS, *_OF_GROUP)
    names = names if messages is None else _OF_MESSAGES
    writer = writer_for(output, names, sys.stdout)
    writer.write([row[: len(names)] for row in rows])
    writer.close()


def _settings(brokers: str, topics: tuple[str, ...], group: str | None, properties: Iterable[str]) -> TopicSettings:
    given = {f"{PREFIX}bootstrap.servers": brokers}
    for pair in properties:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f'--property "{pair}" is no NAME=VALUE')
        given[f"{PREFIX}{name.strip().removeprefix(PREFIX)}"] = value
    require_librdkafka()
    return TopicSettings(
        properties=client_properties(given),
        topics=topics,
        pattern=None if topics else ".*",
        group=group,
        start=Bound("earliest-offset"),
        stop=None,
        reset="none",
        most=None,
        discovery_ms=0,
        skips_lost=False,
    )


def _rows(settings: TopicSettings) -> Iterator[tuple[object, ...]]:
    with closing(Brokers(settings)) as brokers:
        held = brokers.held()
    for (topic, number), begin, end, committed in held:
        lag = None if committed is None else max(0, end - committed)
        yield topic, number, begin, end, end - begin, committed, lag


def _last_messages(settings: TopicSettings, most: int) -> Iterator[tuple[object, ...]]:
    """The last messages of each partition, in the order of their offsets: ``most``, or fewer where transactions end."""
    with closing(Brokers(settings)) as brokers:
        held = [p for p in brokers.held() if p.begin < p.end]
    last = [(p.partition.topic, None, p.partition.number, max(p.begin, p.end - most), p.end, None) for p in held]
    if not last:
        return
    columns = [pa.array(values, f.type) for values, f in zip(zip(*last, strict=True), RANGES, strict=True)]
    fetched = FetchedMessages(settings.properties, _OF_MESSAGES, skips_lost=True)
    found = [
        row for batch in fetched.rows([pa.RecordBatch.from_arrays(columns, schema=RANGES)]) for row in batch.to_pylist()
    ]
    for row in sorted(found, key=lambda row: (row[TOPIC], row[PARTITION], row["offset"])):
        headers = row["headers"] and [[header["key"], _text(header["value"])] for header in row["headers"]]
        shown = {**row, "key": _text(row["key"]), "value": _text(row["value"]), "headers": headers or None}
        yield tuple(shown[name] for name in _OF_MESSAGES)


def _text(content: bytes | None) -> str | bytes | None:
    """The text that bytes are; the bytes where they are none."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return content
