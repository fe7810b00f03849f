"""``upsert-kafka``: a topic that holds the last row of each key, as in Flink.

The key of a message is the PRIMARY KEY as a JSON object or a row of CSV, the value is the whole row, and a message
without a value deletes the row of its key. Compaction by Kafka therefore does not change the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import BatchWriter, Environment, Source, UpsertSink
from sqlstream.connectors.formats import check_format, wrong_keys_of_json
from sqlstream.connectors.kafka import BOUNDED_MODE, CLIENT_OPTIONS
from sqlstream.connectors.kafka_messages import (
    FORMATS_OF_KEYS,
    METADATA,
    header_options,
    is_bounded,
    keys_of_upserts,
    spans_of_keys,
    start_options,
    target_options,
)
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, WRONG_VALUE, Option, one_of
from sqlstream.planner.catalog import UPSERT, Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


NEEDS_KEY = "SS666"

_OTHER_FORMATS = ("avro", "csv", "protobuf", "raw")


def _format(key: str, doc: str, *formats: str) -> Option:
    others = [name for name in _OTHER_FORMATS if name not in formats]
    return Option(key, one_of(*formats, planned=others), doc, required=True, sink=True)


_OPTIONS_OF_KEYS = tuple(
    option
    for option in FORMATS_OF_KEYS
    if option.key.startswith("key.csv.") and not option.key.endswith(("ignore-parse-errors", "allow-comments"))
)


class UpsertKafka(Source, UpsertSink):
    """Reads and writes by Spark's Kafka connector. ConnectorError SS509 without its jar."""

    name = "upsert-kafka"
    doc = (
        "A topic of Apache Kafka that holds the last row of each PRIMARY KEY: a message replaces the row of its key, "
        "one without a value deletes it."
    )
    options = (
        Option("topic", NAME, "The topic.", required=True, sink=True),
        *CLIENT_OPTIONS,
        _format("key.format", "How the key of a message is written: the columns of the PRIMARY KEY.", "json", "csv"),
        *_OPTIONS_OF_KEYS,
        _format("value.format", "How its value is: the row as a JSON object.", "json"),
        Option(
            "value.fields-include",
            one_of("ALL", planned=("except_key",)),
            "Which columns the value holds: all of them.",
            "ALL",
            sink=True,
        ),
        BOUNDED_MODE,
    )
    variables = ("properties.#", "properties.bootstrap.servers", "properties.group.id", "topic")

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Reads the topic from its beginning, as Flink does: later messages alone are not the whole table."""
        values = self.resolved_values(table)
        options = start_options({**values, "topic-pattern": None, "scan.startup.mode": "earliest-offset"})
        options |= header_options(table)
        messages = on_spark.kafka.messages_of(environment.spark, options)
        return on_spark.kafka.rows_of_upserts(messages, table, columns)

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """A micro-batch that runs again sends its messages again; the last message of each key is then the same."""
        on_spark.kafka.require_jar(environment.spark)
        options = target_options(self.resolved_values(table))
        return lambda batch, _: (
            on_spark.kafka.messages_of_upserts(batch, table).write.format("kafka").options(**options).save()
        )

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        if not table.primary_key:
            message = (
                f'table "{table.name}" of the connector "upsert-kafka" has no PRIMARY KEY, the key of its messages'
            )
            hint = "Declare PRIMARY KEY (…) NOT ENFORCED, or take the connector kafka for a topic of all rows."
            yield Diagnostic(NEEDS_KEY, message, spans.get("connector"), hint=hint)
        if table.changelog != UPSERT:
            message = 'option "changelog-mode" of the connector "upsert-kafka" is \'I,UA,D\': its messages replace rows'
            yield Diagnostic(WRONG_VALUE, message, spans.get("changelog-mode"), hint="Leave it out.")
        yield from wrong_keys_of_json(table)
        yield from check_format(keys_of_upserts(table), spans_of_keys(spans))

    def bounded(self, table: Table) -> bool:
        return is_bounded(table)

    def has_kinds(self, table: Table) -> bool:
        return True

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: type_ for key, (_, type_) in METADATA.items()}
