"""Messages of Kafka to rows and back, on messages that Spark's connector would bring."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest

from sqlstream.connectors.kafka import source
from sqlstream.connectors.kafka.connector import Kafka, source_options
from sqlstream.connectors.on_spark.decoders import decoder_of
from sqlstream.udfs.bad_records import BAD

pytestmark = pytest.mark.spark

SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
NOON = datetime(2024, 1, 31, 12)


@pytest.fixture
def kafka(make_table):
    def make(columns: str, metadata: dict[str, str] | None = None, **options: object):
        given = {"topic": "t", "properties__bootstrap__servers": "localhost:9092"} | options
        return make_table("kafka", columns, metadata, **given)

    return make


@pytest.fixture
def messages(spark):
    def make(*values: str):
        rows = [(f"k{i}".encode(), v.encode(), "t", 0, i, NOON, 0) for i, v in enumerate(values)]
        return spark.createDataFrame(rows, SCHEMA)

    return make


@pytest.fixture(params=[False, True], ids=["tasks", "java"])
def by_java(request) -> bool:
    """Whether functions of Spark decode messages, as in real-time mode, or tasks do."""
    return bool(request.param)


@pytest.fixture
def read(by_java: bool):
    return partial(Kafka().rows_of_messages, by_java=by_java)


def tuples(frame) -> list[tuple]:
    return [tuple(row) for row in frame.collect()]


def test_json_messages_become_rows_with_their_metadata(kafka, messages) -> None:
    metadata = {"o": "offset", "t": "timestamp", "k": "key", "from": "topic", "p": "partition"}
    table = kafka("a INT; b ARRAY<STRING>", metadata, format="json")
    decoded = Kafka().rows_of_messages(
        messages('{"a": 1, "b": ["x"]}', '{"a": 2}'), table, ("o", "b", "t", "a", "k", "from", "p")
    )
    assert tuples(decoded) == [
        (0, ["x"], NOON, 1, bytearray(b"k0"), "t", 0),
        (1, None, NOON, 2, bytearray(b"k1"), "t", 0),
    ]


def test_csv_and_raw_messages_become_rows(kafka, messages) -> None:
    csv = kafka("a INT; b STRING", format="csv", csv__field_delimiter=";")
    assert tuples(Kafka().rows_of_messages(messages("1;x"), csv, ("b", "a"))) == [("x", 1)]
    assert tuples(Kafka().rows_of_messages(messages("as it is"), kafka("line STRING", format="raw"), ("line",))) == [
        ("as it is",)
    ]


@pytest.mark.parametrize("columns", [("a",), ("b",)])
def test_a_bad_message_fails_whichever_columns_are_read(kafka, messages, read, columns: tuple[str, ...]) -> None:
    table = kafka("a INT; b INT", format="json")
    with pytest.raises(Exception, match=r'SS402: a row at t\[0\]@0 cannot be read: column "a" of type INT is "bad"'):
        read(messages('{"a": "bad", "b": 1}'), table, columns).collect()


@pytest.mark.parametrize("option", [{"on_error": "skip"}, {"on_error": "dead-letter:dead"}])
def test_bad_messages_are_marked_where_the_table_tolerates_them(kafka, messages, read, option: dict[str, str]):
    table = kafka("a INT; b INT", format="json", **option)
    decoded = read(messages('{"a": "bad", "b": 1}', "no json", '{"a": 1, "b": 2}'), table, ("b",))
    is_bad = f"{BAD}.error IS NOT NULL"
    assert tuples(decoded.where(is_bad).select(f"{BAD}.record", f"{BAD}.error", f"{BAD}.place")) == [
        (bytearray(b'{"a": "bad", "b": 1}'), 'SS402: column "a" of type INT is "bad"', "t[0]@0"),
        (bytearray(b"no json"), "SS402: the record is no JSON object", "t[0]@1"),
    ]
    assert tuples(decoded.where(f"NOT ({is_bad})").select("b")) == [(2,)]


def test_json_is_read_as_in_flink_where_spark_could_not(kafka, messages, read, by_java: bool) -> None:
    table = kafka(
        "a INT; b BOOLEAN; c ARRAY<BIGINT>; d STRUCT<x: DOUBLE, y: STRING>; m MAP<STRING, INT>; s STRING", format="json"
    )
    first = (
        '{"a": 7.9, "b": "trueA", "c": ["1", 2.5, null], "d": {"x": "0.5", "y": {"z": 1}}, "m": {"k": "3"}, "s": 1.50}'
    )
    rows = read(messages(first, "", '{"a": " 8 ", "b": 1}'), table, ("a", "b", "c", "d", "m", "s"))
    number, inner = ("1.5", '{"z":1}') if by_java else ("1.50", '{"z": 1}')
    assert tuples(rows) == [
        (7, False, [1, 2, None], (0.5, inner), {"k": 3}, number),
        (8, False, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ('{"a": "7.9"}', 'column "a" of type INT is "7.9"'),
        ('{"a": 3000000000}', 'column "a" of type INT is "3000000000"'),
        ('{"c": [1,"x"]}', ('column "c[1]" of type INT is "x"', 'column "c" of type ARRAY<INT> is "[1,"x"]"')),
        ('{"d": "20191112"}', 'column "d" of type DATE is "20191112"'),
        ('{"a": {}}', 'column "a" of type INT is "{}"'),
        ('[{"a": 1}, 2]', ("element 2: the record is no JSON object", "the record is no JSON object")),
    ],
)
def test_what_flink_cannot_read_is_bad(
    kafka, messages, read, by_java: bool, message: str, wrong: str | tuple[str, str]
) -> None:
    table = kafka("a INT; c ARRAY<INT>; d DATE", format="json", on_error="skip")
    decoded = read(messages(message), table, ("a",))
    said = wrong if isinstance(wrong, str) else wrong[by_java]
    assert tuples(decoded.select(f"{BAD}.error")) == [(f"SS402: {said}",)]


def test_an_array_of_objects_is_as_many_rows(kafka, messages) -> None:
    table = kafka("a INT", {"o": "offset"}, format="json")
    rows = Kafka().rows_of_messages(messages('[{"a": 1}, {"a": 2}]', "[]", '{"a": 3}'), table, ("a", "o"))
    assert tuples(rows) == [(1, 0), (2, 0), (3, 2)]


def test_ignored_errors_are_nulls_of_values_and_dropped_records(kafka, messages, read) -> None:
    table = kafka("a INT; b INT; c ARRAY<INT>", format="json", json__ignore_parse_errors="true")
    given = messages('{"a": "bad", "b": 1, "c": [1, "x"]}', "no json", '{"a": 1} 2')
    decoded = read(given, table, ("a", "b", "c")).persist()
    assert tuples(decoded.select(f"{BAD}.error")) == [
        (None,), ("SS402: the record is no JSON object",), ("SS402: something follows the JSON object",),
    ]  # fmt: skip
    assert tuples(decoded.select("a", "b", "c"))[0] == (None, 1, [1, None])


def test_missing_fields_are_bad_where_the_table_says_so(kafka, messages, read) -> None:
    options = {"format": "json", "json__fail_on_missing_field": "true", "on_error": "skip"}
    table = kafka("a INT; s STRUCT<x: INT, y: INT>", **options)
    full, lacks = '{"a": null, "s": {"x": 1, "y": null}, "more": 1}', '{"s": {"y": 1}}'
    decoded = read(messages(full, '{"a": 1, "s": null}', lacks), table, ("a",))
    assert tuples(decoded.select(f"{BAD}.error")) == [(None,), (None,), ('SS402: it has no field "a", "s.x"',)]


def test_decimals_are_written_as_the_table_says(spark, kafka) -> None:
    rows = spark.createDataFrame(
        [(Decimal("0.000000027"), {"k": {"x": 1}}, None)],
        "d DECIMAL(11, 9), m MAP<STRING, MAP<STRING, INT>>, n ARRAY<DECIMAL(11, 9)>",
    )
    columns = "d DECIMAL(11, 9); m MAP<STRING, MAP<STRING, INT>>; n ARRAY<DECIMAL(11, 9)>"
    plain = {"json__encode__decimal_as_plain_number": "true"}
    assert tuples(Kafka().messages_of_rows(rows, kafka(columns, format="json"))) == [
        ('{"d":2.7E-8,"m":{"k":{"x":1}},"n":null}',)
    ]
    assert tuples(Kafka().messages_of_rows(rows, kafka(columns, format="json", **plain))) == [
        ('{"d":0.000000027,"m":{"k":{"x":1}},"n":null}',)
    ]


def test_decimals_of_csv_have_exponents_or_all_their_digits(spark, kafka) -> None:
    given = [(Decimal("0.000000027"), Decimal("1E+20")), (Decimal("-1.5"), Decimal(100)), (Decimal(0), None)]
    rows = spark.createDataFrame(given, "d DECIMAL(11, 9), e DECIMAL(38)")
    for plain, first, third in (("true", "2.7E-8", "0E-9"), ("false", "0.000000027", "0.000000000")):
        options = {"format": "csv", "csv__write_bigdecimal_in_scientific_notation": plain}
        written = tuples(Kafka().messages_of_rows(rows, kafka("d DECIMAL(11, 9); e DECIMAL(38)", **options)))
        assert written == [(f"{first},100000000000000000000",), ("-1.500000000,100",), (f"{third},",)]


NASTY = (
    "", " ", "\t", "\0", "a b", "x,y", '"', 'say "x"', "'", "\\", "a\\b", "a\\", '\\"', "n/a", "\\N", "N", "#c", "a\nb",
    "\r", "\ufeff", "é", "\N{GRINNING FACE}", "null",
)  # fmt: skip
BACKSLASH = {"csv__escape_character": "\\"}


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({}, set()),
        (BACKSLASH, set()),
        ({**BACKSLASH, "csv__null_literal": "\\N"}, {"\\N"}),
        ({"csv__null_literal": "n/a"}, {"n/a"}),
        ({"csv__allow_comments": "true"}, {"#c"}),
        ({"csv__disable_quote_character": "true"}, {"", "\0", "x,y", "a\nb", "\r"}),
    ],
)
@pytest.mark.parametrize("columns", ["a STRING; b INT", "a STRING"])
def test_messages_of_csv_are_read_as_they_were_or_refused(
    spark, kafka, columns: str, options: dict[str, str], refused: set[str]
) -> None:
    """Each text in a message of its own, which tasks decode."""
    table, alone = kafka(columns, format="csv", **options), ";" not in columns
    if alone and "csv__disable_quote_character" in options:
        refused = refused | {" ", "\t"}  # blanks alone are no record
    names = tuple(column.name for column in table.columns)
    given = [(text,) if alone else (text, 7) for text in (None, *NASTY)]
    rows = spark.createDataFrame(given, columns.replace(";", ","))
    kept = rows.where(rows.a.isNull() | ~rows.a.isin(*refused)) if refused else rows
    written = Kafka().messages_of_rows(kept, table)
    values = [row.value for row in written.collect()]
    decoder = decoder_of(table, names, Kafka().resolved_values(table), "UTC")
    assert decoder is not None
    read = decoder.messages(pa.array([value.encode() for value in values]))
    assert [fault.reason for fault in read.faults] == []
    assert [tuple(row.values()) for row in read.rows.to_pylist()] == [row for row in given if row[0] not in refused]
    for text in refused:
        message = Kafka().messages_of_rows(rows.where(rows.a == text), table)
        with pytest.raises(
            Exception, match=r'SS527: column "a" of table ".+" has a value that format "csv" cannot hold'
        ):
            message.collect()
        with pytest.raises(Exception, match=r"HINT: .*Write the table as json, or leave such rows out"):
            message.collect()


def test_bad_bytes_stay_as_they_are_and_a_message_without_a_value_is_no_row(kafka, read, by_java: bool, spark) -> None:
    rows = [(b"k", b"\xff,1,2", "t", 0, 0, NOON, 0), (b"k", None, "t", 0, 1, NOON, 0)]
    table = kafka("a INT; b INT", format="csv", on_error="skip")
    decoded = read(spark.createDataFrame(rows, SCHEMA), table, ())
    wrong = 'column "a" of type INT is "\ufffd"' if by_java else "the record is not UTF-8"
    assert tuples(decoded.select(f"{BAD}.record", f"{BAD}.error")) == [(bytearray(b"\xff,1,2"), f"SS402: {wrong}")]


def test_rows_become_messages_with_a_key(spark, kafka) -> None:
    rows = spark.createDataFrame([(1, None, NOON), (2, "x", None)], "id INT, name STRING, at TIMESTAMP")
    columns = "id INT; name STRING; at TIMESTAMP"
    keyed = Kafka().messages_of_rows(rows, kafka(columns, format="json", key__fields="id;name"))
    assert tuples(keyed.select("key", "value")) == [
        ('{"id":1,"name":null}', '{"id":1,"name":null,"at":"2024-01-31 12:00:00.000000"}'),
        ('{"id":2,"name":"x"}', '{"id":2,"name":"x","at":null}'),
    ]
    plain = Kafka().messages_of_rows(rows, kafka(columns, format="csv"))
    assert plain.columns == ["value"]
    assert tuples(plain) == [("1,,2024-01-31 12:00:00.000000",), ("2,x,",)]


def test_headers_are_a_map_of_their_last_values_and_types_of_times_have_flinks_names(spark, kafka) -> None:
    from sqlstream.planner.catalog import Column
    from sqlstream.types import parse_type

    table = kafka("a INT", format="json")
    declared = (
        Column("h", parse_type("MAP<STRING, STRING>"), metadata_key="headers"),
        Column("tt", parse_type("STRING"), metadata_key="timestamp-type"),
    )
    table = replace(table, columns=(*table.columns, *declared))
    headers = [("trace", b"1"), ("user", b"ann"), ("trace", b"2")]
    rows = [(b"k", b'{"a": 1}', "t", 0, 0, NOON, 1, headers), (b"k", b'{"a": 2}', "t", 0, 1, NOON, 0, None)]
    messages = spark.createDataFrame(rows, f"{SCHEMA}, headers ARRAY<STRUCT<key: STRING, value: BINARY>>")
    assert tuples(Kafka().rows_of_messages(messages, table, ("a", "h", "tt"))) == [
        (1, {"user": "ann", "trace": "2"}, "LogAppendTime"),
        (2, None, "CreateTime"),
    ]
    assert source_options(table, Kafka().resolved_values(table))["includeHeaders"] == "true"


@pytest.mark.parametrize(
    ("memory", "given", "expected"),
    [
        (None, {}, (2_000_000, 512 << 20)),
        (4 << 30, {}, (500_000, 128 << 20)),
        (4 << 30, {"source__max_rows_per_trigger": 7_000_000}, (7_000_000, 128 << 20)),
        (4 << 30, {"source__max_bytes_per_trigger": "1 gb"}, (500_000, 1 << 30)),
    ],
)
def test_a_micro_batch_has_fewer_messages_where_memory_is_little(kafka, monkeypatch, memory, given, expected) -> None:
    monkeypatch.setattr(source, "memory_limit", lambda: memory)
    table = kafka("a INT", format="json", **given)
    settings = source.topic_settings(Kafka().resolved_values(table))
    assert (settings.most, settings.most_bytes) == expected
