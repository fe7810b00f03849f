"""Formats of messages with a schema, as tables of Kafka have them: options, keys, and messages of a real broker."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import jsonschema
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from sqlstream.connectors import validate
from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.connectors.kafka.messages import key_values, table_of_keys
from sqlstream.connectors.on_spark.decoders import decoder_of
from sqlstream.connectors.on_spark.encoders import json_header, message_encoder
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.formats.decoder import Decoded
from sqlstream.formats.registered import header_of
from sqlstream.planner.catalog import Column, Table
from sqlstream.session import Session
from sqlstream.testing.kafka_broker import Broker
from sqlstream.types import parse_type
from tests.schema_registry import TestRegistry, basic, serving
from tests.sqlstream.connectors.test_kafka_jobs import declare, rows
from tests.sqlstream.connectors.test_kafka_source import Topics

MakeTable = Callable[..., Table]


@pytest.fixture(scope="module")
def server() -> Iterator[TestRegistry]:
    with serving() as registry:
        yield registry


@pytest.fixture
def kafka(make_table: MakeTable) -> MakeTable:
    def make(columns: str, metadata: dict[str, str] | None = None, **options: object) -> Table:
        given = {"topic": "t", "properties__bootstrap__servers": "h:1"} | options
        return make_table("kafka", columns, metadata, **given)

    return make


def decoded(table: Table, *messages: bytes | None) -> Decoded:
    names = tuple(c.name for c in table.physical_columns)
    decoder = decoder_of(table, names, Kafka().values(table), "UTC", all_columns=True)
    assert decoder is not None
    return decoder.messages(pa.array(messages, pa.binary()))


def encoded(table: Table, *given: dict[str, Any], subject: str = "t-value") -> list[bytes]:
    columns = pa.schema([(c.name, c.type.to_arrow()) for c in table.physical_columns])
    batch = pa.RecordBatch.from_pylist([*given], schema=columns).to_struct_array()
    encoder = message_encoder(table, tuple(columns.names), Kafka().values(table), subject)
    return list(encoder.encoded(batch).to_pylist())


def said(table: Table) -> list[str]:
    """What is wrong with a table, in lines."""
    wrong = [(f"{d.code}: {d.message}", d.hint and f"HINT: {d.hint}") for d in validate(table, {})]
    return [line for lines in wrong for line in lines if line]


def test_messages_of_avro_have_the_schema_of_the_columns_as_in_flink(kafka: MakeTable):
    table = kafka("a BIGINT; t TIMESTAMP; tags ARRAY<STRING>", format="avro")
    required = Table(
        "t",
        (Column("a", parse_type("BIGINT"), nullable=False), Column("t", parse_type("TIMESTAMP"), precision=3),
         table.columns[2]),
        "kafka", table.options,
    )  # fmt: skip
    row = {"a": -1, "t": datetime(2024, 1, 31, tzinfo=UTC), "tags": ["x", None]}
    (message,) = encoded(required, row)
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {
        "type": "record", "name": "record",
        "fields": [{"name": "a", "type": "long"}, {"name": "t", "type": ["null", millis]},
                   {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]}],
    }  # fmt: skip
    assert fastavro.schemaless_reader(io.BytesIO(message), fastavro.parse_schema(schema), None) == row
    assert decoded(required, message, message[:-1]).rows.to_pylist() == [row]
    assert decoded(table, *encoded(table, row)).rows.to_pylist() == [row]


def test_a_schema_that_is_given_is_read_and_written(kafka: MakeTable):
    schema = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "string"}, {"name": "a", "type": "int"}]}
    table = kafka("a BIGINT; b STRING", format="avro", avro__schema=json.dumps(schema))
    found = decoded(table, b"\2x\4")
    assert found.rows.to_pylist() == [{"a": 2, "b": "x"}]
    with pytest.raises(ConnectorError) as caught:
        encoded(table, {"a": 2, "b": "x"})
    assert str(caught.value).splitlines() == [
        'SS505: column "a" of type BIGINT is not written as "int", its type in the schema',
        "HINT: Give columns the types of the schema, or leave the option schema of the format out.",
    ]
    assert encoded(kafka("a INT; b STRING", format="avro", avro__schema=json.dumps(schema)), {"a": 2, "b": "x"}) == [
        b"\2x\4"
    ]
    with pytest.raises(
        ConnectorError, match='SS505: the schema of table "t" has "b" as STRING, which is not read as INT'
    ):
        decoded(kafka("b INT", format="avro", avro__schema=json.dumps(schema)), b"")
    with pytest.raises(ExecutionError, match='SS597: a row cannot be written: column "b" is NULL, which its type in'):
        encoded(kafka("a INT; b STRING", format="avro", avro__schema=json.dumps(schema)), {"a": 2, "b": None})
    for columns, message in (
        ("a INT", 'table "t" has no column "b", for which its schema has no default'),
        ("a INT; b STRING; c INT", 'the schema of table "t" has no field "c"'),
    ):
        with pytest.raises(ConnectorError, match=message):
            encoded(kafka(columns, format="avro", avro__schema=json.dumps(schema)))


def test_sinks_register_their_schema_and_sources_find_it_by_its_id(
    kafka: MakeTable, server: TestRegistry, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGISTRY_USER", "ann:s3cret")
    server.authorization = basic("ann:s3cret")
    options = {"format": "avro-confluent", "avro-confluent__url": server.url,
               "avro-confluent__basic-auth__user-info": "${REGISTRY_USER}"}  # fmt: skip
    table = kafka("a BIGINT; b STRING", **options)
    row = {"a": 1, "b": None}
    monkeypatch.setenv("TOPIC", "mine")
    (message,) = encoded(table, row, subject="${TOPIC}-value")
    number = server.subjects["mine-value"][-1]
    assert message == header_of(number) + b"\2\2\0"
    assert decoded(table, message).rows.to_pylist() == [row]
    named = kafka("a BIGINT; b STRING", **options, **{"avro-confluent__subject": "other"})
    encoded(named)
    assert server.subjects["other"] == [number]
    strict = {"avro-confluent__properties__auto__register__schemas": "false", "avro-confluent__subject": "third"}
    with pytest.raises(ConnectorError) as caught:
        encoded(kafka("a BIGINT; b STRING", **options, **strict))
    assert str(caught.value).splitlines() == [
        'SS599: subject "third" of the schema registry does not have the schema of the table',
        "HINT: Name its schema in the option schema of the format, or leave properties.auto.register.schemas out.",
    ]
    server.authorization = None


def test_keys_have_a_schema_of_their_own(kafka: MakeTable, server: TestRegistry):
    table = kafka(
        "k BIGINT; v STRING", format="avro", key__format="avro-confluent", key__fields="k",
        **{"key__avro-confluent__url": server.url, "value__fields_include": "EXCEPT_KEY"},
    )  # fmt: skip
    assert not validate(table, {})
    keys, values = table_of_keys(table), key_values(table)
    encoder = message_encoder(keys, ("k",), values, "t-key")
    (message,) = encoder.encoded(pa.StructArray.from_arrays([pa.array([7])], ["k"])).to_pylist()
    assert server.schemas[server.subjects["t-key"][0]]["schema"].count('"name"') == 2
    decoder = decoder_of(keys, ("k",), values, "UTC", all_columns=True)
    assert decoder is not None
    assert decoder.messages(pa.array([message], pa.binary())).rows.to_pylist() == [{"k": 7}]


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ({"format": "avro-confluent"},
         ['SS503: format "avro-confluent" requires the option "avro-confluent.url"',
          "HINT: Add 'avro-confluent.url' = 'http://…' to WITH."]),
        ({"format": "avro-confluent", "avro-confluent.url": "localhost:8081"},
         ['SS504: option "avro-confluent.url" is no URL of http or https', "HINT: Write 'http://host:8081'."]),
        ({"format": "avro-confluent", "avro-confluent.url": "http://h",
          "avro-confluent.ssl.truststore.location": "a.jks"},
         ['SS504: option "avro-confluent.ssl.truststore.location" is no file of PEM',
          "HINT: Convert the file to PEM (keytool, openssl pkcs12)."]),
        ({"format": "avro-confluent", "avro-confluent.url": "http://h",
          "avro-confluent.basic-auth.credentials-source": "USER_INFO"},
         ['SS503: "avro-confluent.basic-auth.credentials-source" = "USER_INFO" needs the option '
          '"avro-confluent.basic-auth.user-info"']),
        ({"format": "avro-confluent", "avro-confluent.url": "http://h", "avro-confluent.bearer-auth.token": "t",
          "avro-confluent.basic-auth.user-info": "a:b"},
         ['SS504: options "avro-confluent.basic-auth.user-info" and "avro-confluent.bearer-auth.token" exclude each '
          'other',
          "HINT: Leave one out."]),
        ({"format": "avro", "avro.schema": '{"type": "recor"}'},
         ['SS504: option "avro.schema" names the type "recor", which it does not define',
          "HINT: Write a schema of Avro as JSON."]),
        ({"format": "avro", "avro.schema": '"long"'},
         ['SS504: option "avro.schema" is the schema of a long, not of a record',
          "HINT: Each column is a field of the record."]),
        ({"format": "avro", "avro.schema":
          '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int", "default": "x"}]}'},
         ['SS504: option "avro.schema" has the default "x" for a field of type int, which lacks it',
          "HINT: Write a schema of Avro as JSON."]),
        ({"format": "protobuf", "protobuf.message-class-name": "A"},
         ['SS503: format "protobuf" requires one of the options "protobuf.descriptor" and "protobuf.schema"',
          "HINT: The first is a file that protoc writes, the second the text of a .proto."]),
        ({"format": "protobuf", "protobuf.schema": "message A {}"},
         ['SS503: format "protobuf" requires the option "protobuf.message-class-name"',
          "HINT: Add 'protobuf.message-class-name' = '…', the name of a message."]),
        ({"format": "protobuf", "protobuf.schema": "message A {}", "protobuf.message-class-name": "B"},
         ['SS504: option "protobuf.schema" has no message "B"; it has A',
          "HINT: Correct it, or the option protobuf.message-class-name."]),
        ({"format": "protobuf", "protobuf.descriptor": "/none", "protobuf.message-class-name": "B"},
         ['SS504: option "protobuf.descriptor" is a file that cannot be read: No such file or directory',
          "HINT: protoc writes it, with --descriptor_set_out."]),
        ({"format": "json", "avro-confluent.url": "http://h"},
         ['SS504: option "avro-confluent.url" has no effect with format "json"', "HINT: Leave it out."]),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(options: dict[str, str], messages: list[str]):
    given = {"topic": "t", "properties.bootstrap.servers": "h:1"} | options
    table = Table("t", (Column("a", parse_type("INT")),), "kafka", tuple(given.items()))
    assert said(table) == messages


def test_types_that_avro_does_not_have_are_refused(kafka: MakeTable):
    assert said(kafka("a VARIANT", format="avro")) == [
        'SS505: format "avro" cannot hold column "a" of type VARIANT', "HINT: Avro has no VARIANT; use another format."
    ]  # fmt: skip


ORDER = 'syntax = "proto3"; package shop; message Line { int32 n = 1; } message Order { int64 id = 1; string s = 2; }'


def test_messages_of_protobuf_have_the_type_of_a_text_or_a_descriptor(kafka: MakeTable, tmp_path: Path):
    file = descriptor_pb2.FileDescriptorSet()
    message = file.file.add(name="o.proto", syntax="proto3", package="shop").message_type.add(name="Order")
    for number, name, kind in ((1, "id", "INT64"), (2, "s", "STRING")):
        message.field.add(name=name, number=number, type=f"TYPE_{kind}", label="LABEL_OPTIONAL")
    (tmp_path / "o.desc").write_bytes(file.SerializeToString())
    row = {"id": 5, "s": "x"}
    for given in ({"protobuf__schema": ORDER}, {"protobuf__descriptor": tmp_path / "o.desc"}):
        table = kafka(
            "id BIGINT; s STRING", format="protobuf", **given, **{"protobuf__message-class-name": "shop.Order"}
        )
        assert said(table) == []
        assert encoded(table, row) == [b"\x08\5\x12\1x"]
        assert decoded(table, *encoded(table, row), b"", b"\x12").rows.to_pylist() == [row, {"id": 0, "s": ""}]
    java = {"format": "protobuf", "protobuf__schema": ORDER, "protobuf__message-class-name": "com.shop.Shop$Order"}
    assert said(kafka("id BIGINT", **java)) == []
    with pytest.raises(ConnectorError) as caught:
        decoded(kafka("other INT", **java))
    assert str(caught.value).splitlines() == [
        'SS505: the schema of table "t" has no field "other" in message shop.Order',
        "HINT: Give columns the names and types of the schema in the options of the format protobuf.",
    ]
    with pytest.raises(ConnectorError, match='SS505: the schema of table "t" has "s" as string, as which INT is not'):
        encoded(kafka("s INT", **java))
    with pytest.raises(
        ExecutionError, match='SS597: a row cannot be written: column "id" has a number that is no int64'
    ):
        encoded(kafka("id DECIMAL(20, 0)", **java), {"id": Decimal(2**63)})


def test_sinks_of_protobuf_register_a_text_and_say_which_message_they_write(kafka: MakeTable, server: TestRegistry):
    options = {"format": "protobuf-confluent", "protobuf-confluent__url": server.url}
    table = kafka("id BIGINT; s STRING", **options)
    row = {"id": 0, "s": None}
    (message,) = encoded(table, row, subject="proto-value")
    number = server.subjects["proto-value"][0]
    assert server.schemas[number]["schemaType"] == "PROTOBUF"
    assert "optional int64 id = 1;" in server.schemas[number]["schema"]
    assert message == header_of(number) + b"\0\x08\0"
    assert decoded(table, message).rows.to_pylist() == [row]
    given = {"protobuf-confluent__schema": ORDER, "protobuf-confluent__message-class-name": "Order"}
    table = kafka("id BIGINT; s STRING", **options, **given)
    (message,) = encoded(table, {"id": 1, "s": "x"}, subject="other-value")
    assert message[5:] == b"\2\2\x08\1\x12\1x"
    assert decoded(table, message).rows.to_pylist() == [{"id": 1, "s": "x"}]
    with pytest.raises(
        ConnectorError, match=r'the schema of table "t" cannot be made: protobuf has no DECIMAL\(5, 1\)'
    ):
        encoded(kafka("d DECIMAL(5, 1)", **options))


def test_messages_of_json_follow_the_id_of_a_schema_that_is_made_of_the_columns(kafka: MakeTable, server: TestRegistry):
    options = {
        "format": "json-confluent",
        "json-confluent__url": server.url,
        "json-confluent__ignore-parse-errors": "true",
    }
    table = kafka("a INT; tags ARRAY<STRING>; r STRUCT<x: DOUBLE>; m MAP<STRING, DATE>", **options)
    header = json_header(table, ("a", "tags"), Kafka().values(table), "json-value")
    number = server.subjects["json-value"][0]
    assert header == header_of(number)
    assert json.loads(server.schemas[number]["schema"]) == {
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "Record", "type": "object",
        "properties": {
            "a": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
            "tags": {"oneOf": [{"type": "null"},
                               {"type": "array", "items": {"oneOf": [{"type": "null"}, {"type": "string"}]}}]},
        },
    }  # fmt: skip
    found = decoded(table, header + b'{"a": 1, "tags": ["x"]}', header + b'{"a": "x"}', b'{"a": 1}')
    assert [(row["a"], row["tags"]) for row in found.rows.to_pylist()] == [(1, ["x"]), (None, None)]
    assert [fault.record for fault in found.faults] == [2]
    json_header(table, ("r", "m"), Kafka().values(table), "more-value")
    jsonschema.Draft7Validator.check_schema(json.loads(server.schemas[server.subjects["more-value"][0]]["schema"]))


@pytest.mark.spark
def test_spark_reads_and_writes_keys_and_values_by_their_schemas(spark: Any, kafka: MakeTable, server: TestRegistry):
    table = kafka(
        "k BIGINT; v STRING", {"o": "offset"}, format="avro-confluent", key__format="avro", key__fields="k",
        **{"avro-confluent__url": server.url, "value__fields_include": "EXCEPT_KEY", "on_error": "skip"},
    )  # fmt: skip
    given = spark.createDataFrame([(7, "x"), (None, "y")], "k BIGINT, v STRING")
    written = Kafka().messages_of_rows(given, table).collect()
    number = server.subjects["t-value"][-1]
    assert [(bytes(m.key), bytes(m.value)) for m in written] == [
        (b"\2\x0e", header_of(number) + b"\2\2x"), (b"\0", header_of(number) + b"\2\2y")
    ]  # fmt: skip
    messages = [(m.key, m.value, "t", 0, n) for n, m in enumerate(written)]
    messages += [(None, written[0].value, "t", 0, 2), (b"\2", written[0].value, "t", 0, 3), (None, None, "t", 0, 4)]
    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"
    read = Kafka().rows_of_messages(spark.createDataFrame(messages, schema), table, ("v", "o", "k")).collect()
    assert [(row.v, row.o, row.k) for row in read] == [("x", 0, 7), ("y", 1, None), ("x", 2, None), (None, 3, None)]
    assert [(row["__bad"] and row["__bad"].error) for row in read] == [
        None, None, None, 'SS402: it ends within column "k"'
    ]  # fmt: skip


@pytest.mark.spark
def test_spark_writes_json_after_the_id_of_its_schema(spark: Any, kafka: MakeTable, server: TestRegistry):
    table = kafka(
        "a BIGINT; v VARIANT", format="json-confluent", on_error="skip", **{"json-confluent__url": server.url}
    )  # fmt: skip
    given = spark.sql("SELECT 7L AS a, parse_json('[1, 2]') AS v")
    (written,) = Kafka().messages_of_rows(given, table).collect()
    number = server.subjects["t-value"][-1]
    assert bytes(written.value) == header_of(number) + b'{"a":7,"v":[1,2]}'
    messages = spark.createDataFrame(
        [(None, written.value, "t", 0, 0), (None, b"{}", "t", 0, 1)],
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT",
    )
    rows = Kafka().rows_of_messages(messages, table, ("v", "a")).selectExpr("a", "to_json(v)", "__bad.error").collect()
    assert [tuple(row)[:2] for row in rows] == [(7, "[1,2]"), (None, None)]


@pytest.mark.spark
def test_a_job_reads_a_topic_whose_schema_changes(spark: Any, kafka_broker: Broker, server: TestRegistry):
    topics = Topics(kafka_broker)
    topic = topics.create()
    one = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    two = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "string"}, {"name": "a", "type": "int"}]}
    first, second = server.register("changes-value", one), server.register("changes-value", two)
    topics.send(topic, header_of(first) + b"\2", header_of(second) + b"\2x\4", b"no", None, header_of(first) + b"\6")
    import sqlstream

    with sqlstream.connect(spark) as session:
        declared(session, topics, topic, server)
        assert rows(session, "SELECT a, b, o FROM t") == [(1, None, 0), (2, "x", 1), (3, None, 4)]


def declared(session: Session, topics: Topics, topic: str, server: TestRegistry) -> None:
    declare(
        session, topics, "a BIGINT, b STRING, o BIGINT METADATA FROM 'offset'", topic, format="avro-confluent",
        scan__bounded__mode="latest-offset", on_error="skip", **{"avro-confluent__url": server.url},
    )  # fmt: skip
