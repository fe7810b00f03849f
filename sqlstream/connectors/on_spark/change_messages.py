"""Change messages to rows with kinds, decoded by tasks, and back, by functions of Spark.

A message without text is a tombstone, which is skipped. What is in the others: ``formats.changes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.change_formats import (
    CHANGE_FORMATS,
    ChangeFormat,
    Metadata,
    Operation,
    change_format,
    of_message,
)
from sqlstream.connectors.formats import quoted, records_columns, writing
from sqlstream.connectors.on_spark.messages import as_variants, decoded
from sqlstream.connectors.on_spark.records import json_columns
from sqlstream.formats import changes
from sqlstream.formats.changes import ChangeDecoder, Envelope
from sqlstream.formats.decoder import Field
from sqlstream.formats.json_records import with_raw_json
from sqlstream.planner.bad_rows import tolerates_bad_rows
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.types import parse_type
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.messages import MessageRows

_DEBEZIUM = "debezium-json"
_CODES = {
    Operation.INSERT: changes.INSERT,
    Operation.UPDATE: changes.UPDATE,
    Operation.DELETE: changes.DELETE,
    Operation.SKIPPED: changes.SKIPPED,
}


def decode_changes(
    messages: DataFrame,
    value: str,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    keep: Mapping[str, SparkColumn],
    position: SparkColumn | None,
    *,
    of_files: bool = False,
) -> DataFrame:
    """Decodes change messages, such as Debezium's, into rows with the named columns and ROW_KIND. An update gives two
    rows.

    ``value``: the column of ``messages`` with their text. ``values``: the parsed options of the table. ``keep``:
    further columns of the result, by name, as expressions over ``messages``. ``position``: where a message is in the
    source, for errors; ``of_files``: it is the URL of a file. If the table tolerates bad rows, the result has the
    column BAD.
    """
    form = change_format(table)
    assert form is not None, "a table of changes"
    zone = str(messages.sparkSession.conf.get("spark.sql.session.timeZone"))
    metadata = {c.name: m for c in table.columns if (m := of_message(table, c)) is not None}
    decoder = change_decoder(form, table, columns, values, zone, metadata.values())
    texts = messages.where(~F.col(value).rlike(r"^\s*$") & _included(form, F.col(value), values))
    reader = MessageRows(decoder, tolerates_bad_rows(table), of_files=of_files)
    rows = decoded(texts, F.col(value), reader, keep, position)
    kinds = {c.name: c.type for c in table.columns}

    def column(name: str) -> SparkColumn:
        if name in metadata:
            return _metadata(metadata[name]).cast(kinds[name].ddl()).alias(name)
        return as_variants(name, kinds[name]).alias(name)

    # A message that cannot be read changes no row, but stands in one.
    kind = F.coalesce(F.col(ROW_KIND), F.lit(RowKind.INSERT.value)).alias(ROW_KIND)
    bad = [F.col(BAD)] if reader.tolerant else []
    return rows.select(*map(column, columns), *(F.col(quoted(name)) for name in keep), *bad, kind)


def change_decoder(
    form: ChangeFormat,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    zone: str,
    metadata: Iterable[Metadata] = (),
) -> ChangeDecoder:
    """Returns the decoder of the messages of a table. ``metadata``: the fields of the envelope that columns hold."""
    nested = bool(values.get(form.key("schema-include")))
    debezium = form.name == _DEBEZIUM
    envelope = Envelope(
        form.operation,
        tuple((word, _CODES[meant]) for word, meant in form.operations.items()),
        form.after,
        form.before,
        form.lists,
        form.old,
        form.ddl,
        nested,
        " (schema-include says whether it is within a payload)" if debezium else "",
        ", and neither a schema nor debezium-json.time-unit fits it" if debezium else "",
    )
    paths = {m.path: m.read for m in metadata}
    return ChangeDecoder(
        tuple(Field(c.name, with_raw_json(c.type), c.name in columns) for c in records_columns(table)),
        envelope,
        ROW_KIND,
        tuple((_of_envelope(path), Field(path, parse_type(read))) for path, read in paths.items()),
        RowKind.UPDATE_BEFORE in table.changelog,
        bool(values[form.key("ignore-parse-errors")]),
        values[form.key("timestamp-format.standard")],
        zone,
        debezium and nested,
        values.get(form.key("time-unit")),
    )


def _of_envelope(path: str) -> str:
    """The name of the column of a field of the envelope."""
    return f"__envelope_{path}"


def _metadata(metadata: Metadata) -> SparkColumn:
    return F.expr(metadata.sql.format(quoted(_of_envelope(metadata.path))))


def _included(form: ChangeFormat, text: SparkColumn, values: Mapping[str, Any]) -> SparkColumn:
    """False for messages of databases and tables that the options leave out: other rows are in them."""
    patterns = ((values[form.key(key)], name) for key, name in form.include.items())
    conditions = [
        F.coalesce(F.rlike(F.get_json_object(text, f"$.{name}"), F.lit(rf"^(?:{pattern})\z")), F.lit(True))
        for pattern, name in patterns
        if pattern is not None
    ]
    return reduce(and_, conditions, F.lit(True))


# --- writing --------------------------------------------------------------------------------------------------


def encode_changes(rows: DataFrame, values: Mapping[str, Any]) -> SparkColumn:
    """Returns an expression that encodes each row as one change message. Without the column ROW_KIND all rows are
    inserts. ``values``: the parsed options of the table.

    As in Flink, +U is written as an insert and -U as a delete, because a message has no link to the other half.
    """
    form: ChangeFormat = CHANGE_FORMATS[values["format"]]
    row = F.struct(*json_columns(rows.drop(ROW_KIND), values))
    kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit(RowKind.INSERT.value)
    retracted = kind.isin(RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)
    came, went = form.written
    operation = F.when(retracted, F.lit(went)).otherwise(F.lit(came)).alias(form.operation)
    if form.old:
        fields = [(F.array(row) if form.lists else row).alias(form.after), operation]
    else:
        fields = [F.when(retracted, row).alias(form.before), F.when(~retracted, row).alias(form.after), operation]
    return F.to_json(F.struct(*fields), writing(values))
