"""Values that a format cannot represent: they would be read as other values, or as more or fewer rows.

Sinks refuse them with SS527, those of files at any depth of nested values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.change_formats import TEXT_FORMATS
from sqlstream.connectors.formats import csv_settings, quoted
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import DataType
from sqlstream.udfs.files.directories import ESCAPED, NO_PARTITION

UNREPRESENTABLE = "SS527"
_SHOWN = 60
_BYTE_ORDER_MARK = "\ufeff"
_WITHOUT_LIMITS = "Write the table as json or parquet, or leave such rows out."

BLANK = "^[\\x00-\\x20]+$"
"""A regular expression of texts of white space alone."""
_STRING = DataType("STRING")

Fault = tuple["SparkColumn", str]
"""A condition on a value, and what is wrong with the value if it is true: ``has a line break``."""


def refusing(rows: DataFrame, table: Table, values: Mapping[str, Any], partitions: Sequence[str] = ()) -> DataFrame:
    """Returns the rows with a check: the query fails with SS527 at a value that files of the format cannot represent.

    ``values``: the parsed options of the table. ``partitions``: the columns whose values become directory names.
    """
    wrong, named = faults(table, values, partitions), {c.name: c for c in table.physical_columns}
    return rows.select(
        *(
            _refused(table, named[name], wrong[name], values).alias(name) if wrong.get(name) else F.col(quoted(name))
            for name in rows.columns
        )
    )


def faults(table: Table, values: Mapping[str, Any], partitions: Sequence[str] = ()) -> dict[str, list[Fault]]:
    """Returns a dictionary from column name to the reasons why a value of the column cannot be written. A reason is a
    pair: a condition and a message.
    """
    of_files = _FORMATS.get(values["format"], _nothing)
    faults_by_column = {
        c.name: _faults(c.type, F.col(quoted(c.name)), values, _in_a_directory if c.name in partitions else of_files)
        for c in table.physical_columns
    }
    in_files = [c for c in table.physical_columns if c.name not in partitions]
    if in_files and values["format"] == "csv":
        faults_by_column[in_files[0].name] += _of_lines(in_files, values)
    return faults_by_column


def _refused(table: Table, column: Column, faults: Sequence[Fault], values: Mapping[str, Any]) -> SparkColumn:
    value = F.col(quoted(column.name))
    text = value if column.type.name == "STRING" else F.to_json(F.struct(value.alias("value")))
    return refused(value, text, f'column "{column.name}" of table "{table.name}"', faults, values)


def refused(
    value: SparkColumn, text: SparkColumn, name: str, faults: Sequence[Fault], values: Mapping[str, Any]
) -> SparkColumn:
    """Returns ``value``, whose evaluation fails with SS527 where one of the ``faults`` holds. ``text``: how the value
    is shown then, ``name``: what it is a value of.
    """
    shown = F.left(F.replace(F.replace(text, F.lit("\n"), F.lit("\\n")), F.lit("\r"), F.lit("\\r")), F.lit(_SHOWN))
    result = value
    for condition, wrong in reversed(faults):
        start = F.lit(f'{UNREPRESENTABLE}: {name} has a value that format "{values["format"]}" cannot hold: ')
        end = F.lit(f" {wrong}\nHINT: {_hint(wrong, values)}")
        message = F.concat(start, F.coalesce(F.concat(F.lit('"'), shown, F.lit('"')), F.lit("NULL")), end)
        result = F.when(condition, F.raise_error(message)).otherwise(result)
    return result


_LINE_BREAK, _IS_EMPTY_LINE = "has a line break", "makes a line without content, which readers skip"
_IS_NULL_LITERAL = "is the text that stands for NULL"


def _are_in_files(values: Mapping[str, Any]) -> bool:
    """Whether rows of CSV become files: those of topics have no option of lines."""
    return "csv.multi-line" in values


def _hint(wrong: str, values: Mapping[str, Any]) -> str:
    if values["format"] == "csv" and not _are_in_files(values):
        null = "Let another text stand for NULL: 'csv.null-literal'. " if wrong == _IS_NULL_LITERAL else ""
        return f"{null}Write the table as json, or leave such rows out."
    if wrong == _LINE_BREAK and values["format"] == "csv" and not values.get("csv.multi-line"):
        return f"With 'csv.multi-line' = 'true' fields may have line feeds. {_WITHOUT_LIMITS}"
    if wrong == _IS_NULL_LITERAL or (wrong == _IS_EMPTY_LINE and values["format"] == "csv"):
        return f"Let another text stand for NULL: 'csv.null-literal'. {_WITHOUT_LIMITS}"
    return _WITHOUT_LIMITS


# --- values ---------------------------------------------------------------------------------------------------

Find = Callable[[DataType, "SparkColumn", Mapping[str, Any]], "Iterator[Fault]"]


def _faults(kind: DataType, value: SparkColumn, values: Mapping[str, Any], find: Find) -> list[Fault]:
    """The faults that ``find`` reports for the value and for all values inside it, to any depth."""

    def in_list(elements: SparkColumn, member: object) -> Iterator[Fault]:
        assert isinstance(member, DataType)

        def of(element: SparkColumn) -> list[Fault]:
            return _faults(member, element, values, find)

        def nth(i: int) -> Callable[[SparkColumn], SparkColumn]:
            return lambda element: F.coalesce(of(element)[i][0], F.lit(False))

        for i, (_, wrong) in enumerate(of(F.lit(None).cast(member.ddl()))):
            yield F.exists(elements, nth(i)), wrong

    faults = [*find(kind, value, values)]
    match kind.name:
        case "STRUCT":
            for name, member in kind.fields():
                faults += _faults(member, value.getField(name), values, find)
        case "ARRAY":
            faults += in_list(value, kind.args[0])
        case "MAP":
            faults += [*in_list(F.map_keys(value), kind.args[0]), *in_list(F.map_values(value), kind.args[1])]
    return faults


def _nothing(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    yield from ()


def _in_csv(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    if kind.name != "STRING":
        return
    yield from _no_utf8(value)
    has_quotes = bool(csv_settings(values)["quote"])
    if _are_in_files(values) or not has_quotes:  # within the quotes of a message they stay
        lines = value.contains("\r") if values.get("csv.multi-line") else value.contains("\n") | value.contains("\r")
        yield lines, _LINE_BREAK
    if values["csv.null-literal"] is not None:
        yield value == F.lit(values["csv.null-literal"]), _IS_NULL_LITERAL
    if not has_quotes:
        unquotable = value.contains(values["csv.field-delimiter"]) | value.contains("\0")
        yield unquotable, "has a delimiter or a NUL, and no quotes are allowed"
        yield value == "", "is empty, which without quotes is NULL"


def faults_of_messages(columns: Sequence[tuple[str, bool]], values: Mapping[str, Any]) -> dict[str, list[Fault]]:
    """As ``faults``, for messages of CSV. ``columns``: the name of each column, and whether it is a STRING. Line breaks
    stay within quotes, and a NULL alone is an empty message.
    """
    found = {name: [*_in_csv(_STRING, F.col(quoted(name)), values)] if is_text else [] for name, is_text in columns}
    first, is_text = columns[0]
    found[first] += _of_comments(F.col(quoted(first)), values, is_text=is_text)
    if len(columns) == 1 and is_text and not csv_settings(values)["quote"]:
        found[first].append((F.col(quoted(first)).rlike(BLANK), _IS_EMPTY_LINE))
    return found


def _in_json(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    """Texts of JSON, and of Avro."""
    if kind.name == "STRING":
        yield from _no_utf8(value)


def _in_text(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    yield value.isNull(), "has no text"
    yield value.contains("\n") | value.contains("\r"), _LINE_BREAK
    yield value.startswith(_BYTE_ORDER_MARK), "begins with a byte order mark"


def _in_orc(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    """ORC in Java uses the Julian calendar before 1582-10-15, and rounds the last second before 1970 up."""
    if kind.name == "DATE" or kind.is_timestamp:
        day = value.cast("DATE")
        skipped = (day > F.lit("1582-10-04").cast("DATE")) & (day < F.lit("1582-10-15").cast("DATE"))
        yield skipped, "is a day that the Julian calendar of ORC lacks"
    if kind.is_timestamp:
        last = value.between(F.lit("1969-12-31 23:59:59.000001").cast(kind.ddl()), _before_1970(kind))
        yield last, "is in the last second of 1969, which ORC moves by one"


def _before_1970(kind: DataType) -> SparkColumn:
    return F.lit("1969-12-31 23:59:59.999999").cast(kind.ddl())


def _in_a_directory(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    if kind.name in ("STRING", "BINARY"):
        value = value.cast("STRING")  # the bytes as they are
        yield from _no_utf8(value)
        yield (value == "") | (value == NO_PARTITION), "is the name of the directory for NULL"
        yield value.contains("\0"), "has a NUL, which no name of a directory may have"
    if kind.name == "BINARY":
        yield (
            value.rlike(_ESCAPED),
            "has a character that Spark escapes in the name of a directory",
        )


def _no_utf8(value: SparkColumn) -> Iterator[Fault]:
    yield ~F.is_valid_utf8(value), "is no UTF-8"


_ESCAPED = "[" + "".join(rf"\x{ord(c):02x}" for c in sorted(ESCAPED)) + "]"

_FORMATS: Mapping[str, Find] = {
    "csv": _in_csv,
    "avro": _in_json,
    "json": _in_json,
    "text": _in_text,
    "orc": _in_orc,
    **dict.fromkeys(TEXT_FORMATS, _in_json),
}


# --- lines ----------------------------------------------------------------------------------------------------


def _of_lines(columns: Sequence[Column], values: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of the line that a row of ``columns`` becomes, reported for the first of them."""
    first = F.col(quoted(columns[0].name))
    is_text = columns[0].type.name == "STRING"
    if is_text:
        yield first.startswith(_BYTE_ORDER_MARK), "begins with a byte order mark"
    yield from _of_comments(first, values, is_text=is_text)
    if len(columns) == 1 or values["csv.field-delimiter"] <= " ":
        yield reduce(and_, (_is_blank(c, values) for c in columns)), _IS_EMPTY_LINE


def _of_comments(first: SparkColumn, values: Mapping[str, Any], *, is_text: bool) -> Iterator[Fault]:
    if not values.get("csv.allow-comments"):
        return
    if is_text:
        yield first.startswith("#"), "makes a line that is a comment"
    if (values["csv.null-literal"] or "").startswith("#"):
        yield first.isNull(), "makes a line that is a comment"


def _is_blank(column: Column, values: Mapping[str, Any]) -> SparkColumn:
    """Whether the field is written as nothing, or as characters that Java takes for spaces."""
    value, null = F.col(quoted(column.name)), values["csv.null-literal"] or ""
    is_null = value.isNull() if not _visible(null) else F.lit(False)
    return is_null | F.coalesce(value.rlike(BLANK), F.lit(False)) if column.type.name == "STRING" else is_null


def _visible(text: str) -> bool:
    return any(character > " " for character in text)
