"""Formats of rows in files and messages: Flink's ``csv.*`` and ``json.*`` options as options of Spark.

A record that cannot be read fails the job, or is marked as a bad row if the table tolerates bad rows (``on-error``,
``ignore-parse-errors``). It never becomes a row of NULLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.schema_formats import JSON_CONFLUENT, check_schemas
from sqlstream.errors import Diagnostic, Span
from sqlstream.formats.encodings import AVRO_CODECS, RAW_WIDTHS
from sqlstream.options import BOOLEAN, CHARACTER, STRING, WRONG_VALUE, Option, one_of
from sqlstream.planner.bad_rows import ON_ERROR
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    pass

PLANNED_FORMATS = ("avro", "protobuf")

COLUMNAR_OPTIONS = (
    Option(
        "avro.codec",
        one_of(*AVRO_CODECS),
        "How blocks of Avro are compressed.",
        "snappy",
        source=False,
        sink=True,
    ),
    Option(
        "avro.timestamp_mapping.legacy",
        BOOLEAN,
        "TIMESTAMP_NTZ is written as an instant of UTC, as by Flink before 1.19; else as a local timestamp.",
        "false",
        source=False,
        sink=True,
    ),
    Option(
        "arrow.compression",
        one_of("none", "lz4", "zstd"),
        "How the columns of Arrow files are compressed.",
        "lz4",
        source=False,
        sink=True,
    ),
)

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
    Option(
        "csv.write-bigdecimal-in-scientific-notation",
        BOOLEAN,
        "Small and large DECIMALs are written with an exponent: 2.7E-8, not 0.000000027.",
        "true",
        source=False,
        sink=True,
    ),
    Option("csv.ignore-parse-errors", BOOLEAN, "Unreadable rows are dropped; else they fail the job.", "false"),
)

REFUSED_OF_FORMATS = {
    "csv.array-element-delimiter": "CSV holds no ARRAY: declare the column STRING, and write SPLIT in queries.",
    "json.decode.json-parser.enabled": "Leave it out: JSON is decoded in whole batches.",
}
"""Options of Flink's formats that are not executed, and what to write instead."""

RAW_OPTIONS = (
    Option("raw.charset", one_of("UTF-8"), "How texts are written.", "UTF-8", sink=True),
    Option(
        "raw.endianness",
        one_of("big-endian", "little-endian"),
        "Whether the first byte of a number is its highest or its lowest one.",
        "big-endian",
        sink=True,
    ),
)


def json_options(format: str) -> tuple[Option, ...]:  # noqa: A002
    """Returns the options of a JSON format. Their keys begin with the format's name."""
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


def _json_records(format: str) -> tuple[Option, ...]:  # noqa: A002
    return (
        Option(
            f"{format}.fail-on-missing-field",
            BOOLEAN,
            "An object without a field for each column, also within a STRUCT, is a bad row; else what is missing is "
            "NULL.",
            "false",
        ),
        *json_options(format),
    )


JSON_OPTIONS = _json_records("json")
JSON_CONFLUENT_OPTIONS = _json_records(JSON_CONFLUENT)

CORRUPT = "__corrupt"
"""The column for the text of a record that Spark cannot read."""

_TIMESTAMPS = {"SQL": "yyyy-MM-dd HH:mm:ss", "ISO-8601": "yyyy-MM-dd'T'HH:mm:ss"}


def csv_settings(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the options of Spark's CSV format that reading and writing share. ``values``: the parsed options of the
    table.
    """
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
    """Returns Spark's options to read a table's format, except the mode for bad records. ``values``: the parsed
    options of the table.
    """
    if values["format"] == "csv":
        comments = {"comment": "#"} if values["csv.allow-comments"] else {}
        lines = {"multiLine": "true"} if values.get("csv.multi-line") else {}
        return {"nullValue": _NO_FIELD} | csv_settings(values) | comments | lines
    pattern = timestamp_pattern(values)
    times = {} if pattern is None else {"timestampFormat": pattern + "[XXX]", "timestampNTZFormat": pattern}
    # As Flink: a tab in a text may stand as it is, and the text 20191112 is no DATE; for Spark it is days since 1970.
    return times | {"allowUnquotedControlChars": "true", "enableDateTimeParsingFallback": "false"}


def timestamp_pattern(values: Mapping[str, Any]) -> str | None:
    """Returns Spark's datetime pattern for timestamps without time zone in a JSON table; None where every form is
    accepted.
    """
    standard = values.get(f"{values['format']}.timestamp-format.standard")
    return None if standard is None else _TIMESTAMPS[standard] + "[.SSSSSS]"


def written_pattern(values: Mapping[str, Any]) -> str:
    """Returns Spark's datetime pattern with which timestamps are written in a table's format."""
    return _TIMESTAMPS[values.get(f"{values['format']}.timestamp-format.standard") or "SQL"] + ".SSSSSS"


def escaping(values: Mapping[str, Any]) -> str | None:
    """Returns the character that takes the next one literally in a table's CSV; None if quotes are doubled."""
    escape: str | None = values.get("csv.escape-character")
    return None if values["format"] != "csv" or escape == csv_settings(values)["quote"] else escape


def writing(values: Mapping[str, Any], *, escaped: bool = False) -> dict[str, str]:
    """Returns Spark's options to write a table's format. ``values``: the parsed options of the table. ``escaped``: the
    texts have their escape characters already (``records.csv_columns``).
    """
    pattern = written_pattern(values)
    times = {"timestampFormat": pattern, "timestampNTZFormat": pattern}
    if values["format"] == "csv":
        spaces = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
        escape = escaping(values) if escaped else None
        options = csv_settings(values if escape is None else {**values, "csv.escape-character": None})
        if escape is not None and "nullValue" in options:
            options["nullValue"] = options["nullValue"].replace(escape, escape * 2)
        if not options["quote"]:  # else Spark encloses a line that begins with # in NUL; none begins with a delimiter
            options["comment"] = options["sep"]
        return options | spaces | {"emptyValue": options["quote"] * 2} | times
    if values["format"].endswith("json"):
        nulls = str(bool(values.get(f"{values['format']}.encode.ignore-null-fields"))).lower()
        return times | {"ignoreNullFields": nulls}
    return {}


# --- checks ---------------------------------------------------------------------------------------------------


def check_format(table: Table, spans: Mapping[str, Span], *, of_lines: bool = False) -> Iterable[Diagnostic]:
    """Yields diagnostics for options that belong to another format than the table's, and for columns that the format
    cannot hold. ``of_lines``: records are lines of text, so that ``raw`` holds no bytes.
    """
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
    yield from _check_columns(table, spans, chosen, of_lines=of_lines)


def _check_columns(table: Table, spans: Mapping[str, Span], chosen: str, *, of_lines: bool) -> Iterable[Diagnostic]:
    if chosen == "csv":
        flat = "Use the format json, or declare it STRING."
        yield from (_not_held(table, c, "csv", flat) for c in table.physical_columns if c.type.name in _NOT_IN_CSV)
        yield from _check_csv(table, spans)
    if chosen.endswith("json") or chosen == JSON_CONFLUENT:
        yield from wrong_keys_of_json(table)
    if chosen == "orc":
        held = "Use the format json or parquet."
        yield from (
            _not_held(table, c, "orc", held)
            for c in table.physical_columns
            if any(nested.name in _NOT_IN_ORC for nested in c.type.parts())
        )
    if chosen in ("avro", "avro-confluent", "debezium-avro-confluent"):
        from sqlstream.formats.avro_schema import unwritable  # Arrow, which other tables do not need

        columns = ((c, unwritable(DataType("STRUCT", ((c.name, c.type),)))) for c in table.physical_columns)
        yield from (_not_held(table, c, chosen, f"{why}; use another format.") for c, why in columns if why)
    yield from check_schemas(table, spans)
    if chosen == "text" or (chosen == "raw" and of_lines):
        yield from _check_text(table, chosen)
    elif chosen == "raw":
        yield from _check_raw(table)


_OF_FORMATS = (
    "arrow.", "avro.", "avro-confluent.", "canal-json.", "csv.", "debezium-avro-confluent.", "debezium-json.", "json.",
    "json-confluent.", "maxwell-json.", "ogg-json.", "orc.", "parquet.", "protobuf.", "protobuf-confluent.",
    "raw.",
)  # fmt: skip
_NOT_IN_CSV = frozenset({"ARRAY", "MAP", "STRUCT", "BINARY", "INTERVAL"})
_NOT_IN_ORC = frozenset({"VARIANT"})
_STRING = DataType("STRING")


def _check_csv(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields diagnostics SS504 for characters that mean two things, or end a line, for a quote character where there
    are no quotes, and for a text of NULL that no field can be.
    """
    names = ("csv.field-delimiter", "csv.quote-character", "csv.escape-character")
    defaults = {option.key: option.default for option in CSV_OPTIONS}
    delimiter, quote, escape = (_character(table.option(name) or defaults[name]) for name in names)
    quote = None if (table.option("csv.disable-quote-character") or "").strip().lower() == "true" else quote
    for name, character in ((names[1], quote), (names[2], escape)):
        if character == delimiter:
            message = f'option "{name}" is the delimiter of fields, too'
            yield Diagnostic(WRONG_VALUE, message, spans.get(name) or spans.get(names[0]), hint="Choose another one.")
    for name, character in zip(names, (delimiter, quote, escape), strict=True):
        if character in ("\n", "\r"):
            message = f'option "{name}" is a line break, which ends a record'
            yield Diagnostic(WRONG_VALUE, message, spans.get(name), hint="Choose another character.")
    if quote is None and table.option(names[1]) is not None:
        message = f'options "{names[1]}" and "csv.disable-quote-character" exclude each other'
        yield Diagnostic(WRONG_VALUE, message, spans.get(names[1]), hint="Leave one of them out.")
    null = table.option("csv.null-literal") or ""
    has_breaks = "\n" in null or "\r" in null
    many_lines = quote is not None and (table.option("csv.multi-line") or "").strip().lower() == "true"
    if (has_breaks and not many_lines) or (quote is None and delimiter is not None and delimiter in null):
        what = "a line break" if has_breaks else "a delimiter, and no quotes are allowed"
        message = f'option "csv.null-literal" is no text of a field: it has {what}'
        yield Diagnostic(WRONG_VALUE, message, spans.get("csv.null-literal"), hint="Let another text stand for NULL.")


def _character(text: str | None) -> str | None:
    """The character that an option names; None without one, and for a text that the option does not take."""
    with suppress(ValueError):
        return None if text is None else CHARACTER.parse(text)
    return None


def _not_held(table: Table, column: Column, format: str, hint: str) -> Diagnostic:  # noqa: A002
    message = f'format "{format}" cannot hold column "{column.name}" of type {column.type.ddl()}'
    return Diagnostic(WRONG_COLUMN, message, hint=hint)


def _has_other_keys(kind: DataType) -> bool:
    """True where a MAP has keys that are no STRING."""
    return any(nested.name == "MAP" and nested.args[0] != _STRING for nested in kind.parts())


def wrong_keys_of_json(table: Table) -> Iterable[Diagnostic]:
    """Returns diagnostics SS505 for MAP columns whose keys are not STRING, which JSON cannot hold."""
    hint = "Keys of JSON are texts: declare a MAP with keys of type STRING."
    return (_not_held(table, c, "json", hint) for c in table.physical_columns if _has_other_keys(c.type))


def _check_text(table: Table, chosen: str) -> Iterable[Diagnostic]:
    if [c.type for c in table.physical_columns] != [_STRING]:
        message = f'format "{chosen}" needs exactly one column of type STRING'
        hint = f'Table "{table.name}" has {len(table.physical_columns)} columns; each line is one value.'
        yield Diagnostic(WRONG_COLUMN, message, hint=hint)


def _check_raw(table: Table) -> Iterable[Diagnostic]:
    columns = table.physical_columns
    if len(columns) != 1:
        message = f'format "raw" holds one column, and table "{table.name}" has {len(columns)}'
        hint = "A message is one value: declare one column, or take another format."
        yield Diagnostic(WRONG_COLUMN, message, hint=hint)
    elif columns[0].type.name not in _RAW:
        yield _not_held(table, columns[0], "raw", "It holds STRING, BYTES, BOOLEAN and numbers other than DECIMAL.")


_RAW = frozenset({"STRING", "BINARY", *RAW_WIDTHS})


# --- messages -------------------------------------------------------------------------------------------------


def schema_ddl(columns: Iterable[Column]) -> str:
    """Returns the columns as a schema in Spark's DDL syntax."""
    return ", ".join(f"{quoted(c.name)} {c.type.ddl()}" for c in columns)


def quoted(name: str) -> str:
    """Returns the name as a quoted identifier of Spark SQL, in backticks."""
    return "`" + name.replace("`", "``") + "`"


def records_columns(table: Table) -> list[Column]:
    """Returns the columns that are in the records of files or messages: all physical columns but partition columns."""
    partitions = [name.strip() for name in (table.option("partition-by") or "").split(",")]
    return [c for c in table.physical_columns if c.name not in partitions]


# --- bad rows -------------------------------------------------------------------------------------------------
