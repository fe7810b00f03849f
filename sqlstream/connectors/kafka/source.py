"""What the options of a table of Kafka say of reading: who reads, where a table begins and ends, and how much of it a
micro-batch has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from sqlstream.connectors.change_formats import CHANGE_FORMATS
from sqlstream.connectors.connector import NOT_REAL_TIME
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.tables import BYTES_PER_TRIGGER
from sqlstream.connectors.kafka.client import COMMITS, PREFIX, check_properties, client_properties
from sqlstream.connectors.kafka.messages import (
    FORMAT,
    FORMAT_OF_VALUES,
    METADATA,
    REFUSED_OF_PARTS,
    is_bounded,
    only_in_keys,
    table_of_keys,
    table_of_values,
)
from sqlstream.connectors.schema_formats import DEBEZIUM_AVRO, has_schema
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import (
    BOOLEAN,
    DURATION,
    MISSING_OPTION,
    NAME,
    SIZE,
    STRING,
    WRONG_VALUE,
    Option,
    OptionKind,
    integer,
    one_of,
    wrong_pattern,
)
from sqlstream.planner.catalog import Table
from sqlstream.sources.kafka.offsets import Bound, TopicSettings, specific_offsets
from sqlstream.spark.java import memory_limit, share_of_micro_batches
from sqlstream.types import DataType
from sqlstream.udfs.kafka.tokens import FUNCTION
from sqlstream.udfs.lookup.sources.clients import no_package

CLIENT, LIBRDKAFKA = "kafka.client", "librdkafka"
_GROUP, _RESET = "properties.group.id", "properties.auto.offset.reset"
_COMMITS = f"{PREFIX}{COMMITS}"
_MOST = "source.max-rows-per-trigger"

TOKENS = f"{PREFIX}{FUNCTION}"


def _function(text: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", text.strip()):
        raise ValueError(text)
    return text.strip()


CLIENT_OPTIONS = (
    Option("properties.bootstrap.servers", NAME, "The brokers, host:port, with commas.", required=True, sink=True),
    Option(
        "properties.group.id",
        NAME,
        "The consumer group whose offsets are committed, so that its lag is seen; the job goes on from its checkpoint.",
    ),
    Option(_COMMITS, BOOLEAN, "Whether they are committed, when their micro-batch is written.", "true"),
    Option(
        "properties.auto.offset.reset",
        one_of("earliest", "latest", "none"),
        "Where partitions begin that lack the offset of the start: one that the group has not committed, or one out of "
        "range; none fails.",
    ),
    Option(
        TOKENS,
        OptionKind("function", "a function of Python, 'package.module:name'", _function),
        "A function that gives tokens to log in with OAUTHBEARER.",
        sink=True,
    ),
    Option("properties.#", STRING, "Any other property of the Kafka client.", sink=True),
)
_OFFSETS = OptionKind("offsets", "offsets such as 'partition:0,offset:42;partition:1,offset:300'", specific_offsets)
STARTUP_OPTIONS = (
    Option(
        "scan.startup.mode",
        one_of("latest-offset", "earliest-offset", "group-offsets", "timestamp", "specific-offsets"),
        "Where a job without checkpoint begins.",
        "latest-offset",
    ),
    Option("scan.startup.timestamp-millis", integer(), "Where the mode timestamp begins, in ms since 1970."),
    Option(
        "scan.startup.specific-offsets",
        _OFFSETS,
        "Where the mode specific-offsets begins; partitions that are not named begin at their earliest.",
    ),
)
BOUNDED_OPTIONS = (
    Option(
        "scan.bounded.mode",
        one_of("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        "Where the table ends: at what is there when the job starts, at what the consumer group has committed, before "
        "a time, or before offsets.",
        "unbounded",
    ),
    Option("scan.bounded.timestamp-millis", integer(), "Where the bounded mode timestamp ends, in ms since 1970."),
    Option(
        "scan.bounded.specific-offsets",
        _OFFSETS,
        "The first offset of each partition that is not read; of partitions that are not named nothing is read.",
    ),
)
READING_OPTIONS = (
    Option(
        CLIENT,
        one_of(LIBRDKAFKA, "spark"),
        "Who reads and writes: tasks with librdkafka, or Spark's connector, whose jar must be on Spark's class path.",
        LIBRDKAFKA,
        sink=True,
    ),
    Option(
        "on-data-loss",
        one_of("fail", "skip"),
        "What happens where messages are gone before they were read: the job fails, or goes on with a warning.",
        "fail",
    ),
    Option(
        _MOST,
        integer(1),
        "A micro-batch reads at most so many messages, of each partition in proportion to what waits there. Not given, "
        "2 million, and less on machines or in containers with less than 16 GB of memory.",
    ),
    Option(
        BYTES_PER_TRIGGER,
        SIZE,
        "A micro-batch reads about so many bytes of keys and values at most, by the size that a few of its messages "
        "have. Not given, 512 mb, and less with less than 16 GB of memory.",
    ),
    Option(
        "scan.topic-partition-discovery.interval",
        DURATION,
        "How often new topics and partitions are looked for; Spark's connector does in each micro-batch.",
        "10 s",
    ),
)
"""Options of both connectors, as those before are, but for STARTUP_OPTIONS."""


def _bound(values: Mapping[str, Any], when: str) -> dict[str, Any]:
    return {
        "mode": values[f"scan.{when}.mode"],
        "millis": values.get(f"scan.{when}.timestamp-millis"),
        "offsets": values.get(f"scan.{when}.specific-offsets") or {},
    }


def require_librdkafka() -> None:
    """Raises ConnectorError SS577 where confluent-kafka is not installed."""
    if find_spec("confluent_kafka") is None:
        raise no_package("kafka", "confluent-kafka")


def topic_settings(values: Mapping[str, Any]) -> TopicSettings:
    """Returns which messages a table has, by its parsed and resolved options. SS577 without confluent-kafka."""
    require_librdkafka()
    stop, share = _bound(values, "bounded"), share_of_micro_batches(memory_limit())
    return TopicSettings(
        properties=client_properties(values),
        topics=tuple(name.strip() for name in (values["topic"] or "").split(";") if name.strip()),
        pattern=values["topic-pattern"],
        group=values[_GROUP],
        commits=values[_COMMITS],
        start=Bound(**_bound(values, "startup")),
        stop=None if stop["mode"] == "unbounded" else Bound(**stop),
        reset=values[_RESET] or "none",
        most=values[_MOST] or int(_USUAL_MESSAGES * share),
        most_bytes=values[BYTES_PER_TRIGGER] or int(_USUAL_BYTES * share),
        discovery_ms=values["scan.topic-partition-discovery.interval"],
        skips_lost=values["on-data-loss"] == "skip",
    )


_FEWEST = 1000
_USUAL_MESSAGES, _USUAL_BYTES = 2_000_000, 512 << 20


def settings_of_job(environment: Environment, values: Mapping[str, Any]) -> TopicSettings:
    """The settings of a table for a job. Where a few rows end the query, its micro-batches read few messages."""
    settings = replace(topic_settings(values), wanted_ms=environment.wanted_ms)
    first = environment.first_rows
    return settings if first is None else replace(settings, most=min(settings.most or first, max(first, _FEWEST)))


def check_reading(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS503 and SS504 for options of reading that need each other, or another client."""
    given = dict(table.options)
    by_spark = reads_by_spark(table)
    for when in ("startup", "bounded"):
        key = f"scan.{when}.mode"
        mode = given.get(key, "").strip().lower()
        for needed, name in (("timestamp", "timestamp-millis"), ("specific-offsets", "specific-offsets")):
            other = f"scan.{when}.{name}"
            if (mode == needed) != (other in given):
                message = f'option "{other}" and "{key}" = "{needed}" need each other'
                yield Diagnostic(WRONG_VALUE, message, spans.get(other) or spans.get(key))
        if mode == "group-offsets" and _GROUP not in given:
            message = f'"{key}" = "group-offsets" needs the option "{_GROUP}"'
            yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint=f"Add '{_GROUP}' = '…' to WITH.")
        known = ("", "earliest-offset", "latest-offset", *(("timestamp",) if when == "startup" else ("unbounded",)))
        if by_spark and mode not in known:
            message = f'Spark\'s connector has no "{key}" = "{mode}"'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=f"Leave out '{CLIENT}' = 'spark'.")
        if mode == "specific-offsets" and (";" in given.get("topic", "") or "topic-pattern" in given):
            message = f'"{key}" = "specific-offsets" goes with one topic alone'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Its offsets name partitions, not topics.")
    if by_spark:
        for key in ("on-data-loss", _MOST, BYTES_PER_TRIGGER, TOKENS):
            if key in given:
                hint = f"Leave it or '{CLIENT}' = 'spark' out."
                message = f'option "{key}" has no effect on Spark\'s connector'
                yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint)
    else:
        yield from check_properties(given, spans)
        yield from _wrong_pattern(given.get("topic-pattern", ""), spans.get("topic-pattern"))


def _wrong_pattern(pattern: str, span: Span | None) -> Iterable[Diagnostic]:
    """SS504 for a regular expression of Java that Python, which looks for the topics, does not have."""
    why = wrong_pattern(pattern)
    if why is not None:
        message = f'option "topic-pattern" is no regular expression of Python, which looks for topics: {why}'
        hint = f"Spell it otherwise, such as [A-Za-z] for \\p{{Alpha}}, or add '{CLIENT}' = 'spark' for those of Java."
        yield Diagnostic(WRONG_VALUE, message, span, hint=hint)


def metadata_of_messages(table: Table) -> dict[str, DataType]:
    return {key: type_ for key, (_, type_) in METADATA.items() if not (reads_by_spark(table) and key == "leader-epoch")}


def reads_by_spark(table: Table) -> bool:
    return (table.option(CLIENT) or "").strip().lower() == "spark"


def of_python(table: Table, *, written: bool) -> Diagnostic | None:
    """SS369 for what of reading or writing a table of either connector is not Java's work."""
    if not reads_by_spark(table):
        message = f'table "{table.name}" is read and written by Python tasks, which real-time mode does not call'
        return Diagnostic(NOT_REAL_TIME, message, hint=f"Add '{CLIENT}' = 'spark' to WITH.")
    if is_bounded(table) and not written:
        message = f'table "{table.name}" has an end, which real-time mode does not have'
        return Diagnostic(NOT_REAL_TIME, message, hint="Leave 'scan.bounded.mode' out.")
    for key in ("format", FORMAT_OF_VALUES, FORMAT):
        form = (table.option(key) or "").strip().lower()
        by_tasks = has_schema(form) or form == DEBEZIUM_AVRO or (form in CHANGE_FORMATS and not written)
        if by_tasks and (key != FORMAT or written or only_in_keys(table)):
            message = f'"{key}" = "{form}" is the work of Python tasks, which real-time mode does not call'
            return Diagnostic(NOT_REAL_TIME, message, hint="Take 'json', 'csv' or 'raw'.")
    return None if written else _of_numbers(table)


def _of_numbers(table: Table) -> Diagnostic | None:
    """SS369 for raw values or keys that are numbers, which Java does not read."""
    for part in (table_of_values(table), *([table_of_keys(table)] if only_in_keys(table) else [])):
        others = (c for c in part.physical_columns if c.type.name not in ("STRING", "BINARY"))
        if (part.option("format") or "").strip().lower() == "raw" and (column := next(others, None)) is not None:
            message = f'raw column "{column.name}" is a number, which real-time mode does not read'
            hint = "Declare the column STRING or BYTES, or write it as json or csv."
            return Diagnostic(NOT_REAL_TIME, message, hint=hint)
    return None


REFUSED = REFUSED_OF_PARTS | {
    "scan.parallelism": "Leave it out: 'parallelism.default' says how many tasks there are.",
    "sink.transaction-naming-strategy": "Leave it out: 'sink.transactional-id-prefix' names transactions.",
}
