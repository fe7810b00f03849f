"""Change messages to rows with kinds, and back, by functions of Spark.

As in Flink's ``DebeziumJsonDeserializationSchema`` and the like, a message is a change of one row, or of several rows
in ``canal-json``, and an update is -U and +U. A message without text is a tombstone, which is skipped. A message that
cannot be read is bad as a whole, so that no half of an update is applied. Numbers may be spelled as texts, as
``canal-json`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.change_formats import CHANGE_FORMATS, ChangeFormat, Operation, change_format, of_message
from sqlstream.connectors.formats import CORRUPT, quoted, reading, records_columns, timestamp_pattern, writing
from sqlstream.connectors.on_spark import debezium_types
from sqlstream.connectors.on_spark.records import as_boolean, as_time, goes_on, json_columns, shown, without_bad
from sqlstream.planner.bad_rows import tolerates_bad_rows
from sqlstream.planner.catalog import Column, RowKind, Table
from sqlstream.types import DataType
from sqlstream.udfs.bad_records import BAD, BAD_ROW
from sqlstream.udfs.kernel import ROW_KIND

_MESSAGE, _TEXT, _PLACE, _CHANGE, _ERROR = "__message", "__text", "__place", "__change", "__error"
_LOGICAL = "__logical"

_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN"})
_TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_NTZ"})
_LOGICALS = _TIMES | {"DATE", "TIME", "DECIMAL"}
_LOGICAL_TYPE = "STRUCT<name: STRING, scale: STRING>"
_AS_TEXT = _NUMBERS | _TIMES | {"DATE"}
"""Types that are read as text and converted then. Spark reads a DECIMAL from numbers and texts, each exactly."""


def decode_changes(
    messages: DataFrame,
    value: str,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    keep: Mapping[str, SparkColumn],
    position: SparkColumn | None,
) -> DataFrame:
    """Decodes change messages, such as Debezium's, into rows with the named columns and ROW_KIND. An update gives two
    rows.

    ``value``: the column of ``messages`` with their text. ``values``: the parsed options of the table. ``keep``:
    further columns of the result, by name, as expressions over ``messages``. ``position``: where a message is in the
    source, for errors. If the table tolerates bad rows, the result has the column BAD.
    """
    form = change_format(table)
    assert form is not None, "a table of changes"
    reader = _Reader(form, table, values)
    kept = [column.alias(f"__kept{i}") for i, column in enumerate(keep.values())]
    where = (F.lit(None) if position is None else position).cast("STRING").alias(_PLACE)
    texts = messages.select(*kept, F.col(value).alias(_TEXT), where).where(F.trim(F.col(_TEXT)) != "")
    # Spark moves no expression through the explosion of an array, and so computes it once.
    parsed = texts.select("*", F.explode(F.array(reader.message())).alias(_MESSAGE)).where(reader.included())
    if reader.has_logical_types:
        schema = F.col(f"{_MESSAGE}.schema")
        parsed = parsed.select("*", F.explode(F.array(debezium_types.logical_types(schema))).alias(_LOGICAL))
    error = F.explode(F.array(reader.error())).alias(_ERROR)
    if tolerates_bad_rows(table):
        checked = parsed.select("*", error)
        changes = F.when(F.col(_ERROR).isNull(), reader.changes()).otherwise(F.array(reader.no_change()))
    else:
        wrong = parsed.select("*", error)
        at, nothing = F.col(_PLACE), F.lit(False)
        checked = without_bad(wrong, F.col(_ERROR).isNotNull(), F.col(_ERROR), F.col(_TEXT), at, nothing)
        changes = reader.changes()
    names = [F.col(f"__kept{i}").alias(name) for i, name in enumerate(keep)]
    rows = checked.select("*", F.explode(changes).alias(_CHANGE))
    return rows.select(*map(reader.column, columns), *names, *reader.bad(), F.col(f"{_CHANGE}.kind").alias(ROW_KIND))


@dataclass(frozen=True)
class _Reader:
    """Expressions over the columns ``_TEXT`` and, once it is there, ``_MESSAGE``."""

    format: ChangeFormat
    table: Table
    values: Mapping[str, Any]

    # --- the envelope -------------------------------------------------------------------------------------------

    @property
    def _nested(self) -> bool:
        return bool(self.values.get(self.format.key("schema-include")))

    @property
    def _columns(self) -> list[Column]:
        return records_columns(self.table)

    @property
    def has_logical_types(self) -> bool:
        """Whether each message says of which logical types its values are."""
        typed = any(c.type.name in _LOGICALS for c in self._columns)
        return self.format.name == "debezium-json" and self._nested and typed

    @property
    def _as_text(self) -> frozenset[str]:
        """Types that are read as text and converted then."""
        if self.format.name != "debezium-json":
            return _AS_TEXT
        return _AS_TEXT | {"TIME"} | ({"DECIMAL"} if self._nested else frozenset())

    def _read_as(self, kind: DataType) -> str:
        return "STRING" if kind.name in self._as_text else kind.ddl()

    def message(self) -> SparkColumn:
        """The envelope as a struct, whose rows have texts for values of ``_AS_TEXT``."""
        form = self.format
        row = ", ".join(f"{quoted(c.name)}: {self._read_as(c.type)}" for c in self._columns)
        rows = f"ARRAY<STRUCT<{row}>>" if form.lists else f"STRUCT<{row}>"
        fields = {form.after: rows, form.before: rows, form.operation: "STRING"}
        fields |= dict.fromkeys(form.include.values(), "STRING") | ({form.ddl: "BOOLEAN"} if form.ddl else {})
        wanted = (of_message(self.table, column) for column in self.table.columns)
        metadata = {m.path: m.read for m in wanted if m is not None}
        schema = metadata.pop("schema", None) if form.name == "debezium-json" else None
        has_schema = schema is not None or self.has_logical_types
        ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in (fields | metadata).items())
        if self._nested:
            inner = ", ".join(f"{quoted(name)}: {kind}" for name, kind in (fields | metadata).items())
            ddl = f"payload STRUCT<{inner}>"
        ddl += ", schema STRING" if has_schema else ""
        options = reading(self.values) | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        return F.from_json(F.col(_TEXT), f"{ddl}, {CORRUPT} STRING", options)

    def _at(self, name: str) -> SparkColumn:
        prefix = f"{_MESSAGE}.payload" if self._nested and name != "schema" else _MESSAGE
        return F.col(f"{prefix}.{quoted(name)}")

    def _is(self, operation: Operation) -> SparkColumn:
        """True where the message is of the operation, never NULL."""
        words = [word for word, meant in self.format.operations.items() if meant is operation]
        holds = self._at(self.format.operation).isin(words) if words else F.lit(False)
        if self.format.ddl is not None:
            changes_no_rows = F.coalesce(self._at(self.format.ddl), F.lit(False))
            holds = holds | changes_no_rows if operation is Operation.SKIPPED else holds & ~changes_no_rows
        return F.coalesce(holds, F.lit(False))

    def included(self) -> SparkColumn:
        """False for messages of databases and tables that the options leave out."""
        patterns = ((self.values[self.format.key(key)], name) for key, name in self.format.include.items())
        conditions = [
            F.coalesce(F.rlike(self._at(name), F.lit(rf"^(?:{pattern})\z")), F.lit(True))
            for pattern, name in patterns
            if pattern is not None
        ]
        return reduce(and_, conditions, F.lit(True))

    # --- rows ---------------------------------------------------------------------------------------------------

    def changes(self) -> SparkColumn:
        """The changes as a list of structs of a kind and a row, in their order."""
        return F.coalesce(self._of_rows(self._changes_of_row, F.flatten), F.array().cast(self._changes_type))

    def no_change(self) -> SparkColumn:
        """The value that stands for a bad message."""
        row = F.lit(None).cast(self._row_type)
        return F.struct(F.lit(RowKind.INSERT.value).alias("kind"), row.alias("row"))

    @property
    def _row_type(self) -> str:
        return "STRUCT<" + ", ".join(f"{quoted(c.name)}: {c.type.ddl()}" for c in self._columns) + ">"

    @property
    def _changes_type(self) -> str:
        return f"ARRAY<STRUCT<kind: STRING, row: {self._row_type}>>"

    def _of_rows(
        self, of_row: Callable[[_Images], SparkColumn], joined: Callable[[SparkColumn], SparkColumn]
    ) -> SparkColumn:
        """``of_row`` applied to the row of a message; for a list of rows, ``joined`` of the results for each."""
        form = self.format
        after, before, names = self._at(form.after), self._at(form.before), self._changed_names()
        if not form.lists:
            return of_row(_Images(after, before, names))
        # Without an old row for each new one, an update has none of them.
        old_rows = F.coalesce(before, F.transform(after, lambda _: F.lit(None).cast(self._raw_type)))
        changed = F.coalesce(names, F.transform(after, lambda _: F.lit(None).cast("ARRAY<STRING>")))
        rows = F.arrays_zip(after.alias("after"), old_rows.alias("before"), changed.alias("names"))
        each = F.transform(rows, lambda r: of_row(_Images(r["after"], r["before"], r["names"])))
        return joined(each)

    @property
    def _raw_type(self) -> str:
        return "STRUCT<" + ", ".join(f"{quoted(c.name)}: {self._read_as(c.type)}" for c in self._columns) + ">"

    def _changed_names(self) -> SparkColumn:
        """The fields that the old row of an update has, NULL or not; one list for each of a list of rows."""
        form = self.format
        if not form.old or not self._tells_before:
            return F.lit(None).cast("ARRAY<ARRAY<STRING>>" if form.lists else "ARRAY<STRING>")
        kind = "MAP<STRING, STRING>"
        fields = F.from_json(F.col(_TEXT), f"{quoted(form.before)} {f'ARRAY<{kind}>' if form.lists else kind}")
        old = F.when(self._is(Operation.UPDATE), fields.getField(form.before))
        return F.transform(old, F.map_keys) if form.lists else F.map_keys(old)

    @property
    def _tells_before(self) -> bool:
        return RowKind.UPDATE_BEFORE in self.table.changelog

    def _changes_of_row(self, row: _Images) -> SparkColumn:
        def change(kind: RowKind, image: SparkColumn) -> SparkColumn:
            return F.struct(F.lit(kind.value).alias("kind"), self._typed(image).alias("row"))

        updated = [change(RowKind.UPDATE_AFTER, row.after)]
        if self._tells_before:
            updated.insert(0, change(RowKind.UPDATE_BEFORE, self._before(row)))
        return (
            F.when(self._is(Operation.INSERT), F.array(change(RowKind.INSERT, row.after)))
            .when(self._is(Operation.UPDATE), F.array(*updated))
            .when(self._is(Operation.DELETE), F.array(change(RowKind.DELETE, self._deleted(row))))
        )

    def _before(self, row: _Images) -> SparkColumn:
        """The row before an update, of which an old one holds what has changed."""
        if not self.format.old:
            return row.before
        fields = (
            F.when(F.array_contains(row.names, c.name), row.before[c.name]).otherwise(row.after[c.name]).alias(c.name)
            for c in self._columns
        )
        return F.struct(*fields)

    def _deleted(self, row: _Images) -> SparkColumn:
        return row.after if self.format.old else row.before

    def _typed(self, image: SparkColumn) -> SparkColumn:
        return F.struct(*(self._value(image, c).alias(c.name) for c in self._columns))

    def _value(self, image: SparkColumn, column: Column) -> SparkColumn:
        text, kind = image[column.name], column.type
        if kind.name not in self._as_text:
            return text
        if kind.name == "BOOLEAN":
            return as_boolean(F.trim(text))
        if kind.name not in _LOGICALS:
            return F.trim(text).try_cast(kind.ddl())
        given = self._given(text, kind)
        if self.format.name == "debezium-json":
            types = F.col(_LOGICAL)[column.name] if self.has_logical_types else F.lit(None).cast(_LOGICAL_TYPE)
            return debezium_types.value(text, kind, types, given, debezium_types.option_unit(self.values))
        return F.when(~text.rlike(debezium_types.DIGITS), given)  # a number is no date and no time

    def _given(self, text: SparkColumn, kind: DataType) -> SparkColumn:
        if kind.name in _TIMES:
            return as_time(text, kind, timestamp_pattern(self.values))
        return F.try_to_time(F.trim(text)) if kind.name == "TIME" else F.trim(text).try_cast(kind.ddl())

    # --- what is wrong ------------------------------------------------------------------------------------------

    def error(self) -> SparkColumn:
        """Why a message is bad; NULL for a good one."""
        message, text = F.col(_MESSAGE), F.col(_TEXT)
        readable = message.isNotNull() & message[CORRUPT].isNull()
        more = F.when(F.is_valid_utf8(text), "something follows the JSON object").otherwise("it is no UTF-8")
        misfit = F.when(self._at(self.format.operation).isNotNull(), "a value does not fit the type of its column")
        operation = self._at(self.format.operation)
        unknown = F.concat(F.lit(f'"{self.format.operation}" is "'), shown(operation), F.lit('", which is no change'))
        hint = " (schema-include says whether it is within a payload)" if self.format.name == "debezium-json" else ""
        unknown = F.coalesce(unknown, F.lit(f'the message has no "{self.format.operation}"{hint}'))
        has_operation = reduce(lambda a, b: a | b, map(self._is, Operation))
        return (
            F.when(~readable, F.coalesce(misfit, F.lit("the record is no JSON object")))
            .when(goes_on(text), more)
            .when(~has_operation, unknown)
            .when(~self._is(Operation.SKIPPED), self._error_of_rows())
        )

    def _error_of_rows(self) -> SparkColumn:
        wrong = self._of_rows(self._error_of_row, lambda errors: F.get(F.filter(errors, F.isnotnull), F.lit(0)))
        return F.when(self._at(self.format.after).isNull(), F.coalesce(wrong, self._lacks_rows())).otherwise(wrong)

    def _lacks_rows(self) -> SparkColumn:
        """The error of a message without its list of rows; for one row ``_error_of_row`` reports it."""
        return F.lit(_lacking(self.format.after) if self.format.lists else None).cast("STRING")

    def _error_of_row(self, row: _Images) -> SparkColumn:
        form = self.format
        after = self._error_of_image(row.after, form.after)
        updated = [after]
        if self._tells_before:
            lacks = F.when(row.before.isNull(), _lacking(form.before))
            updated = [lacks, self._error_of_image(self._before(row), form.before), after]
        deleted = self._error_of_image(self._deleted(row), form.after if form.old else form.before)
        return (
            F.when(self._is(Operation.INSERT), after)
            .when(self._is(Operation.UPDATE), F.coalesce(*updated))
            .when(self._is(Operation.DELETE), deleted)
        )

    def _error_of_image(self, image: SparkColumn, name: str) -> SparkColumn:
        nulls = self.values[self.format.key("ignore-parse-errors")]
        texts = () if nulls else (c for c in self._columns if c.type.name in self._as_text)
        wrong = F.concat_ws(", ", *(self._misfit(image, c) for c in texts))
        return F.when(image.isNull(), _lacking(name)).when(wrong != "", wrong)

    def _misfit(self, image: SparkColumn, column: Column) -> SparkColumn:
        text = image[column.name]
        words = F.concat(F.lit(f'column "{column.name}" of type {column.type} is "'), shown(text), F.lit('"'))
        if self.format.name == "debezium-json" and column.type.name in _LOGICALS - {"DECIMAL"}:
            counts = F.when(
                text.rlike(debezium_types.DIGITS), f", and neither a schema nor {debezium_types.UNIT} fits it"
            )
            words = F.concat(words, F.coalesce(counts, F.lit("")))
        return F.when(text.isNotNull() & self._value(image, column).isNull(), words)

    def bad(self) -> Sequence[SparkColumn]:
        if not tolerates_bad_rows(self.table):
            return ()
        record, error = F.col(_TEXT).cast("BINARY"), F.concat(F.lit(f"{BAD_ROW}: "), F.col(_ERROR))
        return (F.struct(record.alias("record"), error.alias("error"), F.col(_PLACE).alias("place")).alias(BAD),)

    # --- columns ------------------------------------------------------------------------------------------------

    def column(self, name: str) -> SparkColumn:
        """A physical column of a change, or a METADATA column of its message."""
        column = next(c for c in self.table.columns if c.name == name)
        metadata = of_message(self.table, column)
        if metadata is None:
            return F.col(f"{_CHANGE}.row.{quoted(name)}").alias(name)
        if metadata.path == "schema" and not self._nested:
            return F.lit(None).cast(column.type.ddl()).alias(name)
        prefix = f"{_MESSAGE}.payload" if self._nested and metadata.path != "schema" else _MESSAGE
        value = F.expr(metadata.sql.format(f"{prefix}.{quoted(metadata.path)}"))
        return value.cast(column.type.ddl()).alias(name)


@dataclass(frozen=True)
class _Images:
    """The row of a message after and before its change; ``names``: the fields that an old row has."""

    after: SparkColumn
    before: SparkColumn
    names: SparkColumn


def _lacking(name: str) -> str:
    return f'the message has no "{name}"'


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
