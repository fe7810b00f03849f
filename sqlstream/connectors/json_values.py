"""Values of JSON as Flink's format ``json`` reads and writes them, where Spark's own functions decide otherwise.

A record that Spark cannot read with the types of its columns is read once more, each value as a VARIANT, and converted
as Flink: a number with a fraction is cut for INT and BIGINT, a text that is not "true" is the BOOLEAN false, a text
that spells a number is that number, and anything is a STRING. What also fails then is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from sqlstream.planner.catalog import Column
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import types as T

_WHOLE = frozenset({"INT", "BIGINT"})
_TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_NTZ"})
_NESTED = frozenset({"ARRAY", "MAP", "STRUCT"})
_ONLY_TYPED = frozenset({"INTERVAL", "TIME"})
"""Types to which Spark casts no text."""


# --- reading --------------------------------------------------------------------------------------------------


def read_again(
    columns: Sequence[Column], text: SparkColumn, typed: SparkColumn, corrupt: str, pattern: str | None, nulls: bool
) -> SparkColumn:
    """The struct ``typed``, or where Spark could not read the record ``text``, a struct of its type read as Flink does.

    Its field ``corrupt`` is the text if a value is wrong or the record is no object. ``nulls``: a wrong value is NULL
    and no error.
    """
    from pyspark.sql import functions as F

    ddl = ", ".join(f"{_quoted(c.name)} VARIANT" for c in columns)
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
    from pyspark.sql import functions as F

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
    from pyspark.sql import functions as F

    return value.isNotNull() & ~F.coalesce(F.is_variant_null(value), F.lit(False))


def converted(value: SparkColumn, kind: DataType, pattern: str | None) -> SparkColumn:
    """A VARIANT as a value of the type ``kind``; NULL where, or in which, a value does not fit."""
    from pyspark.sql import functions as F

    match kind.name:
        case "ARRAY":
            return F.transform(_elements(value), lambda v: converted(v, _type(kind.args[0]), pattern))
        case "MAP":
            return F.transform_values(_fields(value), lambda _, v: converted(v, _type(kind.args[1]), pattern))
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
    from pyspark.sql import functions as F

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
    """As Flink's ``Boolean.parseBoolean``: any text but "true", in any case, is false."""
    from pyspark.sql import functions as F

    return F.lower(text) == F.lit("true")


def as_time(text: SparkColumn, kind: DataType, pattern: str | None) -> SparkColumn:
    """The time that ``text`` spells, in the ``pattern`` if there is one; else NULL."""
    from pyspark.sql import functions as F

    if pattern is None:
        return text.try_cast(kind.ddl())
    return F.try_to_timestamp(text, F.lit(pattern + ("[XXX]" if kind.name == "TIMESTAMP" else ""))).cast(kind.ddl())


def is_wrong(value: SparkColumn, kind: DataType, pattern: str | None) -> SparkColumn:
    """True where a VARIANT is given that does not fit the type ``kind``, or in which a value does not; never NULL."""
    from pyspark.sql import functions as F

    given = _is_given(value)
    match kind.name:
        case "ARRAY":
            inner, nested = _elements(value), _type(kind.args[0])
        case "MAP":
            inner, nested = F.map_values(_fields(value)), _type(kind.args[1])
        case "STRUCT":
            fields = _fields(value)
            wrong = [is_wrong(F.try_element_at(fields, F.lit(name)), t, pattern) for name, t in kind.fields()]
            return given & (fields.isNull() | reduce(or_, wrong))
        case _:
            return given & converted(value, kind, pattern).isNull()
    return given & (inner.isNull() | F.coalesce(F.exists(inner, lambda v: is_wrong(v, nested, pattern)), F.lit(False)))


def missing_field(columns: Iterable[Column], text: SparkColumn) -> SparkColumn:
    """The names of all fields that an object lacks, in one text; an empty text if it lacks none or is no object."""
    from pyspark.sql import functions as F

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
    from pyspark.sql import functions as F

    return F.try_variant_get(value, "$", "array<variant>")


def _fields(value: SparkColumn) -> SparkColumn:
    from pyspark.sql import functions as F

    return F.try_variant_get(value, "$", "map<string, variant>")


def _type(kind: object) -> DataType:
    assert isinstance(kind, DataType)
    return kind


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# --- writing --------------------------------------------------------------------------------------------------


def spelled(name: str, kind: T.DataType, plain: bool) -> SparkColumn:
    """The column ``name`` such that ``to_json`` writes its DECIMALs, if ``plain``, without an exponent."""
    from pyspark.sql import functions as F

    column = F.col(_quoted(name))
    return _spelled(column, kind).alias(name) if plain and _has_decimals(kind) else column


def _has_decimals(kind: T.DataType) -> bool:
    from pyspark.sql import types as T

    match kind:
        case T.MapType():
            return _has_decimals(kind.valueType)
        case T.ArrayType():
            return _has_decimals(kind.elementType)
        case T.StructType():
            return any(_has_decimals(f.dataType) for f in kind.fields)
    return isinstance(kind, T.DecimalType)


def _spelled(value: SparkColumn, kind: T.DataType) -> SparkColumn:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    match kind:
        case T.ArrayType():
            return F.transform(value, lambda v: _spelled(v, kind.elementType))
        case T.MapType():
            return F.transform_values(value, lambda _, v: _spelled(v, kind.valueType))
        case T.StructType():
            fields = (_spelled(value[f.name], f.dataType).alias(f.name) for f in kind.fields)
            return F.when(value.isNotNull(), F.struct(*fields))
        case T.DecimalType():
            return value.cast("VARIANT")  # Spark writes the DECIMALs of a VARIANT with all their digits
    return value
