"""Values of Debezium's messages by their logical types: ``io.debezium.time.*`` and ``org.apache.kafka.connect.data.*``.

Debezium writes dates as days, and times as counts of a unit that depends on the column of the database. A message says
which where it has its schema (``debezium-json.schema-include``); else the option ``debezium-json.time-unit`` does.
Without either a number is no date and no time: 9999 may be a year, or 1997-05-18.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from sqlstream.types import DataType

UNIT = "debezium-json.time-unit"
DIGITS = r"^\s*[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*$"
"""A text that is a number, which is no DATE and no time by itself."""

_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_PER_UNIT = {"ms": 1_000, "us": 1, "ns": 1}
_UNITS = {
    "ms": ("io.debezium.time.Timestamp", "io.debezium.time.Time", "org.apache.kafka.connect.data.Timestamp",
           "org.apache.kafka.connect.data.Time"),
    "us": ("io.debezium.time.MicroTimestamp", "io.debezium.time.MicroTime"),
    "ns": ("io.debezium.time.NanoTimestamp", "io.debezium.time.NanoTime"),
}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The microseconds of the years 1 to 9999."""
_DAY = 86_400_000_000
_SCHEMA = (
    "fields ARRAY<STRUCT<field: STRING, fields: ARRAY<STRUCT<field: STRING, name: STRING, "
    "parameters: MAP<STRING, STRING>>>>>"
)


def logical_types(schema: SparkColumn) -> SparkColumn:
    """Returns a MAP expression: from the name of each column to its Kafka Connect logical type and, for a Decimal, its
    scale.

    ``schema``: the text of the field ``schema`` of a Debezium message.
    """
    images = F.filter(F.from_json(schema, _SCHEMA)["fields"], lambda f: f["field"].isin("after", "before"))
    fields = F.filter(F.get(images, F.lit(0))["fields"], lambda f: f["name"].isNotNull())
    entries = F.transform(
        fields,
        lambda f: F.struct(f["field"], F.struct(f["name"].alias("name"), f["parameters"]["scale"].alias("scale"))),
    )
    return F.map_from_entries(F.array_distinct(entries))


def value(text: SparkColumn, kind: DataType, logical: SparkColumn, given: SparkColumn, unit: str | None) -> SparkColumn:
    """Returns an expression that converts the ``text`` of a value into a DATE, TIME, timestamp or DECIMAL; NULL where
    it does not fit.

    ``logical``: the value's entry in ``logical_types``; NULL without one. ``given``: the result if the text is not an
    encoded number. ``unit``: the time unit that the table's option gives for values without logical type: "ms", "us"
    or "ns".
    """
    if kind.name == "DECIMAL":
        return F.when(logical["name"] == F.lit(_DECIMAL), _decimal(text, logical["scale"], kind)).otherwise(given)
    number = F.when(text.rlike(r"^\s*[+-]?[0-9]+\s*$"), F.trim(text).try_cast("BIGINT"))
    if kind.name == "DATE":
        known = logical["name"].isin(*_DAYS)
        days = F.when(F.coalesce(known, F.lit(unit is not None)), number.try_cast("INT"))
        return F.when(text.rlike(DIGITS), _date(days)).otherwise(given)
    return F.when(text.rlike(DIGITS), _time(_micros(number, logical["name"], unit), kind)).otherwise(given)


def _date(days: SparkColumn) -> SparkColumn:
    return F.when(days.between(_FIRST // _DAY, _LAST // _DAY), F.date_from_unix_date(days))


def _micros(number: SparkColumn, name: SparkColumn, unit: str | None) -> SparkColumn:
    """The number as microseconds; NULL where nothing says what it counts."""
    counts = [(name.isin(*names), _in_micros(number, each)) for each, names in _UNITS.items()]
    if unit is not None:
        counts.append((name.isNull(), _in_micros(number, unit)))
    return F.coalesce(*(F.when(condition, micros) for condition, micros in counts))


def _in_micros(number: SparkColumn, unit: str) -> SparkColumn:
    if unit == "ns":
        return F.floor(number / F.lit(1_000).cast("DECIMAL(4, 0)")).cast("BIGINT")  # also before 1970
    return F.try_multiply(number, F.lit(_PER_UNIT[unit]).cast("BIGINT"))


def _time(micros: SparkColumn, kind: DataType) -> SparkColumn:
    """The microseconds as an instant, a clock in UTC or a time of day; NULL out of range."""
    if kind.name == "TIME":
        seconds = ((micros % F.lit(60_000_000)) / F.lit(1_000_000).cast("DECIMAL(7, 0)")).cast("DECIMAL(16, 6)")
        minutes = F.floor(micros / F.lit(60_000_000)).cast("BIGINT")
        of_day = F.make_time((F.floor(minutes / F.lit(60))).cast("INT"), (minutes % F.lit(60)).cast("INT"), seconds)
        return F.when(micros.between(0, _DAY - 1), of_day)
    inside = micros.between(_FIRST, _LAST)
    if kind.name == "TIMESTAMP":
        return F.when(inside, F.timestamp_micros(micros))
    seconds = (micros / F.lit(1_000_000).cast("DECIMAL(7, 0)")).cast("DECIMAL(18, 6)")
    elapsed = F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds)
    return F.when(inside, F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + elapsed)


def _decimal(text: SparkColumn, scale: SparkColumn, kind: DataType) -> SparkColumn:
    """The number of which ``text`` has the bytes in Base64, with a sign, the most significant first: at most 16."""
    digits = F.hex(F.try_to_binary(text, F.lit("base64")))
    negative = F.substring(digits, 1, 1) >= F.lit("8")
    whole = F.when(negative, F.lpad(digits, 32, "F")).otherwise(F.lpad(digits, 32, "0"))
    high = F.conv(F.substring(whole, 1, 16), 16, -10).cast("DECIMAL(19, 0)")
    low = F.conv(F.substring(whole, 17, 16), 16, 10).cast("DECIMAL(20, 0)")
    unscaled = F.try_add(F.try_multiply(high, F.lit(str(1 << 64)).cast("DECIMAL(20, 0)")), low)
    spelled = F.concat(unscaled.cast("STRING"), F.lit("E"), (-F.coalesce(scale, F.lit("0")).cast("INT")).cast("STRING"))
    return F.when(F.length(digits).between(2, 32), spelled.try_cast(kind.ddl()))


def option_unit(values: Mapping[str, Any]) -> str | None:
    """Returns the time unit that the table's option gives ("ms", "us" or "ns"); None without the option."""
    unit: str | None = values.get(UNIT)
    return unit
