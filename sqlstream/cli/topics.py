"""``sqlstream topics``: what the topics of Kafka hold, and how far a consumer group has come."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing

import click

from sqlstream.cli.output import working, writer_for
from sqlstream.connectors.kafka.brokers import Brokers
from sqlstream.connectors.kafka.client import PREFIX, client_properties
from sqlstream.connectors.kafka.connector import require_librdkafka
from sqlstream.connectors.kafka.offsets import Bound, TopicSettings

_COLUMNS = ("topic", "partition", "begin", "end", "messages")
_OF_GROUP = ("committed", "lag")


def topics_command(
    brokers: str, topics: tuple[str, ...], group: str | None, properties: tuple[str, ...], output: str
) -> None:
    """Prints a row for each partition. ConnectorError SS577 without confluent-kafka, SS590 where brokers do not answer,
    or a topic does not exist.
    """
    settings = _settings(brokers, topics, group, properties)
    with working("asking the brokers"):
        rows = [*_rows(settings)]
    names = _COLUMNS if group is None else (*_COLUMNS, *_OF_GROUP)
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
