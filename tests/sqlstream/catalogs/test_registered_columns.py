"""CREATE TABLE without columns, which a schema registry has; no Kafka is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.results import Rows
from sqlstream.session import Session
from tests.schema_registry import TestRegistry, serving

AVRO = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "more", "type": {"type": "map", "values": "int"}},
        {"name": "buyer", "type": {"type": "record", "name": "Buyer", "fields": [{"name": "name", "type": "string"}]}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 4}},
    ],
}  # fmt: skip
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  enum Kind { A = 0; B = 1; }
  message Item { string name = 1; repeated int32 counts = 2; }
  int64 id = 1;
  uint32 small = 2;
  fixed64 large = 3;
  Kind kind = 4;
  google.protobuf.Timestamp at = 5;
  google.protobuf.DoubleValue price = 6;
  repeated Item items = 7;
  map<string, bool> flags = 8;
  bytes raw = 9;
}
message Node { string name = 1; Node next = 2; }
"""
JSON = {
    "type": "object", "definitions": {"Buyer": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "properties": {
        "id": {"type": "integer"},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "small": {"type": "integer", "connect.type": "int16"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": ["null", "string"], "format": "date"},
        "buyer": {"$ref": "#/definitions/Buyer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "kind": {"enum": ["A", "B"]},
        "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[TestRegistry]:
    with serving() as registry:
        registry.register("avro-value", AVRO)
        registry.register("proto-value", PROTO, "PROTOBUF")
        registry.register("json-value", JSON, "JSON")
        registry.register("made-value", {"type": "record", "name": "V", "fields": [{"name": "v", "type": "string"}]})
        registry.register(
            "made-key",
            {"type": "record", "name": "K", "fields": [{"name": n, "type": "int"} for n in ("id", "other")]},
        )
        yield registry


def declare(server: TestRegistry, form: str, topic: str, columns: str = "", **options: str) -> dict[str, str]:
    """The columns of the table that the statement declares, as SHOW COLUMNS has them."""
    session = Session()
    connector = options.pop("connector", "kafka")
    part = "value." if connector == "upsert-kafka" else ""
    given = {
        "connector": connector, "topic": topic, "properties.bootstrap.servers": "h:1", f"{part}format": form,
        f"{part}{form}.url": server.url, **{key.replace("__", "."): value for key, value in options.items()},
    }  # fmt: skip
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    session.sql(f"CREATE TABLE t {columns} WITH ({pairs})")
    result = session.sql("SHOW COLUMNS FROM t")
    assert isinstance(result, Rows)
    return {str(row[0]): str(row[1]) for row in result}


def test_columns_of_avro_are_those_of_the_newest_schema(server: TestRegistry):
    assert declare(server, "avro-confluent", "avro") == {
        "id": "BIGINT", "price": "DECIMAL(10, 2)", "at": "TIMESTAMP", "local": "TIMESTAMP_NTZ", "day": "DATE",
        "clock": "TIME", "kind": "STRING", "tags": "ARRAY<STRING>", "more": "MAP<STRING, INT>",
        "buyer": "STRUCT<name: STRING>", "digest": "BINARY",
    }  # fmt: skip


def test_columns_of_protobuf_are_the_fields_of_the_first_message(server: TestRegistry):
    assert declare(server, "protobuf-confluent", "proto") == {
        "id": "BIGINT", "small": "BIGINT", "large": "DECIMAL(20, 0)", "kind": "STRING", "at": "TIMESTAMP",
        "price": "DOUBLE", "items": "ARRAY<STRUCT<name: STRING, counts: ARRAY<INT>>>", "flags": "MAP<STRING, BOOLEAN>",
        "raw": "BINARY",
    }  # fmt: skip
    more = {"protobuf-confluent.message-class-name": "Order.Item"}
    assert declare(server, "protobuf-confluent", "proto", **more) == {"name": "STRING", "counts": "ARRAY<INT>"}


def test_columns_of_json_are_the_properties_of_the_object(server: TestRegistry):
    assert declare(server, "json-confluent", "json") == {
        "id": "BIGINT", "price": "DOUBLE", "small": "SMALLINT", "at": "TIMESTAMP", "day": "DATE",
        "buyer": "STRUCT<name: STRING>", "tags": "ARRAY<STRING>", "more": "MAP<STRING, BOOLEAN>", "kind": "STRING",
        "any": "VARIANT",
    }  # fmt: skip


def test_watermarks_metadata_and_keys_stand_beside_the_columns_of_the_registry(server: TestRegistry):
    columns = "(o BIGINT METADATA FROM 'offset', WATERMARK FOR at AS at - INTERVAL '5' SECOND)"
    assert list(declare(server, "avro-confluent", "avro", columns))[-2:] == ["digest", "o"]
    keys = {
        "key.format": "avro-confluent", "key.avro-confluent.url": server.url, "key.fields": "k_id",
        "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY",
    }  # fmt: skip
    assert declare(server, "avro-confluent", "made", **keys) == {"k_id": "INT", "v": "STRING"}
    del keys["key.fields"], keys["key.fields-prefix"]
    columns = "(PRIMARY KEY (id) NOT ENFORCED)"
    assert declare(server, "avro-confluent", "made", columns, connector="upsert-kafka", **keys) == {
        "id": "INT", "v": "STRING",
    }  # fmt: skip


def test_the_definition_has_the_columns_so_that_a_later_schema_does_not_change_the_table(server: TestRegistry):
    server.register("later-value", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
    session = Session()
    session.sql(
        "CREATE TABLE t WITH ('connector' = 'kafka', 'topic' = 'later', 'properties.bootstrap.servers' = 'h:1', "
        f"'format' = 'avro-confluent', 'avro-confluent.url' = '{server.url}')"
    )
    server.register("later-value", {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]})
    result = session.sql("SHOW CREATE TABLE t")
    assert isinstance(result, Rows)
    (row,) = result
    assert "`a` INT" in str(row[0]) or "a INT" in str(row[0])


@pytest.mark.parametrize(
    ("subject", "schema", "kind", "message"),
    [
        (None, None, "AVRO", '"none-value", whose columns the table would have'),
        ("none-value", '"long"', "AVRO", 'the schema of subject "none-value" is a long, not a record'),
        ("none-value", json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "u", "type": ["int", "string"]}]}), "AVRO", 'has for "u" a union of several types'),
        ("none-value", json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "r", "type": ["null", "R"]}]}), "AVRO", 'has for "r" a record without fields, or within itself'),
        ("none-value", '{"type": "string"}', "JSON", 'is no object with "properties"'),
    ],
)  # fmt: skip
def test_what_has_no_columns_is_refused_with_what_to_do(subject, schema, kind, message):
    form = "json-confluent" if kind == "JSON" else "avro-confluent"
    with serving() as server:
        if subject is not None:
            server.register(subject, schema, kind)
        with pytest.raises(SqlStreamError) as caught:
            declare(server, form, "none")
    assert message in str(caught.value) and "HINT: Declare the columns" in str(caught.value)
    assert "LINE 1: CREATE TABLE t" in str(caught.value)


def test_several_topics_have_no_one_subject(server: TestRegistry):
    with pytest.raises(SqlStreamError, match="columns are left out, and the table is not of one topic"):
        declare(server, "avro-confluent", "a;b")
    assert list(declare(server, "avro-confluent", "a;b", **{"avro-confluent.subject": "made-value"})) == ["v"]
