"""``upsert-kafka``: a topic that holds the last row of each key, as in Flink.

The key of a message is the PRIMARY KEY as a JSON object or a row of CSV, the value is the whole row, and a message
without a value deletes the row of its key. Compaction by Kafka therefore does not change the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.connector import BatchWriter, Environment, Source, UpsertSink
from sqlstream.connectors.formats import (
    check_format,
    decode,
    encode,
    encode_object,
    quoted,
    reading,
    schema_ddl,
    writing,
    wrong_keys_of_json,
)
from sqlstream.connectors.kafka import (
    BOUNDED_MODE,
    CLIENT_OPTIONS,
    METADATA,
    header_options,
    is_bounded,
    metadata_columns,
    place_of_message,
    require_jar,
    start_options,
    target_options,
)
from sqlstream.connectors.message_keys import FORMATS_OF_KEYS, key_values, keys_alone, spans_of_keys
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, WRONG_VALUE, Option, one_of
from sqlstream.planner.bad_rows import BAD
from sqlstream.planner.catalog import UPSERT, RowKind, Table
from sqlstream.types import DataType
from sqlstream.udfs.kernel import ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

NEEDS_KEY = "SS666"

_JSON: Mapping[str, Any] = {"format": "json", "json.timestamp-format.standard": None}
_GONE = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
_OTHER_FORMATS = ("avro", "csv", "protobuf", "raw")


def _keys(table: Table) -> Table:
    """A table of the PRIMARY KEY, in the format of keys."""
    return keys_alone(table, [(name, name) for name in table.primary_key])


def rows_of_messages(messages: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
    """The columns of the table and ROW_KIND from Spark's columns of messages. A row of kind -D has only the key."""
    from pyspark.sql import functions as F

    kind = F.when(F.col("value").isNull(), RowKind.DELETE.value).otherwise(RowKind.UPDATE_AFTER.value)
    keep = {**metadata_columns(table, columns), ROW_KIND: kind}
    texts = messages.withColumn("__row_text", F.coalesce(F.col("value").cast("string"), _key_text(table)))
    payload = tuple(name for name in columns if name not in keep)
    rows = decode(texts, "__row_text", table, payload, _JSON, keep, place_of_message())
    extra = [name for name in (BAD, ROW_KIND) if name in rows.columns]
    return rows.select(*(F.col(quoted(name)) for name in (*columns, *extra)))


def _key_text(table: Table) -> SparkColumn:
    """The key as a JSON object. Unreadable fields of CSV become NULL, which a PRIMARY KEY does not allow."""
    from pyspark.sql import functions as F

    text, values = F.col("key").cast("string"), key_values(table)
    if values["format"] == "json":
        return text
    row = F.from_csv(text, schema_ddl(_keys(table).columns), reading(values))
    return F.to_json(row, writing({**_JSON, "json.encode.ignore-null-fields": False}))


def messages_of_rows(rows: DataFrame, table: Table) -> DataFrame:
    """A message per change, in order by key: the row, or NULL where it is deleted or replaced by the next message."""
    from pyspark.sql import functions as F

    keys = [F.col(quoted(name)) for name in table.primary_key]
    together = rows.repartition(*keys)
    values: Mapping[str, Any] = {**_JSON, "json.encode.ignore-null-fields": False}
    row = encode_object(together.select(*(F.col(quoted(c.name)) for c in table.physical_columns)), values)
    if ROW_KIND in rows.columns:
        row = F.when(~F.col(ROW_KIND).isin(*_GONE), row)
    of_key = key_values(table)
    key = encode(together.select(*keys), values if of_key["format"] == "json" else of_key)
    return together.select(key.alias("key"), row.alias("value"))


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
        require_jar(environment.spark)
        values = self.resolved_values(table)
        options = start_options({**values, "topic-pattern": None, "scan.startup.mode": "earliest-offset"})
        options |= header_options(table)
        messages = environment.spark.readStream.format("kafka").options(**options).load()
        return rows_of_messages(messages, table, columns)

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """A micro-batch that runs again sends its messages again; the last message of each key is then the same."""
        require_jar(environment.spark)
        options = target_options(self.resolved_values(table))
        return lambda batch, _: messages_of_rows(batch, table).write.format("kafka").options(**options).save()

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
        yield from check_format(_keys(table), spans_of_keys(spans))

    def bounded(self, table: Table) -> bool:
        return is_bounded(table)

    def has_kinds(self, table: Table) -> bool:
        return True

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: type_ for key, (_, type_) in METADATA.items()}
