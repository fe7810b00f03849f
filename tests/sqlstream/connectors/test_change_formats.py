"""Formats of messages that tell changes: options, rows of messages, messages of rows, and jobs over files of them.

Cases of other engines judge the formats themselves (tests/peers/below_sql/change_formats.py).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from sqlstream.connectors import validate
from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, UPSERT
from sqlstream.session import Session
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.kernel import ROW_KIND

FORMATS = ("canal-json", "debezium-json", "maxwell-json", "ogg-json")
SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"


@pytest.fixture
def kafka(make_table):
    def make(columns: str, changelog=ALL_KINDS, **options: object):
        given = {"topic": "t", "properties__bootstrap__servers": "localhost:9092"} | options
        return replace(make_table("kafka", columns, **given), changelog=changelog)

    return make


@pytest.fixture
def messages(spark):
    def make(*values: str | None):
        now = datetime(2024, 1, 1)
        rows = [(None, v if v is None else v.encode(), "t", 0, i, now, 0) for i, v in enumerate(values)]
        return spark.createDataFrame(rows, SCHEMA)

    return make


def changes(frame) -> list[tuple]:
    return [(row[ROW_KIND], *(v for k, v in row.asDict().items() if k != ROW_KIND)) for row in frame.collect()]


def codes(table) -> list[str]:
    return [item.code for item in validate(table, {})]


# --- options --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("connector", ["filesystem", "kafka"])
def test_sources_and_sinks_take_the_formats(make_table, connector: str, name: str) -> None:
    where = {"path": "/data"} if connector == "filesystem" else {"topic": "t", "properties__bootstrap__servers": "h:1"}
    key = f"{name.replace('-', '_')}__timestamp_format__standard"
    table = make_table(connector, "a INT", format=name, **where, **{key: "ISO-8601"})
    assert codes(table) == []
    assert codes(make_table(connector, "a INT", format=name, **where, **{key: "test"})) == ["SS504"]
    assert codes(make_table(connector, "a INT", format="json", **where, **{key: "SQL"})) == ["SS504"]


def test_rows_of_changes_are_not_only_added(kafka) -> None:
    assert codes(kafka("a INT", APPEND_ONLY, format="debezium-json", changelog_mode="I")) == ["SS504"]
    assert codes(kafka("a INT", UPSERT, format="debezium-json", changelog_mode="I,UA,D")) == []


def test_files_of_changes_come_one_at_a_time(make_table) -> None:
    table = make_table("filesystem", "a INT", path="/d", format="ogg-json", source__max_files_per_trigger=2)
    assert codes(table) == ["SS504"]


def test_columns_may_be_metadata_of_messages() -> None:
    session = Session()
    table = """CREATE TABLE {name} (a INT, of STRING METADATA FROM '{key}') WITH ('connector' = 'filesystem',
        'path' = '/d', 'format' = 'canal-json')"""
    session.sql(table.format(name="t", key="table"))
    session.sql(table.format(name="u", key="value.table"))
    session.sql(table.format(name="v", key="file.name"))
    with pytest.raises(SqlStreamError, match='SS505: connector "filesystem" has no metadata key "op"'):
        session.sql(table.format(name="w", key="op"))


def test_only_sources_with_kinds_have_changes() -> None:
    session = Session()
    session.sql("""CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '/d',
        'format' = 'json', 'changelog-mode' = 'I,UA,D')""")
    with pytest.raises(SqlStreamError, match=r'SS325[^.]*.*records of connector "filesystem" have none'):
        session.sql("EXPLAIN SELECT * FROM t")


def test_a_table_that_takes_inserts_only_refuses_changes_of_messages() -> None:
    session = Session()
    for name, kind in (("t", "debezium-json"), ("o", "json")):
        session.sql(
            f"CREATE TABLE {name} (a INT) WITH ('connector' = 'filesystem', 'path' = '/{name}', 'format' = '{kind}')"
        )
    with pytest.raises(SqlStreamError, match='SS510: table "o" takes inserted rows only'):
        session.sql("EXPLAIN INSERT INTO o SELECT * FROM t")
    session.sql("EXPLAIN INSERT INTO t SELECT * FROM t")


# --- messages -------------------------------------------------------------------------------------------------

UPDATED = '{"before": {"id": 1, "v": "a"}, "after": {"id": 1, "v": "b"}, "op": "u"}'
WITHOUT_BEFORE = '{"before": null, "after": {"id": 1, "v": "b"}, "op": "u"}'
BAD_MESSAGES = {
    "no json": "the record is no JSON object",
    '{"op": "c", "after": {"id": 1}} {}': "something follows the JSON object",
    '{"op": "x", "after": {"id": 1}}': '"op" is "x", which is no change',
    '{"after": {"id": 1}}': 'the message has no "op" (schema-include says whether it is within a payload)',
    '{"op": "c"}': 'the message has no "after"',
    '{"op": "c", "after": {"id": "one"}}': 'column "id" of type INT is "one"',
    '{"op": "c", "after": {"id": 1, "d": "much"}}': 'column "d" of type DECIMAL(5, 2) is "much"',
    '{"op": "u", "before": {"id": "one"}, "after": {"id": 1}}': 'column "id" of type INT is "one"',
    WITHOUT_BEFORE: 'the message has no "before"',
}


@pytest.mark.spark
def test_a_bad_message_is_bad_as_a_whole(kafka, messages) -> None:
    table = kafka("id INT; v STRING; d DECIMAL(5, 2)", format="debezium-json", on_error="skip")
    decoded = Kafka().rows_of_messages(messages(*BAD_MESSAGES, None, "", UPDATED), table, ("v",))
    rows = decoded.select("v", f"{BAD}.record", f"{BAD}.error", f"{BAD}.place", ROW_KIND).collect()
    bad, good = rows[: len(BAD_MESSAGES)], rows[len(BAD_MESSAGES) :]
    assert {row.record.decode(): row.error for row in bad} == {k: f"SS402: {v}" for k, v in BAD_MESSAGES.items()}
    assert [row.place for row in bad] == [f"t[0]@{i}" for i in range(len(bad))]
    assert [(row[ROW_KIND], row.v, row.error) for row in good] == [("-U", "a", None), ("+U", "b", None)]
    strict = kafka("id INT; v STRING", format="debezium-json")
    with pytest.raises(Exception, match=r'SS402: a row at t\[0\]@1 cannot be read: the message has no "before"'):
        Kafka().rows_of_messages(messages(UPDATED, WITHOUT_BEFORE), strict, ()).collect()


@pytest.mark.spark
def test_changes_by_key_need_no_row_of_before(kafka, messages) -> None:
    gone = '{"before": {"id": 1}, "op": "d"}'
    table = kafka("id INT; v STRING", UPSERT, format="debezium-json", changelog_mode="I,UA,D")
    decoded = Kafka().rows_of_messages(messages(WITHOUT_BEFORE, gone), table, ("id", "v"))
    assert changes(decoded) == [("+U", 1, "b"), ("-D", 1, None)]
    canal = '{"type": "UPDATE", "data": [{"id": "1", "v": "b"}], "old": null}'
    table = kafka("id INT; v STRING", UPSERT, format="canal-json", changelog_mode="I,UA,D")
    assert changes(Kafka().rows_of_messages(messages(canal), table, ("id", "v"))) == [("+U", 1, "b")]


@pytest.mark.spark
def test_old_rows_hold_what_has_changed(kafka, messages) -> None:
    """A field that is not there is as in the new row; one with NULL was NULL. Statements change no rows."""
    row = '{"id": 1, "v": "b", "d": 1.25, "at": "2024-01-31T12:00:00.5", "n": {"x": [1]}}'
    update = f'{{"type": "update", "data": {row}, "old": {{"v": null, "d": 799.92}}}}'
    columns = "id BIGINT; v STRING; d DECIMAL(5, 2); at TIMESTAMP; n STRUCT<x: ARRAY<INT>>"
    table = kafka(columns, format="maxwell-json", maxwell_json__timestamp_format__standard="ISO-8601")
    before, after = changes(Kafka().rows_of_messages(messages(update), table, ("v", "d", "at", "n")))
    time, nested = datetime(2024, 1, 31, 12, 0, 0, 500_000), ([1],)
    assert (before[0], before[1], str(before[2]), *before[3:]) == ("-U", None, "799.92", time, nested)
    assert (after[0], after[1], str(after[2]), *after[3:]) == ("+U", "b", "1.25", time, nested)
    canal = kafka("id INT; v STRING", format="canal-json")
    statement = '{"type": "ALTER", "isDdl": true, "data": null}'
    short = '{"type": "UPDATE", "data": [{"id": "1"}, {"id": "2"}], "old": [{"v": "x"}]}'
    assert changes(Kafka().rows_of_messages(messages(statement), canal, ("id",))) == []
    with pytest.raises(Exception, match='the message has no "old"'):
        Kafka().rows_of_messages(messages(short), canal, ("id",)).collect()


@pytest.mark.spark
def test_messages_have_the_key_of_their_row(kafka, spark) -> None:
    rows = spark.createDataFrame([(1, "a", "+U"), (1, "a", "-D")], f"id INT, v STRING, {ROW_KIND} STRING")
    decoded = Kafka().messages_of_rows(rows, kafka("id INT; v STRING", format="ogg-json", key__fields="id")).collect()
    assert [row.key for row in decoded] == ['{"id":1}', '{"id":1}']
    assert [json.loads(row.value) for row in decoded] == [
        {"before": None, "after": {"id": 1, "v": "a"}, "op_type": "I"},
        {"before": {"id": 1, "v": "a"}, "after": None, "op_type": "D"},
    ]


# --- jobs -----------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_job_reads_files_of_changes_in_order_and_writes_changes(spark, tmp_path: Path) -> None:
    """The newer file is the larger one, which Spark would read first in one micro-batch of both."""
    files = tmp_path / "in"
    files.mkdir()
    moved = [{"type": "update", "data": {"id": i, "v": "y"}, "old": {"v": "x"}} for i in range(3)]
    gone = [{"type": "delete", "data": {"id": i, "v": "y"}} for i in range(2)]
    came = [{"type": "insert", "data": {"id": i, "v": "x"}} for i in range(3)]
    (files / "1.json").write_text("\n".join(map(json.dumps, came)))
    (files / "2.json").write_text("\n".join(map(json.dumps, [*moved, *gone])))
    source = f"""WITH ('connector' = 'filesystem', 'format' = 'maxwell-json', 'path' = '{files}')"""
    sink = f"""WITH ('connector' = 'filesystem', 'format' = 'debezium-json', 'path' = '{tmp_path}/out')"""
    with Session(spark) as session:
        session.sql(f"CREATE TABLE t (id INT, v STRING, file STRING METADATA FROM 'file.name') {source}")
        session.sql(f"CREATE TABLE o (v STRING, n BIGINT) {sink}")
        job = session.sql("INSERT INTO o SELECT v, COUNT(*) FROM t GROUP BY v")
        assert isinstance(job, Job) and job.wait(300)
    table: Counter[str] = Counter()
    for path in sorted((tmp_path / "out").rglob("part-*")):
        for message in map(json.loads, path.read_text().splitlines()):
            row = message["after"] or message["before"]
            table[json.dumps(row)] += 1 if message["op"] == "c" else -1
    assert +table == {'{"v": "y", "n": 1}': 1}
    assert -table == {}
