"""Formats of rows in files and messages: Flink's ``csv.*`` and ``json.*`` options as options of Spark.

A record that cannot be read fails the job, or is marked as a bad row if the table tolerates bad rows (``on-error``,
``ignore-parse-errors``). It never becomes a row of NULLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.json_values import missing_field, read_again, spelled
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import BOOLEAN, CHARACTER, STRING, WRONG_VALUE, Option, one_of
from sqlstream.planner.bad_rows import BAD, BAD_ROW, BAD_ROW_HINT, ON_ERROR, tolerates_bad_rows
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

PLANNED_FORMATS = ("avro", "protobuf")

CSV_OPTIONS = (
    Option("csv.field-delimiter", CHARACTER, "What stands between two fields.", ",", sink=True),
    Option("csv.quote-character", CHARACTER, "What encloses a field that holds a delimiter.", '"', sink=True),
    Option("csv.disable-quote-character", BOOLEAN, "Quotes are ordinary characters.", "false", sink=True),
    Option(
        "csv.escape-character",
        CHARACTER,
        "What takes the next character literally; else quotes are doubled.",
        sink=True,
    ),
    Option("csv.null-literal", STRING, "The text that stands for NULL; else an empty field does.", sink=True),
    Option("csv.allow-comments", BOOLEAN, "Lines that begin with # are skipped.", "false"),
    Option("csv.ignore-parse-errors", BOOLEAN, "Unreadable rows are dropped; else they fail the job.", "false"),
)


def json_options(format: str) -> tuple[Option, ...]:  # noqa: A002
    """The options of a format of JSON, with the name of the format in front."""
    return (
        Option(
            f"{format}.ignore-parse-errors",
            BOOLEAN,
            "A value that does not fit its column is NULL, what is no JSON object is dropped; else both fail the job.",
            "false",
        ),
        Option(
            f"{format}.timestamp-format.standard",
            one_of("SQL", "ISO-8601"),
            "How timestamps are spelled: 2024-01-31 12:30:00.5 or 2024-01-31T12:30:00.5. "
            "Not given, both are read and the first is written.",
            sink=True,
        ),
        Option(
            f"{format}.map-null-key.mode",
            one_of("FAIL", "DROP", "LITERAL"),
            "For scripts of Flink: what becomes of NULL as a key of a MAP, which none of Spark has.",
            "FAIL",
            source=False,
            sink=True,
        ),
        Option(
            f"{format}.map-null-key.literal",
            STRING,
            "For scripts of Flink: the key that the mode LITERAL writes for NULL.",
            "null",
            source=False,
            sink=True,
        ),
        Option(
            f"{format}.encode.decimal-as-plain-number",
            BOOLEAN,
            "Small and large DECIMALs are written without an exponent: 0.000000027, not 2.7E-8.",
            "false",
            source=False,
            sink=True,
        ),
        Option(
            f"{format}.encode.ignore-null-fields",
            BOOLEAN,
            "Fields that are NULL are left out of the object.",
            "false",
            source=False,
            sink=True,
        ),
    )


JSON_OPTIONS = (
    Option(
        "json.fail-on-missing-field",
        BOOLEAN,
        "An object without a field for each column, also within a STRUCT, is a bad row; else what is missing is NULL.",
        "false",
    ),
    *json_options("json"),
)

CORRUPT = "__corrupt"
"""The column for the text of a record that Spark cannot read."""

_TIMESTAMPS = {"SQL": "yyyy-MM-dd HH:mm:ss", "ISO-8601": "yyyy-MM-dd'T'HH:mm:ss"}


def csv_settings(values: Mapping[str, Any]) -> dict[str, str]:
    """Spark's CSV options for reading and writing."""
    quote = "" if values["csv.disable-quote-character"] else values["csv.quote-character"]
    # A quote that escapes itself is a doubled one (RFC 4180).
    escape = values["csv.escape-character"] or quote
    options = {"sep": values["csv.field-delimiter"], "quote": quote, "escape": escape}
    if quote and escape == quote:  # else Spark takes NUL for a character that escapes it, which quoted texts then lose
        options["charToEscapeQuoteEscaping"] = quote
    if values["csv.null-literal"] is not None:
        options["nullValue"] = values["csv.null-literal"]
    return options


_NO_FIELD = "\0no field\0"
"""Spark's spelling of NULL, a text that no field has: an unquoted empty field is NULL, a quoted one an empty text."""


def reading(values: Mapping[str, Any]) -> dict[str, str]:
    """Spark's options to read the format of ``values``, without the mode for bad rows."""
    if values["format"] == "csv":
        comments = {"comment": "#"} if values["csv.allow-comments"] else {}
        lines = {"multiLine": "true"} if values.get("csv.multi-line") else {}
        return {"nullValue": _NO_FIELD} | csv_settings(values) | comments | lines
    pattern = timestamp_pattern(values)
    times = {} if pattern is None else {"timestampFormat": pattern + "[XXX]", "timestampNTZFormat": pattern}
    # As Flink: a tab in a text may stand as it is, and the text 20191112 is no DATE; for Spark it is days since 1970.
    return times | {"allowUnquotedControlChars": "true", "enableDateTimeParsingFallback": "false"}


def timestamp_pattern(values: Mapping[str, Any]) -> str | None:
    """Spark's pattern of timestamps without a zone, as a table of JSON spells them; None where all are read."""
    standard = values.get(f"{values['format']}.timestamp-format.standard")
    return None if standard is None else _TIMESTAMPS[standard] + "[.SSSSSS]"


def writing(values: Mapping[str, Any]) -> dict[str, str]:
    """Spark's options to write the format of ``values``."""
    pattern = _TIMESTAMPS["SQL"] + ".SSSSSS"
    if values["format"] == "csv":
        spaces = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
        options = csv_settings(values)
        empty = {"emptyValue": options["quote"] * 2}
        return options | spaces | empty | {"timestampFormat": pattern, "timestampNTZFormat": pattern}
    if values["format"].endswith("json"):
        pattern = _TIMESTAMPS[values[f"{values['format']}.timestamp-format.standard"] or "SQL"] + ".SSSSSS"
        nulls = str(bool(values.get(f"{values['format']}.encode.ignore-null-fields"))).lower()
        return {"timestampFormat": pattern, "timestampNTZFormat": pattern, "ignoreNullFields": nulls}
    return {}


def parsing(table: Table, values: Mapping[str, Any]) -> dict[str, str]:
    """Spark's options to read CSV files: bad records fail, or go to CORRUPT where the table tolerates them."""
    return reading(values) | (_TO_CORRUPT if tolerates_bad_rows(table) else {"mode": "FAILFAST"})


def parsed_schema(table: Table) -> str:
    """The physical columns as Spark's DDL, with CORRUPT where the table tolerates bad rows."""
    ddl = schema_ddl(table.physical_columns)
    return f"{ddl}, {CORRUPT} STRING" if tolerates_bad_rows(table) else ddl


# --- checks ---------------------------------------------------------------------------------------------------


def check_format(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Options of another format than the one given, and columns that the format cannot hold."""
    chosen = (table.option("format") or "").lower()
    for key, _ in table.options:
        if key.startswith(_OF_FORMATS) and not key.startswith(f"{chosen}."):
            message = f'option "{key}" has no effect with format "{chosen}"'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Leave it out.")
    ignores = f"{chosen}.ignore-parse-errors"
    if {ON_ERROR, ignores} <= dict(table.options).keys():
        message = f'options "{ON_ERROR}" and "{ignores}" both say what happens to bad rows'
        yield Diagnostic(WRONG_VALUE, message, spans.get(ignores), hint=f"Leave {ignores} out.")
    missing = f"{chosen}.fail-on-missing-field"
    if all((table.option(key) or "").strip().lower() == "true" for key in (missing, ignores)):
        message = f'options "{missing}" and "{ignores}" exclude each other'
        yield Diagnostic(
            WRONG_VALUE, message, spans.get(missing), hint=f"Leave one out; '{ON_ERROR}' = 'skip' drops rows."
        )
    if chosen == "csv":
        flat = "Use the format json, parquet or orc, or declare it STRING."
        yield from (_not_held(table, c, "csv", flat) for c in table.physical_columns if c.type.name in _NOT_IN_CSV)
    if chosen.endswith("json"):
        yield from wrong_keys_of_json(table)
    if chosen == "orc":
        held = "Use the format json or parquet."
        yield from (
            _not_held(table, c, "orc", held)
            for c in table.physical_columns
            if any(nested.name in _NOT_IN_ORC for nested in c.type.parts())
        )
    if chosen in ("text", "raw"):
        yield from _check_text(table, chosen)


_OF_FORMATS = (
    "canal-json.", "csv.", "debezium-json.", "json.", "maxwell-json.", "ogg-json.", "orc.", "parquet."
)  # fmt: skip
_NOT_IN_CSV = frozenset({"ARRAY", "MAP", "STRUCT", "BINARY", "INTERVAL"})
_NOT_IN_ORC = frozenset({"VARIANT"})
_STRING = DataType("STRING")


def _not_held(table: Table, column: Column, format: str, hint: str) -> Diagnostic:  # noqa: A002
    message = f'format "{format}" cannot hold column "{column.name}" of type {column.type.ddl()}'
    return Diagnostic(WRONG_COLUMN, message, hint=hint)


def _has_other_keys(kind: DataType) -> bool:
    """True where a MAP has keys that are no STRING."""
    return any(nested.name == "MAP" and nested.args[0] != _STRING for nested in kind.parts())


def wrong_keys_of_json(table: Table) -> Iterable[Diagnostic]:
    """SS505 for columns with a MAP whose keys are no texts, as those of JSON are."""
    hint = "Keys of JSON are texts: declare a MAP with keys of type STRING."
    return (_not_held(table, c, "json", hint) for c in table.physical_columns if _has_other_keys(c.type))


def _check_text(table: Table, chosen: str) -> Iterable[Diagnostic]:
    if [c.type for c in table.physical_columns] != [_STRING]:
        message = f'format "{chosen}" needs exactly one column of type STRING'
        hint = f'Table "{table.name}" has {len(table.physical_columns)} columns; each line is one value.'
        yield Diagnostic(WRONG_COLUMN, message, hint=hint)


# --- messages -------------------------------------------------------------------------------------------------


def schema_ddl(columns: Iterable[Column]) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"{quoted(c.name)} {c.type.ddl()}" for c in columns)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


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
) -> DataFrame:
    """The named columns out of the text column ``value``, and those that ``keep`` makes of the messages by name.

    All physical columns are parsed, so that a message is bad whichever columns a query reads; of lines of files
    (``of_files``) only those named, unless the table tolerates bad rows. Then BAD follows, and ``position`` is
    where a message came from.
    """
    from pyspark.sql import functions as F

    from sqlstream.planner.lowering.bad_rows import READ_FROM

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
    from pyspark.sql import functions as F

    return texts.select("*", F.explode(F.array(row)).alias(_ROW))


def _read_again(rows: DataFrame, columns: Sequence[Column], values: Mapping[str, Any]) -> DataFrame:
    """The rows, of which those that Spark cannot read are read as Flink does."""
    from pyspark.sql import functions as F

    typed, nulls = F.col(_TYPED), bool(values.get("json.ignore-parse-errors"))
    row = read_again(columns, F.col(_TEXT), typed, CORRUPT, timestamp_pattern(values), nulls)
    return _once(rows.withColumnRenamed(_ROW, _TYPED), row)


def _lacks_field(columns: Sequence[Column], values: Mapping[str, Any]) -> SparkColumn:
    from pyspark.sql import functions as F

    fails = values.get("json.fail-on-missing-field")
    return missing_field(columns, F.col(_TEXT)) != "" if fails else F.lit(False)


_ROW, _TYPED, _TEXT, _PLACE = "__row", "__typed", "__text", "__place"
_TO_CORRUPT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def records_columns(table: Table) -> list[Column]:
    """The physical columns in records, without those in the names of directories."""
    partitions = [name.strip() for name in (table.option("partition-by") or "").split(",")]
    return [c for c in table.physical_columns if c.name not in partitions]


# --- bad rows -------------------------------------------------------------------------------------------------

_SHOWN = 100  # characters of a value or a record that cannot be read
_BEHIND = "behind the record"


def shown(text: SparkColumn) -> SparkColumn:
    """The beginning of a text that cannot be read."""
    from pyspark.sql import functions as F

    return F.left(text, F.lit(_SHOWN))


def goes_on(text: SparkColumn) -> SparkColumn:
    """True where something follows the JSON value with which the text begins, or the text is no UTF-8.

    Spark's parser stops behind the value. An object without others inside ends at the first brace, which then is the
    end of the text; only of other texts is the end looked for.
    """
    from pyspark.sql import functions as F

    plain = F.endswith(text, F.lit("}")) & (F.instr(text, "}") == F.char_length(text))
    listed = F.concat(F.lit("["), text, F.lit(f',"{_BEHIND}"]'))
    alone = F.coalesce(F.get_json_object(listed, "$[1]") == F.lit(_BEHIND), F.lit(False))
    return ~(plain | alone) | ~F.is_valid_utf8(text)


def without_bad(
    rows: DataFrame, bad: SparkColumn, wrong: SparkColumn, record: SparkColumn, position: SparkColumn, none: SparkColumn
) -> DataFrame:
    """The rows but for those of which ``none`` is true; at a ``bad`` one the job fails with SS402: what is ``wrong``,
    the place, the beginning of the record. No optimizer moves the check (``without_rows``).
    """
    from pyspark.sql import functions as F

    from sqlstream.planner.lowering.bad_rows import without_rows

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
    """BAD: the record ``text``, what is wrong where it is ``bad``, and its place.

    The names of the columns that were read from it begin with ``prefix``. All of them are looked at, so that
    Spark parses them, and a record is bad, whichever columns a query reads.
    """
    from pyspark.sql import functions as F

    record = F.col(text).cast("BINARY").alias("record")
    wrong = F.concat(F.lit(f"{BAD_ROW}: "), what_is_wrong(records_columns(table), values, text, prefix))
    error = F.when(bad, wrong).alias("error")
    return F.struct(record, error, position.cast("STRING").alias("place")).alias(BAD)


def what_is_wrong(columns: Sequence[Column], values: Mapping[str, Any], text: str, prefix: str) -> SparkColumn:
    """What is wrong with a record: the columns whose text could not be read, else the form of the record."""
    from pyspark.sql import functions as F

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


def encode(rows: DataFrame, values: Mapping[str, Any]) -> SparkColumn:
    """Each row of ``rows`` as one text of the format."""
    from pyspark.sql import functions as F

    columns = [F.col(quoted(c)) for c in rows.columns]
    if values["format"] == "raw":
        return columns[0]
    return F.to_csv(F.struct(*columns), writing(values)) if values["format"] == "csv" else encode_object(rows, values)


def encode_object(rows: DataFrame, values: Mapping[str, Any]) -> SparkColumn:
    """Each row of ``rows`` as a JSON object, spelled as a format of JSON says."""
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*json_columns(rows, values)), writing(values))


def json_columns(rows: DataFrame, values: Mapping[str, Any]) -> list[SparkColumn]:
    """The columns of ``rows`` such that ``to_json`` writes them as the options say."""
    plain = bool(values.get(f"{values['format']}.encode.decimal-as-plain-number"))
    return [spelled(f.name, f.dataType, plain) for f in rows.schema.fields]
