"""Keys of Kafka's messages in a format of their own, on messages that Spark's connector would bring."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from sqlstream.connectors import validate
from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.planner.catalog import UPSERT
from sqlstream.session import Session
from sqlstream.udfs.bad_records import BAD

SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
NOON = datetime(2024, 1, 31, 12)
APART = {"value__fields_include": "EXCEPT_KEY"}


@pytest.fixture
def kafka(make_table):
    def make(columns: str, metadata: dict[str, str] | None = None, **options: object):
        given = {"topic": "t", "properties__bootstrap__servers": "h:1", "format": "json"} | options
        return make_table("kafka", columns, metadata, **given)

    return make


@pytest.fixture
def messages(spark):
    def make(*pairs: tuple[str | None, str | None]):
        rows = [
            (k and k.encode(), None if v is None else v.encode(), "t", 0, i, NOON, 0) for i, (k, v) in enumerate(pairs)
        ]
        return spark.createDataFrame(rows, SCHEMA)

    return make


@pytest.fixture(params=[False, True], ids=["tasks", "java"])
def read(request):
    """How messages are decoded: by tasks, or by functions of Spark, as in real-time mode."""
    return partial(Kafka().rows_of_messages, by_java=request.param)


def tuples(frame) -> list[tuple]:
    return [tuple(row) for row in frame.collect()]


@pytest.mark.spark
def test_columns_of_keys_are_read_and_written_beside_those_of_values(spark, kafka, messages, read) -> None:
    options = {"key__format": "json", "key__fields": "k_version;k_user", "key__fields_prefix": "k_"} | APART
    table = kafka("k_version INT; k_user BIGINT; version INT; behavior STRING", {"o": "offset"}, **options)
    rows = read(
        messages(('{"version": 1, "user": 7}', '{"version": 2, "behavior": "b"}'), (None, '{"version": 3}')),
        table,
        ("behavior", "k_user", "o", "version", "k_version"),
    )
    assert tuples(rows) == [("b", 7, 0, 2, 1), (None, None, 1, 3, None)]
    assert tuples(read(messages(("{}", "{}")), table, ())) == [()]
    rows = spark.createDataFrame([(1, 7, 2, "b")], "k_version INT, k_user BIGINT, version INT, behavior STRING")
    assert tuples(Kafka().messages_of_rows(rows, table).select("key", "value")) == [
        ('{"version":1,"user":7}', '{"version":2,"behavior":"b"}')
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "options", "key"),
    [
        (
            "a INT; b STRING; v INT",
            {"key__format": "csv", "key__fields": "a;b", "key__csv__field_delimiter": "|"},
            "1|x",
        ),
        ("b STRING; v INT", {"key__format": "raw", "key__fields": "b"}, "x"),
        ("b STRING; v INT", {"key__format": "csv", "key__fields": "b", "key__csv__null_literal": "-"}, "x"),
        ("a INT; b STRING; v INT", {"key__format": "json", "key__fields": "a;b"}, '{"a":1,"b":"x"}'),
    ],
)
def test_keys_have_formats_of_their_own(
    spark, kafka, messages, read, columns: str, options: dict[str, str], key: str
) -> None:
    table = kafka(columns, **options, **APART)
    names = tuple(c.name for c in table.columns)
    row = tuple({"a": 1, "b": "x", "v": 5}[name] for name in names)
    nothing = (*(None for _ in names[1:]), 6)
    assert tuples(read(messages((key, '{"v": 5}'), (None, '{"v": 6}')), table, names)) == [row, nothing]
    written = Kafka().messages_of_rows(spark.createDataFrame([row], ", ".join(columns.split("; "))), table)
    assert tuples(written.select("key", "value")) == [(key, '{"v":5}')]


@pytest.mark.spark
def test_values_with_all_columns_are_what_is_read(spark, kafka, messages) -> None:
    table = kafka("a INT; v INT", key__format="csv", key__fields="a")
    assert tuples(Kafka().rows_of_messages(messages(("bad", '{"a": 1, "v": 2}')), table, ("a", "v"))) == [(1, 2)]
    rows = spark.createDataFrame([(1, 2)], "a INT, v INT")
    assert tuples(Kafka().messages_of_rows(rows, table).select("key", "value")) == [("1", '{"a":1,"v":2}')]


@pytest.mark.spark
def test_keys_that_cannot_be_read_are_bad_rows(kafka, messages, read) -> None:
    options = {"key__format": "json", "key__fields": "a"} | APART
    given = messages(
        ('{"a": "x"}', '{"v": 1}'), ('{"a": 1}', '{"v": "y"}'), ('{"a": 2}', '{"v": 3}'), ("no", '{"v": 4}')
    )
    with pytest.raises(Exception, match=r'SS402: a row at t\[0\]@0 cannot be read: column "a" of type INT is "x"'):
        read(given.limit(1), kafka("a INT; v INT", **options), ("v",)).collect()
    skipping = read(given, kafka("a INT; v INT", on_error="skip", **options), ("a", "v")).persist()
    is_bad = f"{BAD}.error IS NOT NULL"
    assert tuples(skipping.where(is_bad).select(f"{BAD}.record", f"{BAD}.error", f"{BAD}.place")) == [
        (bytearray(b'{"a": "x"}'), 'SS402: column "a" of type INT is "x"', "t[0]@0"),
        (bytearray(b'{"v": "y"}'), 'SS402: column "v" of type INT is "y"', "t[0]@1"),
        (bytearray(b"no"), "SS402: the record is no JSON object", "t[0]@3"),
    ]
    assert tuples(skipping.where(f"NOT ({is_bad})").select("a", "v")) == [(2, 3)]
    ignoring = kafka("a INT; v INT", key__json__ignore_parse_errors="true", **options)
    good = messages(('{"a": "x"}', '{"v": 1}'), ("no", '{"v": 4}'), ('{"a": 2}', '{"v": 3}'))
    assert tuples(read(good, ignoring, ("a", "v"))) == [(None, 1), (2, 3)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"key__format": "json"}, "SS503"),
        ({"key__fields": "a", **APART}, "SS503"),
        ({"key__fields": "a", "key__csv__field_delimiter": ";"}, "SS503"),
        ({"key__format": "json", "key__fields": "nope"}, "SS504"),
        ({"key__format": "json", "key__fields": "a;a"}, "SS504"),
        ({"key__format": "json", "key__fields": "a", "key__fields_prefix": "a"}, "SS504"),
        ({"key__format": "json", "key__fields": "a", "key__fields_prefix": "k_", **APART}, "SS504"),
        ({"key__format": "csv", "key__fields": "a", "key__json__ignore_parse_errors": "true"}, "SS504"),
        ({"key__format": "raw", "key__fields": "m"}, "SS505"),
        ({"key__format": "avro-confluent", "key__fields": "a"}, "SS503"),
        ({"key__format": "csv", "key__fields": "m"}, "SS505"),
        ({"key__format": "json", "key__fields": "a", "format": "debezium-json", **APART}, "SS504"),
    ],
)
def test_options_of_keys_that_do_not_fit_are_refused(kafka, options: dict[str, object], code: str) -> None:
    assert [d.code for d in validate(kafka("a INT; m MAP<STRING, INT>", **options), {})] == [code]


def test_variants_of_csv_are_refused_beside_keys(kafka, make_table) -> None:
    given = {"format": "csv", "key__format": "json", "key__fields": "a"}
    assert validate(kafka("a INT; v VARIANT", **given), {}) == ()
    (wrong,) = validate(kafka("a INT; v VARIANT", **given, **APART), {})
    assert wrong.code == "SS505" and 'column "v" of type VARIANT is in CSV' in wrong.message
    options = {"topic": "t", "properties__bootstrap__servers": "h:1", "key__format": "csv", "value__format": "csv"}
    upserts = replace(make_table("upsert-kafka", "a INT; v VARIANT", **options), primary_key=("a",), changelog=UPSERT)
    assert [d.code for d in validate(upserts, {})] == ["SS505"]


def test_the_words_of_flink_are_taken() -> None:
    columns, more = (
        "CREATE TABLE t (k_id BIGINT, id BIGINT)",
        "'key.fields' = 'k_id', 'value.fields-include' = 'EXCEPT_KEY'",
    )
    connector = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1', 'value.format' = 'json'"
    keys = "'key.format' = 'json', 'key.json.ignore-parse-errors' = 'true', 'key.fields-prefix' = 'k_'"
    with Session() as session:
        assert session.check(f"{columns} WITH ({connector}, {keys}, {more}); SELECT k_id, id FROM t") == ()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "value", "spelled"),
    [
        ("BIGINT", -5, ">q"),
        ("SMALLINT", -2, ">h"),
        ("FLOAT", -1.5, ">f"),
        ("DOUBLE", 0.1, ">d"),
        ("BOOLEAN", True, ">B"),
    ],
)
def test_raw_keys_and_values_are_bytes_as_java_has_them(spark, kafka, kind: str, value: Any, spelled: str) -> None:
    keys = {"key__format": "raw", "key__fields": "k", "key__raw__endianness": "little-endian"}
    table = kafka(f"k INT; v {kind}", format="raw", **keys, **APART)
    assert validate(table, {}) == ()
    rows = spark.createDataFrame([(258, value), (-1, None)], f"k INT, v {kind}")
    written = [(bytes(m.key), m.value and bytes(m.value)) for m in Kafka().messages_of_rows(rows, table).collect()]
    assert written == [(b"\2\1\0\0", struct.pack(spelled, value)), (b"\xff\xff\xff\xff", None)]
    messages = spark.createDataFrame([(k, v, "t", 0, n, NOON, 0) for n, (k, v) in enumerate(written)], SCHEMA)
    (first, second) = tuples(Kafka().rows_of_messages(messages, table, ("k", "v")))
    assert first == (258, pytest.approx(value)) and second == (-1, None)


@pytest.mark.spark
def test_raw_bytes_are_what_they_are(spark, kafka, read) -> None:
    table = kafka("k BINARY; v BINARY", format="raw", key__format="raw", key__fields="k", **APART)
    rows = spark.createDataFrame([(b"\xff\0", b"\1\n"), (b"", None)], "k BINARY, v BINARY")
    given = Kafka().messages_of_rows(rows, table).selectExpr("*", "'t' topic", "0 partition", "0L offset")
    assert tuples(read(given, table, ("v", "k"))) == [(b"\1\n", b"\xff\0"), (None, b"")]


def test_raw_columns_that_are_refused(kafka) -> None:
    def wrong(columns: str) -> list[str]:
        return [f"{d.code}: {d.message}" for d in validate(kafka(columns, format="raw"), {})]

    assert wrong("d DECIMAL(5, 2)") == ['SS505: format "raw" cannot hold column "d" of type DECIMAL(5, 2)']
    assert wrong("a INT; b INT") == ['SS505: format "raw" holds one column, and table "t" has 2']
    by_spark = kafka("a INT", format="raw", kafka__client="spark")
    refused = Kafka().refuses_real_time(by_spark, written=False)
    assert refused is not None and 'raw column "a" is a number' in refused.message
    assert Kafka().refuses_real_time(by_spark, written=True) is None
