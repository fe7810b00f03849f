"""Numbers of Debezium's messages are dates and times only where a schema or an option says what they count."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.planner.catalog import ALL_KINDS
from sqlstream.udfs.bad_records import BAD
from tests.formats.test_changes import AT, MICROS, unscaled
from tests.sqlstream.connectors.test_change_formats import SCHEMA

pytestmark = pytest.mark.spark

MILLIS = AT.replace(microsecond=123000)


LOGICAL = [
    ("DATE", "io.debezium.time.Date", 9999, date(1997, 5, 18)),
    ("DATE", "org.apache.kafka.connect.data.Date", -1, date(1969, 12, 31)),
    ("TIMESTAMP", "io.debezium.time.Timestamp", MICROS // 1000, MILLIS),
    ("TIMESTAMP_NTZ", "io.debezium.time.Timestamp", MICROS // 1000, MILLIS.replace(tzinfo=None)),
    ("TIMESTAMP", "io.debezium.time.MicroTimestamp", MICROS, AT),
    ("TIMESTAMP_NTZ", "io.debezium.time.MicroTimestamp", MICROS, AT.replace(tzinfo=None)),
    ("TIMESTAMP_NTZ", "io.debezium.time.NanoTimestamp", MICROS * 1000 + 999, AT.replace(tzinfo=None)),
    ("TIMESTAMP", "io.debezium.time.NanoTimestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ("TIMESTAMP", "org.apache.kafka.connect.data.Timestamp", MICROS // 1000, MILLIS),
    ("TIMESTAMP", "io.debezium.time.ZonedTimestamp", "2024-01-31T13:00:00.123456+01:00", AT),
    ("TIME", "io.debezium.time.Time", 3_661_123, time(1, 1, 1, 123000)),
    ("TIME", "io.debezium.time.MicroTime", 3_661_123_456, time(1, 1, 1, 123456)),
    ("TIME", "io.debezium.time.NanoTime", 3_661_123_456_789, time(1, 1, 1, 123456)),
    ("TIME", "org.apache.kafka.connect.data.Time", 86_399_999, time(23, 59, 59, 999000)),
    ("DECIMAL(10, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(12345), Decimal("123.45")),
    ("DECIMAL(10, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(-1), Decimal("-0.01")),
    ("DECIMAL(38, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(10**36 + 7), Decimal("1" + 34 * "0" + ".07")),
    ("DECIMAL(38, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(-(10**36)), Decimal(-(10**34))),
    ("DECIMAL(10, 2)", None, 1.5, Decimal("1.50")),
    ("DATE", None, "2024-01-31", date(2024, 1, 31)),
    ("TIME", None, "12:30:00", time(12, 30)),
    ("TIMESTAMP", "io.debezium.time.MicroTimestamp", None, None),
]  # fmt: skip
"""The type of a column, the logical type and the value in a message, and what is read."""


@pytest.fixture
def read(spark, make_table):
    def make(columns: str, names: tuple[str, ...], *values: dict, **options: str):
        given = {"topic": "t", "properties__bootstrap__servers": "h:1", "format": "debezium-json", "on_error": "skip"}
        table = replace(make_table("kafka", columns, **given, **options), changelog=ALL_KINDS)
        rows = [(None, json.dumps(v).encode(), "t", 0, i, datetime(2024, 1, 1), 0) for i, v in enumerate(values)]
        decoded = Kafka().rows_of_messages(spark.createDataFrame(rows, SCHEMA), table, names)
        return decoded.select(*names, f"{BAD}.error").toArrow().to_pylist()

    return make


def test_logical_types_are_read_by_the_schema_of_each_message(read):
    names = tuple(f"c{i}" for i in range(len(LOGICAL)))
    fields = [
        {"field": name, "name": logical, "parameters": {"scale": "2"} if logical and "Decimal" in logical else None}
        for name, (_, logical, _, _) in zip(names, LOGICAL, strict=True)
    ]
    row = {name: value for name, (_, _, value, _) in zip(names, LOGICAL, strict=True)}
    schema = {"fields": [{"field": "before", "fields": fields}, {"field": "after", "fields": fields}]}
    message = {"schema": schema, "payload": {"op": "u", "before": row, "after": row}}
    columns = "; ".join(f"{name} {kind}" for name, (kind, _, _, _) in zip(names, LOGICAL, strict=True))
    wanted = {name: read for name, (_, _, _, read) in zip(names, LOGICAL, strict=True)} | {"error": None}
    assert read(columns, names, message, debezium_json__schema_include="true") == [wanted, wanted]


def test_the_option_says_what_numbers_count(read):
    columns, names = "d DATE; t TIMESTAMP; n TIMESTAMP_NTZ; c TIME", ("d", "t", "n", "c")
    for unit, per_second in (("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        row = {"d": 9999, "t": 86_400 * per_second, "n": -per_second, "c": 61 * per_second}
        wanted = {"d": date(1997, 5, 18), "t": datetime(1970, 1, 2, tzinfo=UTC),
                  "n": datetime(1969, 12, 31, 23, 59, 59), "c": time(0, 1, 1), "error": None}  # fmt: skip
        assert read(columns, names, {"op": "c", "after": row}, debezium_json__time_unit=unit) == [wanted]


def test_a_number_is_no_date_and_no_time_by_itself(read):
    columns, names = "d DATE; t TIMESTAMP; n TIMESTAMP_NTZ; c TIME", ("d",)
    values = [{"d": 9999}, {"d": "9999"}, {"t": 1_706_702_400_123}, {"n": 2024.5}, {"c": 5}, {"t": -1}]
    errors = [row["error"] for row in read(columns, names, *({"op": "c", "after": v} for v in values))]
    assert [error.partition(" is ")[0] for error in errors] == [
        f'SS402: column "{name}" of type {kind}'
        for name, kind in (("d", "DATE"), ("d", "DATE"), ("t", "TIMESTAMP"), ("n", "TIMESTAMP_NTZ"), ("c", "TIME"),
                           ("t", "TIMESTAMP"))
    ]  # fmt: skip
    assert errors[0].endswith('is "9999", and neither a schema nor debezium-json.time-unit fits it')
    late = {"op": "c", "after": {"t": 10**18}}
    assert "column" in read(columns, names, late, debezium_json__time_unit="ms")[0]["error"]
