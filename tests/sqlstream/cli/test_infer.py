"""``sqlstream infer``: statements that are proposed for files and topics, which our own dialect takes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from sqlstream.cli import run
from sqlstream.cli.infer import name_of
from sqlstream.formats.avro_encoder import AvroEncoder
from sqlstream.formats.registered import header_of
from sqlstream.inferring.types import columns_of_objects, columns_of_texts
from sqlstream.session import Session
from sqlstream.testing.kafka_broker import Broker
from tests.schema_registry import TestRegistry, serving
from tests.sqlstream.connectors.test_kafka_source import Topics


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The statement, which the dialect takes."""
    assert run(["infer", *words]) == 0
    text = capsys.readouterr().out
    Session().sql(text)
    return text


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["infer", *words]) != 0
    return capsys.readouterr().err


def test_csv_has_names_types_and_the_disorder_of_its_times(folder: Path, capsys: pytest.CaptureFixture[str]):
    lines = ["id,price,sold at,code,ok,day", "1,2.5,2024-01-31 12:00:20,007,true,2024-01-31",
             "2,,2024-01-31 12:00:12.5,12,FALSE,2024-02-01"]  # fmt: skip
    Path("clicks.csv.gz").write_bytes(gzip.compress("\r\n".join(lines).encode()))
    assert (
        said(capsys, "clicks.csv.gz")
        == """\
-- Proposed from 2 records of "clicks.csv.gz"; look at names and types before you rely on them.
-- What was seen came up to 7.5 s late by "sold at"; the delay of the watermark follows from that.
CREATE TABLE clicks (
  id BIGINT,
  price DOUBLE,
  `sold at` TIMESTAMP,
  code STRING,
  ok BOOLEAN,
  day DATE,
  WATERMARK FOR `sold at` AS `sold at` - INTERVAL '10' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = 'clicks.csv.gz',
  'format' = 'csv',
  'csv.header' = 'true'
);
"""
    )


def test_csv_without_a_header_and_with_another_delimiter(folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("a.tsv").write_text("1\tx\n2\ty\n")
    text = said(capsys, "a.tsv", "--name", "letters")
    assert "CREATE TABLE letters" in text and "c1 BIGINT" in text and "c2 STRING" in text
    assert "'csv.field-delimiter' = '\\t'" in text and "csv.header" not in text
    assert "-- Fields of CSV have no names here" in text


def test_json_is_nested_and_numbers_since_1970_are_times(folder: Path, capsys: pytest.CaptureFixture[str]):
    rows = [
        {"id": 1, "ts": 1_700_000_000_000, "user": {"name": "a", "tags": []}, "n": 1, "mixed": 1, "none": None},
        {"id": 2**70, "ts": 1_700_000_001_000, "user": {"name": None, "age": 3, "tags": ["x"]}, "n": 2.5, "mixed": "x"},
    ]
    Path("day=2024-01-31").mkdir()
    Path("day=2024-01-31/part.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert (
        said(capsys, ".", "--name", "events")
        == """\
-- Proposed from 2 records of "day=2024-01-31/part.jsonl"; look at names and types before you rely on them.
-- "ts" is taken for milliseconds since 1970; the delay of the watermark is a guess.
CREATE TABLE events (
  id DECIMAL(38, 0),
  ts BIGINT,
  user STRUCT<name: STRING, tags: ARRAY<STRING>, age: BIGINT>,
  n DOUBLE,
  mixed STRING,
  none STRING,
  day DATE,
  event_time AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = '.',
  'format' = 'json',
  'partition-by' = 'day'
);
"""
    )


def test_files_with_a_schema_say_their_columns(folder: Path, capsys: pytest.CaptureFixture[str]):
    table = pa.table({
        "id": pa.array([1], pa.uint32()), "at": pa.array([datetime(2024, 1, 1)], pa.timestamp("ms", "UTC")),
        "price": pa.array([None], pa.decimal128(10, 2)), "tags": pa.array([["a"]]),
    })  # fmt: skip
    pyarrow.parquet.write_table(table, "a.parquet")
    pyarrow.orc.write_table(table.drop_columns("id"), "b.orc")
    with pa.ipc.new_file("c.arrow", table.schema) as file:
        file.write_table(table)
    columns = "id BIGINT,\n  at TIMESTAMP,\n  price DECIMAL(10, 2),\n  tags ARRAY<STRING>"
    watermark = "WATERMARK FOR at AS at - INTERVAL '5' SECOND"
    for name in ("a.parquet", "c.arrow"):
        text = said(capsys, name)
        assert columns in text and watermark in text
        assert '-- Proposed from the schema of "' in text and "how late may rows come?" in text
    assert "  at TIMESTAMP,\n  price DECIMAL(10, 2)" in said(capsys, "b.orc")


@pytest.mark.parametrize(
    ("file", "content", "words", "message"),
    [
        ("", "", ["no.csv"], 'SS590: there is no file "no.csv"'),
        ("", "", ["*.csv"], 'SS590: "*.csv" has no files with content'),
        ("a.dat", "x", ["a.dat"], 'SS505: the name of "a.dat" does not say what its format is'),
        ("a.json", "[1]", ["a.json"], 'SS505: "a.json" is no json: [1]'),
        ("a.parquet", "PAR", ["a.parquet"], 'SS505: "a.parquet" cannot be read as parquet'),
        ("a.avro", "x" * 100, ["a.avro"], 'SS505: "a.avro" cannot be read as avro'),
        ("a.csv", "x", ["a.csv", "--registry", "http://h"], "--registry is of topics"),
        ("", "", ["kafka://h:1"], 'SS590: "kafka://h:1" has no topic'),
        ("", "", ["kafka:///t"], 'SS590: "kafka:///t" is no address of a topic'),
        ("", "", ["kafka://h:1/t", "--format", "orc"], '--format "orc" is one of files'),
        ("", "", ["kafka://h:1/t", "--property", "acks"], '--property "acks" is no NAME=VALUE'),
    ],
)  # fmt: skip
def test_what_cannot_be_seen_is_said_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, content: str, words: list[str], message: str
):
    if file:
        Path(file).write_text(content)
    text = refused(capsys, *words)
    assert message in text and ("HINT: " in text or "--help" in text or "Usage" in text)


def test_types_are_those_that_hold_all_values():
    rows = [{"a": {f"k{i}": i}, "b": [1, 2.5], "c": {"x": 1}, "d": True, "e": "2024-13-01"} for i in range(50)]
    rows += [{"a": {}, "b": [], "c": [1], "d": 1, "e": "2024-01-01T00:00:00Z"}]
    found = {column.name: column.type.ddl() for column in columns_of_objects(rows)}
    assert found == {"a": "MAP<STRING, BIGINT>", "b": "ARRAY<DOUBLE>", "c": "VARIANT", "d": "STRING", "e": "STRING"}
    texts = columns_of_texts(["a", "b", "c"], [["1", "", "1e5"], ["99999999999999999999", "", ".5"]])
    assert [(c.type.ddl(), c.nullable) for c in texts] == [
        ("DECIMAL(38, 0)", False),
        ("STRING", True),
        ("DOUBLE", False),
    ]


def test_names_of_tables_are_those_of_files_and_topics():
    assert [name_of(text) for text in ("data/Click-stream.csv.gz", "kafka://h:1/shop.orders", "1.csv", "*.json")] == [
        "click_stream", "shop_orders", "t_1", "t",
    ]  # fmt: skip


# --- topics -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[TestRegistry]:
    with serving() as registry:
        yield registry


@pytest.mark.spark  # the broker needs Java
def test_topics_of_json_with_keys_and_csv(kafka_broker: Broker, folder: Path, capsys: pytest.CaptureFixture[str]):
    topics = Topics(kafka_broker)
    topic = topics.create(2)
    topics.send(topic, b'{"id": 1, "at": "2024-01-31T12:00:00Z"}', None, b'{"id": 2, "at": null}', key=b"k")
    address = f"kafka://{kafka_broker.address}/{topic}"
    assert (
        said(capsys, address, "--name", "orders", "--property", "client.id=me")
        == f"""\
-- Proposed from the last 2 messages of topic "{topic}"; look at names and types before you rely on them.
-- No column is an event time without NULL, so the time of the message is; its delay is a guess.
CREATE TABLE orders (
  id BIGINT,
  at TIMESTAMP,
  message_key STRING,
  event_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '{topic}',
  'properties.bootstrap.servers' = '{kafka_broker.address}',
  'properties.client.id' = 'me',
  'scan.startup.mode' = 'earliest-offset',
  'value.format' = 'json',
  'key.format' = 'raw',
  'key.fields' = 'message_key',
  'value.fields-include' = 'EXCEPT_KEY'
);
"""
    )
    other, empty = topics.create(), topics.create()
    topics.send(other, b"1|a", b"2|b")
    assert "'csv.field-delimiter' = '|'" in said(capsys, f"kafka://{kafka_broker.address}/{other}")
    assert f'topic "{empty}" has no messages with values' in refused(capsys, f"kafka://{kafka_broker.address}/{empty}")
    topics.send(empty, b"\xff\xfe")
    assert "are bytes that say nothing of their columns" in refused(capsys, f"kafka://{kafka_broker.address}/{empty}")
    assert "does not exist" in refused(capsys, f"kafka://{kafka_broker.address}/nothing")


@pytest.mark.spark  # the broker needs Java
def test_messages_of_a_registry_have_the_columns_of_their_schema(
    kafka_broker: Broker, server: TestRegistry, folder: Path, capsys: pytest.CaptureFixture[str]
):
    topics = Topics(kafka_broker)
    topic = topics.create()
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    number = server.register(f"{topic}-value", schema)
    (body,) = AvroEncoder(json.dumps(schema)).encoded(pa.record_batch({"a": pa.array([5])})).to_pylist()
    topics.send(topic, header_of(number) + body)
    address = f"kafka://{kafka_broker.address}/{topic}"
    text = said(capsys, address, "--registry", server.url)
    assert "  a BIGINT,\n" in text and f"'avro-confluent.url' = '{server.url}'" in text
    message = refused(capsys, address)
    assert f"messages begin with the id of a schema ({number})" in message and "--registry http://host:8081" in message
