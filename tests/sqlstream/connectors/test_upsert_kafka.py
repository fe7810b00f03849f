"""``upsert-kafka`` on messages that Spark's connector would bring; no Kafka is needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime

import pytest

from sqlstream.connectors import validate
from sqlstream.connectors.kafka.upsert import UpsertKafka
from sqlstream.connectors.on_spark.kafka import messages_of_upserts
from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import ALL_KINDS, UPSERT
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.kernel import ROW_KIND
from tests.schema_registry import serving

SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
COLUMNS = "id INT PRIMARY KEY NOT ENFORCED, v INT"
TOPIC = "'connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1', 'key.format' = 'json'"


@pytest.fixture
def topic(make_table):
    def make(columns: str = "id INT; v STRING", metadata=None, changelog=UPSERT, **options: object):
        given = {"topic": "t", "properties__bootstrap__servers": "h:1", "key__format": "json", "value__format": "json"}
        table = make_table("upsert-kafka", columns, metadata, **given | options)
        return replace(table, primary_key=("id",), changelog=changelog)

    return make


def codes(table) -> list[str]:
    return [item.code for item in validate(table, {})]


def test_a_table_needs_a_key_and_changes_by_it(topic) -> None:
    assert codes(topic()) == []
    assert codes(replace(topic(), primary_key=())) == ["SS666"]
    assert codes(topic(changelog=ALL_KINDS, changelog_mode="I,UB,UA,D")) == ["SS504"]
    assert codes(topic("id INT; m MAP<INT, INT>")) == ["SS505"]
    assert codes(topic(value__format="avro", key__format="protobuf")) == ["SS503", "SS503"]
    assert codes(topic(value__format="raw")) == ["SS505"]
    assert codes(topic(key__format="raw")) == []
    assert codes(topic(key__format="csv", key__csv__field_delimiter="|")) == []
    assert codes(topic(key__csv__field_delimiter="|")) == ["SS504"]
    assert codes(replace(topic("id ARRAY<INT>; v INT", key__format="csv"))) == ["SS505"]
    apart = {"value__fields_include": "EXCEPT_KEY"}
    assert codes(topic(**apart)) == []
    assert codes(topic(key__fields_prefix="i", **apart)) == []
    assert codes(topic(key__fields_prefix="k_", **apart)) == ["SS504"]
    assert codes(topic(key__fields_prefix="i")) == ["SS504"]
    assert codes(topic(sink__buffer_flush__max_rows=1)) == ["SS350"]


def test_options_of_formats_are_named_as_in_the_statement(topic) -> None:
    def said(**options: object) -> list[tuple[str, str | None]]:
        return [(wrong.message, wrong.hint) for wrong in validate(topic(**options), {})]

    assert said(value__format="avro-confluent", key__format="csv") == [
        ('format "avro-confluent" requires the option "value.avro-confluent.url"',
         "Add 'value.avro-confluent.url' = 'http://…' to WITH."),
    ]  # fmt: skip
    assert said(key__format="avro-confluent") == [
        ('format "avro-confluent" requires the option "key.avro-confluent.url"',
         "Add 'key.avro-confluent.url' = 'http://…' to WITH."),
    ]  # fmt: skip
    assert said(value__csv__field_delimiter=";") == [
        ('option "value.csv.field-delimiter" has no effect with format "json"', "Leave it out.")
    ]
    assert [message for message, _ in said(value__json__ignore_parse_errors="true")] == [
        'connector "upsert-kafka" has no option "value.json.ignore-parse-errors"'
    ]


def _text(session: Session, statement: str) -> str:
    result = session.sql(statement)
    assert isinstance(result, Rows)
    return "\n".join(str(row[0]) for row in result)


def test_rows_of_before_are_kept_where_they_are_read() -> None:
    session = Session()
    for name in ("t", "o"):
        session.sql(f"CREATE TABLE {name} ({COLUMNS}) WITH ({TOPIC}, 'value.format' = 'json')")
    session.sql("CREATE TABLE p (v INT, n BIGINT) WITH ('connector' = 'print')")

    def plan(statement: str) -> str:
        return _text(session, f"EXPLAIN CHANGELOG_MODE {statement}")

    copied = plan("INSERT INTO o SELECT id, v + 1 FROM t")
    assert "Normalize" not in copied and "sink upserts by id" in copied and "[upsert by id: I,UA,D]" in copied
    assert "Normalize(keys id)" in plan("INSERT INTO p SELECT v, COUNT(*) FROM t GROUP BY v")


def test_a_sink_that_keeps_no_rows_needs_none_of_before() -> None:
    """Where the PRIMARY KEY of both is one; else rows do not collide in it either, whatever the setting."""
    session = Session()
    session.sql(f"CREATE TABLE t ({COLUMNS}) WITH ({TOPIC}, 'value.format' = 'json')")
    keys = {"by_id": ", PRIMARY KEY (id) NOT ENFORCED", "by_v": ", PRIMARY KEY (v) NOT ENFORCED", "by_none": ""}
    for name, key in keys.items():
        session.sql(f"CREATE TABLE {name} (id INT, v INT{key}) WITH ('connector' = 'blackhole')")

    def plan(sink: str) -> str:
        return _text(session, f"EXPLAIN INSERT INTO {sink} SELECT id, v FROM t")

    assert "Normalize" not in plan("by_id")
    for setting in ("auto", "error"):
        session.sql(f"SET 'table.exec.sink.upsert-materialize' = '{setting}'")
        assert all("Normalize(keys id)" in plan(sink) and "TopN" not in plan(sink) for sink in ("by_v", "by_none"))


def test_rows_that_may_collide_on_the_key_are_kept_unless_a_setting_says_otherwise() -> None:
    session = Session()
    session.sql(f"CREATE TABLE t ({COLUMNS}) WITH ({TOPIC}, 'value.format' = 'json')")
    session.sql("CREATE TABLE by_v (v INT PRIMARY KEY NOT ENFORCED, id INT) WITH ('connector' = 'memory')")
    session.sql("CREATE TABLE by_id (v INT, id INT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'memory')")
    session.sql("CREATE TABLE by_both (v INT, id INT, PRIMARY KEY (v, id) NOT ENFORCED) WITH ('connector' = 'memory')")
    statement = "EXPLAIN INSERT INTO {} SELECT v, id FROM t"

    def keeps(table: str) -> bool:
        return "TopN(keys v; ROW_NUMBER 1; last of equal ones)" in _text(session, statement.format(table))

    for setting in (None, "auto", "force"):
        if setting is not None:
            session.sql(f"SET 'table.exec.sink.upsert-materialize' = '{setting}'")
        assert [keeps(table) for table in ("by_v", "by_id", "by_both")] == [True, False, False]
    session.sql("SET 'table.exec.sink.upsert-materialize' = 'none'")
    assert not keeps("by_v")
    session.sql("SET 'table.exec.sink.upsert-materialize' = 'error'")
    assert not keeps("by_id") and not keeps("by_both")
    with pytest.raises(SqlStreamError, match=r'SS667: .* may collide on the PRIMARY KEY \(v\) of table "by_v"'):
        session.sql(statement.format("by_v"))


def test_changes_without_a_key_are_refused() -> None:
    with pytest.raises(SqlStreamError, match="SS666"):
        Session().sql(f"CREATE TABLE t (id INT) WITH ({TOPIC}, 'value.format' = 'json')")


@pytest.mark.spark
def test_messages_replace_and_delete_the_row_of_their_key(topic, spark) -> None:
    now = datetime(2024, 1, 1)
    texts = [('{"id":1}', '{"id":1,"v":"a"}'), ('{"id":1}', None), ('{"id":2}', '{"id":"two"}'), (None, None),
             ('{"id":3}', "null")]  # fmt: skip
    rows = [(k and k.encode(), v and v.encode(), "t", 0, i, now, 0) for i, (k, v) in enumerate(texts)]
    messages = spark.createDataFrame(rows, SCHEMA)
    table = topic(metadata={"o": "offset"}, on_error="skip")
    decoded = UpsertKafka().rows_of_messages(messages, table, ("v", "o", "id")).collect()
    assert [(r[ROW_KIND], r.id, r.v, r.o) for r in decoded[:2]] == [("+U", 1, "a", 0), ("-D", 1, None, 1)]
    assert [r[BAD] and r[BAD].error for r in decoded] == [
        None,
        None,
        'SS402: column "id" of type INT is "two"',
        None,  # a NULL in a PRIMARY KEY, which is NOT NULL
        "SS402: the record is no JSON object",  # the text null, which some write for a deletion, is none
    ]


@pytest.mark.spark
def test_changes_become_messages_that_read_back_as_the_same_table(topic, spark) -> None:
    changes = [(1, "a", "+I"), (2, None, "+I"), (1, "a", "-U"), (1, "b", "+U"), (2, None, "-D")]
    rows = spark.createDataFrame(changes, f"id INT, v STRING, {ROW_KIND} STRING")
    decoded = messages_of_upserts(rows, topic()).collect()
    of_one = [(m.key, m.value) for m in decoded if m.key == '{"id":1}']
    assert of_one == [('{"id":1}', '{"id":1,"v":"a"}'), ('{"id":1}', None), ('{"id":1}', '{"id":1,"v":"b"}')]
    assert [m.value for m in decoded if m.key == '{"id":2}'] == ['{"id":2,"v":null}', None]
    assert [m.value for m in messages_of_upserts(rows.drop(ROW_KIND).limit(1), topic()).collect()] == [
        '{"id":1,"v":"a"}'
    ]


@pytest.mark.spark
def test_keys_may_be_csv(spark, topic) -> None:
    columns = "id INT; v STRING; day DATE; at TIMESTAMP"
    made = topic(columns, key__format="csv", key__csv__field_delimiter=";")
    table = replace(made, primary_key=("day", "id", "at"))
    noon, day = datetime(2024, 1, 31, 12, 0, 0, 500_000), date(2024, 1, 31)
    changes = spark.createDataFrame(
        [(1, "x", day, noon, "+I"), (2, "y", day, noon, "-D")], f"{columns.replace(';', ',')}, {ROW_KIND} STRING"
    )
    sent = messages_of_upserts(changes, table)
    written = sorted(tuple(row) for row in sent.collect())
    assert written == [
        (
            "2024-01-31;1;2024-01-31 12:00:00.500000",
            '{"id":1,"v":"x","day":"2024-01-31","at":"2024-01-31 12:00:00.500000"}',
        ),
        ("2024-01-31;2;2024-01-31 12:00:00.500000", None),
    ]
    rows = [(k.encode(), v and v.encode(), "t", 0, i, noon, 0) for i, (k, v) in enumerate(written)]
    read = UpsertKafka().rows_of_messages(spark.createDataFrame(rows, SCHEMA), table, ("id", "v", "day", "at"))
    assert [tuple(row) for row in read.collect()] == [(1, "x", day, noon, "+U"), (2, None, day, noon, "-D")]


@pytest.mark.spark
@pytest.mark.parametrize("key_format", ["json", "csv"])
def test_values_may_lack_the_columns_of_the_key(spark, topic, key_format: str) -> None:
    apart = {"value__fields_include": "EXCEPT_KEY", "key__fields_prefix": "k_", "key__format": key_format}
    table = replace(topic("k_id INT; v STRING; id INT", **apart), primary_key=("k_id",))
    changes = spark.createDataFrame(
        [(1, "x", 5, "+I"), (2, "y", 6, "-D")], f"k_id INT, v STRING, id INT, {ROW_KIND} STRING"
    )
    written = sorted(tuple(row) for row in messages_of_upserts(changes, table).collect())
    keys = ['{"id":1}', '{"id":2}'] if key_format == "json" else ["1", "2"]
    assert written == [(keys[0], '{"v":"x","id":5}'), (keys[1], None)]
    now = datetime(2024, 1, 1)
    rows = [(k.encode(), v and v.encode(), "t", 0, i, now, 0) for i, (k, v) in enumerate(written)]
    read = UpsertKafka().rows_of_messages(spark.createDataFrame(rows, SCHEMA), table, ("id", "k_id", "v"))
    assert [tuple(row) for row in read.collect()] == [(5, 1, "x", "+U"), (None, 2, None, "-D")]


FORMATS: dict[str, dict[str, object]] = {
    "json, keys of another standard": {
        "key__format": "json", "key__json__timestamp_format__standard": "ISO-8601",
        "value__format": "json", "value__json__fail_on_missing_field": "true",
    },
    "csv": {"key__format": "json", "value__format": "csv", "value__csv__field_delimiter": "|"},
    "avro, raw keys": {"key__format": "raw", "value__format": "avro"},
    "avro-confluent": {"key__format": "avro-confluent", "value__format": "avro-confluent"},
    "protobuf, keys of csv": {
        "key__format": "csv", "value__format": "protobuf", "value__protobuf__message_class_name": "R",
        "value__protobuf__schema": 'syntax = "proto3"; message R { string id = 1; optional string v = 2;'
        " optional int64 n = 3; }",
    },
    "protobuf-confluent": {"key__format": "protobuf-confluent", "value__format": "json-confluent"},
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("apart", [False, True], ids=["ALL", "EXCEPT_KEY"])
@pytest.mark.parametrize("formats", FORMATS.values(), ids=FORMATS)
def test_changes_come_back_from_messages_of_every_format(spark, topic, formats: dict[str, object], apart: bool) -> None:
    with serving() as server:
        urls = {
            f"{part}__{form}__url": server.url
            for part in ("key", "value")
            if (form := str(formats[f"{part}__format"])).endswith("-confluent")
        }
        include = {"value__fields_include": "EXCEPT_KEY"} if apart else {}
        table = topic("id STRING; v STRING; n BIGINT", {"o": "offset"}, **formats, **urls, **include)
        not_null = tuple(replace(c, nullable=False) if c.name == "id" else c for c in table.columns)
        table = replace(table, columns=not_null)
        assert codes(table) == []
        changes = [("a", "x", 1, "+I"), ("b", "y,|z", None, "+U"), ("a", "x", 1, "-U"), ("a", None, 2, "+U"),
                   ("b", None, None, "-D")]  # fmt: skip
        given = spark.createDataFrame(changes, f"id STRING, v STRING, n BIGINT, {ROW_KIND} STRING").coalesce(1)
        # Bytes, whatever the format is, as they are sent.
        sent = messages_of_upserts(given, table, by_key=False).selectExpr("binary(key) key", "binary(value) value")
        written = [(bytes(m.key), m.value and bytes(m.value)) for m in sent.collect()]
        assert [value is None for _, value in written] == [False, False, True, False, True]
        assert len({key for key, _ in written}) == 2
        if apart:
            assert not any(b"id" in (value or b"") for _, value in written if b"{" in (value or b""))
        rows = [(k, v, "t", 0, i, datetime(2024, 1, 1), 0) for i, (k, v) in enumerate(written)]
        read = UpsertKafka().rows_of_messages(spark.createDataFrame(rows, SCHEMA), table, ("n", "id", "o", "v"))
        assert [tuple(row) for row in read.collect()] == [
            (1, "a", 0, "x", "+U"), (None, "b", 1, "y,|z", "+U"), (None, "a", 2, None, "-D"), (2, "a", 3, None, "+U"),
            (None, "b", 4, None, "-D"),
        ]  # fmt: skip


@pytest.mark.spark
def test_one_column_of_csv_that_is_null_is_an_empty_value_and_no_deletion(spark, topic) -> None:
    apart = {"value__fields_include": "EXCEPT_KEY", "key__format": "csv", "value__format": "csv"}
    table = topic("id INT; v DATE", **apart)
    changes = [(1, date(2024, 1, 31), "+U"), (1, None, "+U"), (1, None, "-D")]
    rows = spark.createDataFrame(changes, f"id INT, v DATE, {ROW_KIND} STRING").coalesce(1)
    sent = [(m.key, m.value) for m in messages_of_upserts(rows, table, by_key=False).collect()]
    assert sent == [("1", "2024-01-31"), ("1", ""), ("1", None)]
    given = [(k.encode(), v if v is None else v.encode(), "t", 0, i, datetime(2024, 1, 1), 0)
             for i, (k, v) in enumerate(sent)]  # fmt: skip
    read = UpsertKafka().rows_of_messages(spark.createDataFrame(given, SCHEMA), table, ("id", "v")).collect()
    assert [tuple(row) for row in read] == changes


@pytest.mark.spark
def test_a_key_is_looked_at_where_there_is_no_value_and_a_bad_one_is_a_bad_row(spark, topic) -> None:
    table = topic("id INT; v STRING", key__format="avro", value__format="csv", on_error="skip")
    texts = [(b"no", b"1,a"), (b"\2\4", None), (b"\2", None), (b"\2\4", b"x,b")]
    rows = [(k, v, "t", 0, i, datetime(2024, 1, 1), 0) for i, (k, v) in enumerate(texts)]
    read = UpsertKafka().rows_of_messages(spark.createDataFrame(rows, SCHEMA), table, ("id", "v")).collect()
    assert [(r[ROW_KIND], r.id, r.v) for r in read[:2]] == [("+U", 1, "a"), ("-D", 2, None)]
    assert [r[BAD] and r[BAD].error for r in read] == [
        None, None, 'SS402: it ends within column "id"', 'SS402: column "id" of type INT is "x"',
    ]  # fmt: skip
