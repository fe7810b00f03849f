"""Values of JSON as Flink's format ``json`` reads and writes them, where Spark's own functions decide otherwise.

A record that Spark cannot read with the types of its columns is read once more, each value as a VARIANT, and converted
as Flink: a number with a fraction is cut for INT and BIGINT, a text that is not "true" is the BOOLEAN false, a text
that spells a number is that number, and anything is a STRING. What also fails then is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, reduce
from operator import or_
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sqlstream.connectors.formats import (
    CORRUPT,
    csv_settings,
    escaping,
    quoted,
    reading,
    records_columns,
    schema_ddl,
    timestamp_pattern,
    writing,
    written_pattern,
)
from sqlstream.connectors.on_spark.decoders import decoder_of, session_zone
from sqlstream.connectors.on_spark.messages import as_variants, decoded
from sqlstream.connectors.on_spark.unrepresentable import BLANK, faults_of_messages, refused
from sqlstream.formats.encodings import RAW_WIDTHS
from sqlstream.planner.bad_rows import tolerates_bad_rows
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.lowering.bad_rows import without_rows
from sqlstream.types import DataType
from sqlstream.udfs.bad_records import BAD, BAD_ROW, BAD_ROW_HINT, READ_FROM
from sqlstream.udfs.messages import MessageRows

_WHOLE = frozenset({"INT", "BIGINT"})
_TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_NTZ"})
_NESTED = frozenset({"ARRAY", "MAP", "STRUCT"})
_ONLY_TYPED = frozenset({"INTERVAL", "TIME"})
"""Types to which Spark casts no text."""


# --- reading --------------------------------------------------------------------------------------------------


def read_again(
    columns: Sequence[Column], text: SparkColumn, typed: SparkColumn, corrupt: str, pattern: str | None, nulls: bool
) -> SparkColumn:
    """Returns the struct ``typed``, which Spark parsed from the record ``text``. Where Spark could not parse the
    record, returns a struct of the same type that is parsed by Flink's rules.

    ``corrupt``: the name of the struct's field for the text of a record that is not an object, or has a value that does
    not fit. ``nulls``: a value that does not fit is NULL instead. ``pattern``: the datetime pattern of timestamps.
    """
    ddl = ", ".join(f"{quoted(c.name)} VARIANT" for c in columns)
    raw = F.from_json(text, f"{ddl}{', ' if ddl else ''}{corrupt} STRING", {"columnNameOfCorruptRecord": corrupt})

    def row(values: SparkColumn) -> SparkColumn:
        wrong = reduce(or_, (_is_wrong(c, values[c.name], typed[c.name], pattern) for c in columns), F.lit(False))
        is_bad = values[corrupt].isNotNull() | (F.lit(False) if nulls else wrong)
        fields = (_field(c, values[c.name], typed[c.name], pattern, nulls).alias(c.name) for c in columns)
        return F.struct(*fields, F.when(is_bad, text).alias(corrupt))

    readable = typed.isNull() | typed[corrupt].isNull()
    # An expression over a variable of a lambda is computed once.
    return F.when(readable, typed).otherwise(F.transform(F.array(raw), row)[0])


def _field(column: Column, value: SparkColumn, typed: SparkColumn, pattern: str | None, nulls: bool) -> SparkColumn:
    if column.type.name in _ONLY_TYPED:
        return typed
    read = converted(value, column.type, pattern)
    if column.type.name not in _NESTED:
        return F.coalesce(typed, read)
    return read if nulls else F.when(~is_wrong(value, column.type, pattern), read)


def _is_wrong(column: Column, value: SparkColumn, typed: SparkColumn, pattern: str | None) -> SparkColumn:
    only_typed = column.type.name in _ONLY_TYPED
    return _is_given(value) & typed.isNull() if only_typed else is_wrong(value, column.type, pattern)


def _is_given(value: SparkColumn) -> SparkColumn:
    return value.isNotNull() & ~F.coalesce(F.is_variant_null(value), F.lit(False))


def converted(value: SparkColumn, kind: DataType, pattern: str | None) -> SparkColumn:
    """Casts a VARIANT to the type ``kind``. Values in it that do not fit become NULL. ``pattern``: the datetime
    pattern of timestamps.
    """
    match kind.name:
        case "ARRAY":
            return F.transform(_elements(value), lambda v: converted(v, kind.inner[0], pattern))
        case "MAP":
            return F.transform_values(_fields(value), lambda _, v: converted(v, kind.inner[1], pattern))
        case "STRUCT":
            fields = _fields(value)
            members = ((name, F.try_element_at(fields, F.lit(name)), inner) for name, inner in kind.fields())
            row = F.struct(*(converted(member, inner, pattern).alias(name) for name, member, inner in members))
            return F.when(fields.isNotNull(), row)
        case "VARIANT":
            return value
    text = F.try_variant_get(value, "$", "string")
    return _scalar(value, F.trim(text) if kind.name != "STRING" else text, kind, pattern)


def _scalar(value: SparkColumn, text: SparkColumn, kind: DataType, pattern: str | None) -> SparkColumn:
    if kind.name == "STRING":
        return text
    if kind.name == "BOOLEAN":
        return as_boolean(text)
    if kind.name in _WHOLE:
        is_number = F.schema_of_variant(value).rlike("^(BIGINT|DECIMAL|DOUBLE|FLOAT)")
        return F.when(is_number, F.try_variant_get(value, "$", kind.ddl())).otherwise(text.try_cast(kind.ddl()))
    if kind.name in _TIMES:
        return as_time(text, kind, pattern)
    return F.try_to_binary(text, F.lit("base64")) if kind.name == "BINARY" else text.try_cast(kind.ddl())


def as_boolean(text: SparkColumn) -> SparkColumn:
    """Converts a text into BOOLEAN like Java's ``Boolean.parseBoolean``: only "true", in any case, is true."""
    return F.lower(text) == F.lit("true")


def as_time(text: SparkColumn, kind: DataType, pattern: str | None) -> SparkColumn:
    """Parses a text as date or time, with the datetime pattern if given. NULL where it does not match."""
    if pattern is None:
        return text.try_cast(kind.ddl())
    return F.try_to_timestamp(text, F.lit(pattern + ("[XXX]" if kind.name == "TIMESTAMP" else ""))).cast(kind.ddl())


def is_wrong(value: SparkColumn, kind: DataType, pattern: str | None) -> SparkColumn:
    """True where a VARIANT, or a value nested in it, does not fit the type ``kind``; otherwise false, never NULL."""
    given = _is_given(value)
    match kind.name:
        case "ARRAY":
            inner, nested = _elements(value), kind.inner[0]
        case "MAP":
            inner, nested = F.map_values(_fields(value)), kind.inner[1]
        case "STRUCT":
            fields = _fields(value)
            wrong = [is_wrong(F.try_element_at(fields, F.lit(name)), t, pattern) for name, t in kind.fields()]
            return given & (fields.isNull() | reduce(or_, wrong))
        case _:
            return given & converted(value, kind, pattern).isNull()
    return given & (inner.isNull() | F.coalesce(F.exists(inner, lambda v: is_wrong(v, nested, pattern)), F.lit(False)))


def missing_field(columns: Iterable[Column], text: SparkColumn) -> SparkColumn:
    """Returns the names of all fields that a JSON object lacks, as one text. The text is empty if none is missing or
    it is not an object.
    """
    fields = F.from_json(text, "MAP<STRING, VARIANT>")

    def lacking(fields: SparkColumn, name: str, kind: DataType, path: str = "") -> list[SparkColumn]:
        lacks = F.when(~F.map_contains_key(fields, F.lit(name)), F.lit(f'"{path}{name}"'))
        if kind.name != "STRUCT":
            return [lacks]
        inner = _fields(F.try_element_at(fields, F.lit(name)))
        return [lacks, *(c for n, t in kind.fields() for c in lacking(inner, n, t, f"{path}{name}."))]

    def names(fields: SparkColumn) -> SparkColumn:
        return F.concat_ws(", ", *(name for c in columns for name in lacking(fields, c.name, c.type)))

    return F.coalesce(F.transform(F.array(fields), names)[0], F.lit(""))


def _elements(value: SparkColumn) -> SparkColumn:
    return F.try_variant_get(value, "$", "array<variant>")


def _fields(value: SparkColumn) -> SparkColumn:
    return F.try_variant_get(value, "$", "map<string, variant>")


# --- writing --------------------------------------------------------------------------------------------------


Spellings = Mapping[type[T.DataType], Callable[[SparkColumn], SparkColumn]]
"""How values of a type are spelled that Spark's writers would spell in another way."""

_IN_NUMBERS_AND_TIMES = frozenset("0123456789+-.: truefalsENaInityZ")
"""The characters in which values are spelled that are no texts."""

_WITHOUT_CHANGES = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})
"""Names of time zones in which every local time is one instant."""


def spelled(name: str, kind: T.DataType, spellings: Spellings) -> SparkColumn:
    """Returns the column ``name`` in which values of the types in ``spellings`` are spelled so, at any depth."""
    column = F.col(quoted(name))
    return _spelled(column, kind, spellings).alias(name) if _is_respelled(kind, spellings) else column


def _is_respelled(kind: T.DataType, spellings: Spellings) -> bool:
    match kind:
        case T.MapType():
            return _is_respelled(kind.valueType, spellings)
        case T.ArrayType():
            return _is_respelled(kind.elementType, spellings)
        case T.StructType():
            return any(_is_respelled(f.dataType, spellings) for f in kind.fields)
    return type(kind) in spellings


def _spelled(value: SparkColumn, kind: T.DataType, spellings: Spellings) -> SparkColumn:
    match kind:
        case T.ArrayType():
            return F.transform(value, lambda v: _spelled(v, kind.elementType, spellings))
        case T.MapType():
            return F.transform_values(value, lambda _, v: _spelled(v, kind.valueType, spellings))
        case T.StructType():
            fields = (_spelled(value[f.name], f.dataType, spellings).alias(f.name) for f in kind.fields)
            return F.when(value.isNotNull(), F.struct(*fields))
    return spellings[type(kind)](value) if type(kind) in spellings else value


def _instants(rows: DataFrame, pattern: str) -> Spellings:
    """TIMESTAMP in the session's time zone, with its offset where the local time alone is another instant: in the hour
    that the zone has twice. Empty where no zone has such hours.
    """
    zone = _zone_with_changes(rows)
    return {} if zone is None else {T.TimestampType: lambda v: _with_offset(v, F.date_format(v, pattern), zone)}


def _zone_with_changes(rows: DataFrame) -> str | None:
    zone = session_zone(rows.sparkSession)
    return None if zone in _WITHOUT_CHANGES else zone


def _with_offset(value: SparkColumn, text: SparkColumn, zone: str) -> SparkColumn:
    """The text of an instant, and the offset where the zone has its local time twice, and it is the second."""
    is_second = value.cast("TIMESTAMP_NTZ").cast("TIMESTAMP") != value
    spans = _spans_with_changes(zone)
    if spans is not None:  # a look at the number of the span costs a tenth of the conversions
        span = F.shiftright(F.unix_micros(value), _SPAN).cast("INT")
        is_second = (span.isin(*spans) | ~span.between(*_KNOWN_SPANS)) & is_second
    return F.when(is_second, F.concat(text, F.date_format(value, "XXX"))).otherwise(text)


_SPAN = 40
"""Bits of the microseconds in a span, which is 12.7 days long."""

_KNOWN_SPANS = (-2_208_988_800_000_000 >> _SPAN, 4_102_444_800_000_000 >> _SPAN)
"""The numbers of the spans from 1900 to 2100."""


@lru_cache(8)
def _spans_with_changes(zone: str) -> tuple[int, ...] | None:
    """The numbers of the spans from 1900 to 2100 in which, or shortly before which, a zone changes its offset; None for
    a zone that Python does not know.
    """
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return None

    def offsets(span: int) -> set[timedelta | None]:
        start, quarter = (span << _SPAN) / 1e6, (1 << _SPAN) / 4e6
        moments = (start - 14_400, *(start + quarter * i for i in range(5)))
        return {datetime.fromtimestamp(moment, info).utcoffset() for moment in moments}

    return tuple(span for span in range(_KNOWN_SPANS[0], _KNOWN_SPANS[1] + 1) if len(offsets(span)) > 1)


def directory_column(rows: DataFrame, name: str) -> SparkColumn:
    """Returns the column ``name`` as the names of directories spell it."""
    zone = _zone_with_changes(rows)
    instants: Spellings = {} if zone is None else {T.TimestampType: lambda v: _with_offset(v, v.cast("STRING"), zone)}
    return spelled(name, rows.schema[name].dataType, instants)


def decode(
    messages: DataFrame,
    value: str,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    keep: Mapping[str, SparkColumn] | None = None,
    position: SparkColumn | None = None,
    *,
    of_files: bool = False,
    of_lines: bool = False,
) -> DataFrame:
    """Decodes the text column ``value`` of the messages into the named columns of the table.

    ``values``: the parsed options of the table. ``keep``: further columns of the result, by name, as expressions over
    the messages. ``position``: where a message is in the source, for errors.

    All physical columns are parsed, so that a message is bad whichever columns a query reads. Of lines of files
    (``of_files``) only the named ones are, unless the table tolerates bad rows. If it does, the result has the column
    BAD. ``of_lines``: the messages are lines, which tasks decode as those of files.
    """
    if of_lines:
        decoder = decoder_of(table, columns, values, session_zone(messages.sparkSession), all_columns=True)
        if decoder is not None:
            reader = MessageRows(decoder, tolerates_bad_rows(table), lines=True)
            rows = decoded(messages, F.col(value), reader, keep, position)
            kinds = {c.name: c.type for c in records_columns(table)}
            more = (F.col(quoted(name)) for name in rows.columns if name not in columns)
            return rows.select(*(as_variants(name, kinds[name]) for name in columns), *more)
    kept = [column.alias(name) for name, column in (keep or {}).items()]
    if values["format"] == "raw":
        return messages.select(*(F.col(value).alias(c) for c in columns), *kept)
    tolerant, is_json = tolerates_bad_rows(table), values["format"] == "json"
    parsed = [c for c in records_columns(table) if tolerant or not of_files or c.name in columns]
    parse = F.from_json if is_json else F.from_csv
    fields = [F.col(f"{_ROW}.{quoted(name)}").alias(name) for name in columns]
    names = {name: name if name == READ_FROM else f"__kept{i}" for i, name in enumerate(keep or {})}
    kept = [column.alias(names[name]) for name, column in (keep or {}).items()]
    fields += [F.col(own).alias(name) for name, own in names.items()]
    where = (F.lit(None) if position is None else position).cast("STRING").alias(_PLACE)
    texts = messages.select(*kept, F.col(value).alias(_TEXT), where)
    if not tolerant and not is_json:
        if not columns:  # metadata alone needs no parsing
            return texts.select(*fields)
        row = parse(F.col(_TEXT), schema_ddl(parsed), reading(values) | {"mode": "FAILFAST"})
        return _once(texts, row).select(*fields)
    schema = ", ".join(filter(None, (schema_ddl(parsed), f"{CORRUPT} STRING")))
    row = parse(F.col(_TEXT), schema, reading(values) | _TO_CORRUPT)
    given = _once(texts, row)
    if is_json:
        given = _read_again(given, parsed, values)
    if of_files and tolerant:
        given = given.where(F.col(_ROW).isNotNull())
    bad = F.col(_ROW).isNull() | F.col(f"{_ROW}.{CORRUPT}").isNotNull()
    bad = (bad | goes_on(F.col(_TEXT)) | _lacks_field(parsed, values)) if is_json else bad
    if tolerant:
        return given.select(*fields, bad_column(table, values, bad, _TEXT, f"{_ROW}.", F.col(_PLACE)))
    wrong = what_is_wrong(parsed, values, _TEXT, f"{_ROW}.")
    no_row = F.col(_ROW).isNull() if of_files else F.lit(False)
    return without_bad(given, bad, wrong, F.col(_TEXT), F.col(_PLACE), no_row).select(*fields)


def _once(texts: DataFrame, row: SparkColumn) -> DataFrame:
    """The texts with the column ``_ROW``, which Spark computes once for each.

    It would move an expression into each condition and each column that reads a field of it, but moves none through the
    explosion of an array, here one of a single element.
    """
    return texts.select("*", F.explode(F.array(row)).alias(_ROW))


def _read_again(rows: DataFrame, columns: Sequence[Column], values: Mapping[str, Any]) -> DataFrame:
    """The rows, of which those that Spark cannot read are read as Flink does."""
    typed, nulls = F.col(_TYPED), bool(values.get("json.ignore-parse-errors"))
    row = read_again(columns, F.col(_TEXT), typed, CORRUPT, timestamp_pattern(values), nulls)
    return _once(rows.withColumnRenamed(_ROW, _TYPED), row)


def _lacks_field(columns: Sequence[Column], values: Mapping[str, Any]) -> SparkColumn:
    fails = values.get("json.fail-on-missing-field")
    return missing_field(columns, F.col(_TEXT)) != "" if fails else F.lit(False)


_ROW, _TYPED, _TEXT, _PLACE = "__row", "__typed", "__text", "__place"


_TO_CORRUPT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


_SHOWN = 100  # characters of a value or a record that cannot be read


_BEHIND = "behind the record"


def shown(text: SparkColumn) -> SparkColumn:
    """Returns the beginning of a text, for error messages."""
    return F.left(text, F.lit(_SHOWN))


def goes_on(text: SparkColumn) -> SparkColumn:
    """True where a text continues after its JSON value, which Spark's parser ignores, or is not valid UTF-8.

    An object without nested objects is checked fast: it must end at its first closing brace.
    """
    plain = F.endswith(text, F.lit("}")) & (F.instr(text, "}") == F.char_length(text))
    listed = F.concat(F.lit("["), text, F.lit(f',"{_BEHIND}"]'))
    alone = F.coalesce(F.get_json_object(listed, "$[1]") == F.lit(_BEHIND), F.lit(False))
    return ~(plain | alone) | ~F.is_valid_utf8(text)


def without_bad(
    rows: DataFrame, bad: SparkColumn, wrong: SparkColumn, record: SparkColumn, position: SparkColumn, none: SparkColumn
) -> DataFrame:
    """Returns the rows without those that are no records (``none``). The query fails with SS402 at a row for which
    ``bad`` is true.

    The error message contains the reason ``wrong``, the ``position`` and the beginning of the ``record``. Spark's
    optimizer cannot move the check (``without_rows``).
    """

    def readable(of_file: SparkColumn) -> SparkColumn:
        at = F.coalesce(F.concat(F.lit(" at "), position), of_file)
        beginning = F.coalesce(F.concat(F.lit(": "), F.regexp_replace(shown(record), r"\s+", " ")), F.lit(""))
        hint = F.lit(f"\nHINT: {BAD_ROW_HINT}")
        text = F.concat(F.lit(f"{BAD_ROW}: a row"), at, F.lit(" cannot be read: "), wrong, beginning, hint)
        return F.when(none, F.lit(False)).when(bad, F.raise_error(text)).otherwise(F.lit(True))

    return without_rows(rows, readable)


def bad_column(
    table: Table, values: Mapping[str, Any], bad: SparkColumn, text: str, prefix: str, position: SparkColumn
) -> SparkColumn:
    """Returns the column BAD, a struct of the record ``text``, the error message (NULL unless ``bad`` is true) and the
    position in the source.

    ``prefix``: how the names of the parsed columns begin. All of them are checked, so that a record is bad whichever
    columns a query reads.
    """
    record = F.col(text).cast("BINARY").alias("record")
    wrong = F.concat(F.lit(f"{BAD_ROW}: "), what_is_wrong(records_columns(table), values, text, prefix))
    error = F.when(bad, wrong).alias("error")
    return F.struct(record, error, position.cast("STRING").alias("place")).alias(BAD)


def what_is_wrong(columns: Sequence[Column], values: Mapping[str, Any], text: str, prefix: str) -> SparkColumn:
    """Returns an expression for the reason why a record is bad, as text: the columns that could not be parsed, or else
    that the record has the wrong form.

    ``text``: the name of the column with the record. ``prefix``: how the names of the parsed columns begin.
    """
    csv = values["format"] == "csv"
    parse = F.from_csv if csv else F.from_json
    ddl = ", ".join(f"{quoted(c.name)} STRING" for c in columns) or f"{CORRUPT} STRING"
    texts = parse(F.col(text), ddl, reading(values))

    def unread(column: Column) -> SparkColumn:
        text = shown(texts.getField(column.name))
        message = F.concat(F.lit(f'column "{column.name}" of type {column.type} is "'), text, F.lit('"'))
        return F.when(F.col(f"{prefix}{quoted(column.name)}").isNull(), message)

    form = F.lit(f"the record is no CSV row of {len(columns)} columns" if csv else "the record is no JSON object")
    if not csv:
        more = F.col(f"{prefix}{CORRUPT}").isNull() & goes_on(F.col(text))
        behind = F.when(F.is_valid_utf8(F.col(text)), "something follows the JSON object").otherwise("it is no UTF-8")
        form = F.when(more, behind).otherwise(form)
        if values.get("json.fail-on-missing-field"):
            missing = missing_field(columns, F.col(text))
            form = F.when(missing != "", F.concat(F.lit("it has no field "), missing)).otherwise(form)
    columns_unread = F.concat_ws(", ", *map(unread, columns))
    return F.when(columns_unread == "", form).otherwise(columns_unread)


def encode(rows: DataFrame, values: Mapping[str, Any], table: str) -> SparkColumn:
    """Returns an expression that encodes each row as a message in the table's format. ``values``: the parsed options of
    the table. ``table``: its name, for errors: SS527 where a message of CSV would be read as another row.
    """
    if values["format"] == "raw":
        return _bytes(rows, little=values["raw.endianness"] == "little-endian")
    return _csv_message(rows, values, table) if values["format"] == "csv" else encode_object(rows, values)


def _csv_message(rows: DataFrame, values: Mapping[str, Any], table: str) -> SparkColumn:
    columns, fields = csv_columns(rows, values, escaped=True), rows.schema.fields
    wrong = faults_of_messages([(f.name, isinstance(f.dataType, T.StringType)) for f in fields], values)

    def checked(column: SparkColumn, name: str) -> SparkColumn:
        text = F.col(quoted(name)).cast("STRING")
        return refused(column, text, f'column "{name}" of table "{table}"', wrong[name], values).alias(name)

    texts = [checked(column, f.name) for column, f in zip(columns, fields, strict=True)]
    message = F.to_csv(F.struct(*texts), writing(values, escaped=True))
    if len(fields) > 1:
        return message
    value, quote = F.col(quoted(fields[0].name)), csv_settings(values)["quote"]
    if isinstance(fields[0].dataType, T.StringType) and quote:  # blanks alone are no record
        message = F.when(value.rlike(BLANK), F.concat(F.lit(quote), texts[0], F.lit(quote))).otherwise(message)
    # Of a single NULL Spark makes NULL, which is no message.
    return message if values["csv.null-literal"] else F.when(value.isNull(), F.lit("")).otherwise(message)


def _bytes(rows: DataFrame, *, little: bool) -> SparkColumn:
    """The bytes of the only column, as Java has them. ``little``: those of a number begin with the lowest."""
    (field,) = rows.schema.fields
    column, width = F.col(quoted(field.name)), RAW_WIDTHS.get(field.dataType.simpleString().upper())
    if width is None:  # a text or bytes
        return column
    bits = column.cast("BIGINT")
    if isinstance(field.dataType, T.FloatType | T.DoubleType):
        name, method = ("Float", "floatToIntBits") if width == 4 else ("Double", "doubleToLongBits")
        bits = F.java_method(F.lit(f"java.lang.{name}"), F.lit(method), column).cast("BIGINT")
    digits = F.right(F.lpad(F.hex(bits), 16, "0"), F.lit(2 * width))
    if little:
        digits = F.concat(*(F.substring(digits, 2 * i + 1, 2) for i in reversed(range(width))))
    return F.when(column.isNotNull(), F.unhex(digits))


def encode_object(rows: DataFrame, values: Mapping[str, Any]) -> SparkColumn:
    """Returns an expression that encodes each row as a JSON object. ``values``: the parsed options of the table, among
    them those of a JSON format.
    """
    return F.to_json(F.struct(*json_columns(rows, values)), writing(values))


def json_columns(rows: DataFrame, values: Mapping[str, Any]) -> list[SparkColumn]:
    """Returns the columns of ``rows`` converted to what ``to_json`` must get for the table's options."""
    spellings = {**_instants(rows, written_pattern(values))}
    if values.get(f"{values['format']}.encode.decimal-as-plain-number"):
        spellings[T.DecimalType] = _plain
    return [spelled(f.name, f.dataType, spellings) for f in rows.schema.fields]


def _plain(value: SparkColumn) -> SparkColumn:
    return value.cast("VARIANT")  # Spark writes the DECIMALs of a VARIANT with all their digits


def _all_digits(value: SparkColumn, scale: int) -> SparkColumn:
    """A DECIMAL as a text without an exponent, whatever CAST makes of it, with all digits of its scale."""
    text = _plain(value).cast("STRING")
    if not scale:
        return text
    fraction = F.when(F.contains(text, F.lit(".")), F.substring_index(text, ".", -1)).otherwise(F.lit(""))
    return F.concat(F.substring_index(text, ".", 1), F.lit("."), F.rpad(fraction, scale, "0"))


def csv_columns(rows: DataFrame, values: Mapping[str, Any], *, escaped: bool = False) -> list[SparkColumn]:
    """Returns the columns of ``rows`` converted to what Spark's writer of CSV must get for the table's options.

    ``escaped``: escape characters in names and texts are doubled, as the decoder of CSV reads them. Spark's writer
    doubles them within quotes only, and its reader knows them there only.
    """
    spellings = {**_instants(rows, written_pattern(values))}
    exponents = values["csv.write-bigdecimal-in-scientific-notation"]

    def written(name: str, kind: T.DataType) -> SparkColumn:
        if isinstance(kind, T.DecimalType) and not exponents:
            return _all_digits(F.col(quoted(name)), kind.scale).alias(name)
        return spelled(name, kind, spellings)

    escape = escaping(values) if escaped else None
    if escape is None:
        return [written(f.name, f.dataType) for f in rows.schema.fields]

    def doubled(value: SparkColumn, kind: T.DataType) -> SparkColumn:
        if not isinstance(kind, T.StringType) and escape not in _IN_NUMBERS_AND_TIMES:
            return value
        return F.replace(value.cast("STRING"), F.lit(escape), F.lit(escape * 2))

    texts = (doubled(written(f.name, f.dataType), f.dataType) for f in rows.schema.fields)
    return [text.alias(name.replace(escape, escape * 2)) for text, name in zip(texts, rows.columns, strict=True)]


def parsing(table: Table, values: Mapping[str, Any]) -> dict[str, str]:
    """Returns Spark's options to read CSV: bad records fail, or are put into the column CORRUPT if the table tolerates
    them.
    """
    return reading(values) | (_TO_CORRUPT if tolerates_bad_rows(table) else {"mode": "FAILFAST"})


def parsed_schema(table: Table) -> str:
    """Returns the physical columns in Spark's DDL syntax, with the column CORRUPT if the table tolerates bad rows."""
    ddl = schema_ddl(table.physical_columns)
    return f"{ddl}, {CORRUPT} STRING" if tolerates_bad_rows(table) else ddl
