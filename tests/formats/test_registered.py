"""Messages of a schema registry: several schemas in a batch, read by the table's columns; headers that are wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.errors import ConnectorError
from sqlstream.formats.avro import AvroDecoder
from sqlstream.formats.changes import INSERT, ChangeDecoder, Envelope
from sqlstream.formats.decoder import Decoded, Decoder, Field, OptionalRecords
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.protobuf import ProtobufDecoder, ProtoType
from sqlstream.formats.registered import (
    RegisteredAvro,
    RegisteredDecoder,
    RegisteredJson,
    RegisteredProtobuf,
    header_of,
    indexes_of,
    written_indexes,
)
from sqlstream.formats.schema_registry import JSON, PROTOBUF, Registry
from sqlstream.formats.text_rule import bytes_of, offsets_of
from sqlstream.types import parse_type
from sqlstream.udfs.messages import PLACE, VALUE, MessageRows
from tests.schema_registry import TestRegistry, serving


@pytest.fixture(scope="module")
def server() -> Iterator[TestRegistry]:
    with serving() as registry:
        yield registry


def fields(columns: str) -> tuple[Field, ...]:
    return tuple(Field(name, kind) for name, kind in parse_type(f"STRUCT<{columns}>").fields())


def avro(server: TestRegistry, columns: str, reader: str | None = None) -> RegisteredAvro:
    return RegisteredAvro(fields(columns), Registry((server.url,), patience=0.5), reader)


def record(*members: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [*members], **more}


def member(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def message(number: int, schema: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return header_of(number) + file.getvalue()


def read(decoder: RegisteredDecoder, *messages: bytes | None) -> Decoded:
    return decoder.messages(pa.array(messages, pa.binary()))


def reasons(found: Decoded) -> dict[int, str]:
    return {fault.record: fault.reason for fault in found.faults}


ONE = record(member("a", "long"), member("b", "string"))
OTHER = record(member("b", ["null", "string"]), member("new", "double"), member("a", "int"))


def test_versions_of_a_schema_are_read_by_the_columns_names_in_the_order_of_messages(server: TestRegistry):
    first, second = server.register("order", ONE), server.register("order", OTHER)
    values = [
        message(first, ONE, {"a": 1, "b": "x"}), message(second, OTHER, {"a": 2, "b": None, "new": 0.5}),
        message(first, ONE, {"a": 3, "b": "z"}), message(second, OTHER, {"a": 4, "b": "y", "new": 1.5}),
    ]  # fmt: skip
    found = read(avro(server, "b STRING, a BIGINT"), *values)
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [("x", 1), (None, 2), ("z", 3), ("y", 4)]
    assert (found.records, found.numbers.tolist()) == (4, [0, 1, 2, 3])
    found = read(avro(server, "new DOUBLE, a BIGINT"), *values)
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [(None, 1), (0.5, 2), (None, 3), (1.5, 4)]
    found = RegisteredAvro((Field("a", parse_type("BIGINT"), wanted=False),), Registry((server.url,))).messages(
        pa.array(values, pa.binary())
    )
    assert found.rows.num_rows == 4


def test_aliases_and_defaults_are_those_of_the_readers_schema(server: TestRegistry):
    number = server.register("aliases", ONE)
    reader = record(
        member("n", "long", aliases=["a"]), member("price", {"type": "bytes", "logicalType": "decimal", "precision": 5,
        "scale": 2}, default="\x30\x39"), member("tags", {"type": "array", "items": "string"}, default=["x"]),
        member("nothing", ["null", "int"], default=None),
    )  # fmt: skip
    decoder = avro(server, "n DOUBLE, price DECIMAL(5, 2), tags ARRAY<STRING>, nothing INT", json.dumps(reader))
    found = read(decoder, message(number, ONE, {"a": 7, "b": ""}))
    assert found.rows.to_pylist() == [{"n": 7.0, "price": Decimal("123.45"), "tags": ["x"], "nothing": None}]


@pytest.mark.parametrize(
    ("kind", "like", "default", "reason"),
    [
        ("STRING", "int", 5, 'has a default of "z" of type int, which is not read as STRING'),
        ("DATE", "string", "x", 'has a default of "z" of type string, which is not read as DATE'),
        ("STRUCT<x: INT>", {"type": "map", "values": "int"}, {}, 'has a default of "z" of type map, which is'),
        ("STRUCT<x: STRUCT<y: INT>>", {**record(name="Loop"), "fields": [member("x", "Loop", default={})]}, {},
         "has the default {}, which holds itself without end"),
    ],
)  # fmt: skip
def test_a_default_that_is_none_of_its_column_is_a_fault(
    server: TestRegistry, kind: str, like: Any, default: Any, reason: str
):
    number = server.register("aliases", ONE)
    reader = json.dumps(record(member("a", "long"), member("z", like, default=default)))
    decoder = RegisteredAvro(fields(f"a BIGINT, z {kind}"), Registry((server.url,)), reader)
    found = reasons(read(decoder, message(number, ONE, {"a": 1, "b": "x"})))
    assert found[0].startswith(f"schema {number} of the registry {reason}")


def test_logical_types_and_names_of_types_are_read(server: TestRegistry):
    color = {"type": "enum", "name": "Color", "namespace": "n", "symbols": ["RED", "BLUE"]}
    schema = record(
        member("micros", {"type": "long", "logicalType": "timestamp-micros"}),
        member("millis", {"type": "long", "logicalType": "timestamp-millis"}),
        member("clock", {"type": "long", "logicalType": "local-timestamp-millis"}),
        member("id", {"type": "string", "logicalType": "uuid"}),
        member("fixed", {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}),
        member("amount", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}),
        member("color", color),
        member("colors", {"type": "map", "values": "n.Color"}),
    )
    plain = json.loads(json.dumps(schema).replace(', "size": 16, "logicalType": "uuid"', ', "size": 16'))
    number = server.register("logical", schema)
    time, uuid = datetime(2024, 1, 31, 12, 0, 0, 250_000), UUID(int=2**127 + 5)
    value = {
        "micros": time.replace(microsecond=250_001, tzinfo=UTC), "millis": time.replace(tzinfo=UTC), "clock": time,
        "id": uuid, "fixed": uuid.bytes, "amount": Decimal("-12345678901234567.125"), "color": "BLUE",
        "colors": {"k": "RED"},
    }  # fmt: skip
    columns = (
        "micros TIMESTAMP, millis TIMESTAMP, clock TIMESTAMP_NTZ, id STRING, fixed STRING, amount DECIMAL(20, 3), "
        "color STRING, colors MAP<STRING, STRING>"
    )
    found = read(avro(server, columns), message(number, plain, value))
    (row,) = found.rows.to_pylist()
    assert row == {**value, "id": str(uuid), "fixed": str(uuid), "colors": [("k", "RED")]}


def test_headers_that_are_wrong_are_faults_of_their_message(server: TestRegistry):
    number = server.register("order", ONE)
    good = message(number, ONE, {"a": 1, "b": "x"})
    found = read(
        avro(server, "a BIGINT, b STRING"),
        good, None, b"", b"\0\0\0", b'{"a": 1}', good[5:], header_of(number) + good, header_of(99_999) + good[5:],
        good[:-1], good + b"\0", good,
    )  # fmt: skip
    assert [row["a"] for row in found.rows.to_pylist()] == [1, 1]
    no_header = "it does not begin with a byte 0 and the id of a schema, as messages of a schema registry do"
    assert reasons(found) == {
        1: "the message is empty", 2: "the message is empty", 3: "it ends within the id of its schema",
        4: no_header, 5: no_header, 6: "6 bytes follow the record",
        7: f"schema registry {server.url} knows no schema with the id 99999",
        8: 'it ends within column "b"', 9: "1 bytes follow the record",
    }  # fmt: skip
    assert found.faults[7].text == good[:-1]
    assert found.numbers.tolist() == [0, 10]


def changes_of(server: TestRegistry) -> ChangeDecoder:
    envelope = RegisteredAvro(
        fields("before STRUCT<a: BIGINT>, after STRUCT<a: BIGINT>, op STRING"), Registry((server.url,))
    )
    kinds = Envelope("op", (("c", INSERT),), "after", "before")
    return ChangeDecoder(fields("a BIGINT"), kinds, "kind", records=envelope)


AFTER = record(member("after", record(member("a", "long"), name="A")), member("op", "string"))


@pytest.mark.parametrize(
    ("decoder", "schema", "value"),
    [
        (lambda server: avro(server, "a BIGINT"), ONE, {"a": 1, "b": "x"}),
        (lambda server: OptionalRecords(avro(server, "a BIGINT")), ONE, {"a": 1, "b": "x"}),
        (changes_of, AFTER, {"after": {"a": 1}, "op": "c"}),
    ],
)
def test_a_schema_that_is_registered_later_is_known_to_the_next_micro_batch(
    decoder: Callable[[TestRegistry], Decoder], schema: Any, value: Any
):
    with serving() as server:
        reader = MessageRows(decoder(server), tolerant=True)
        written = pa.array([message(7, schema, value)], pa.binary())
        batch = pa.RecordBatch.from_arrays([written, pa.array(["here"])], [VALUE, PLACE])

        def micro_batch() -> list[int | None]:
            return [row["a"] for rows in reader.rows(iter([batch, batch])) for row in rows.to_pylist()]

        assert micro_batch() == [None, None]
        server.register("late", schema, id=7)
        assert micro_batch() == [1, 1]
        assert server.asked == ["GET /schemas/ids/7"] * 2


def test_messages_of_a_registry_are_faults_of_formats_without_one():
    """Five bytes too many."""
    columns, text = fields("a BIGINT, b STRING"), 'syntax = "proto3"; message A { int64 a = 1; string b = 2; }'
    decoders: dict[Decoder, bytes] = {
        AvroDecoder(columns, json.dumps(ONE)): b"\2\2x", JsonDecoder(columns): b'{"a":1,"b":"x"}',
        ProtobufDecoder(columns, ProtoType(text, "A")): b"\x08\1\x12\1x",
    }  # fmt: skip
    for decoder, body in decoders.items():
        found = decoder.messages(pa.array([header_of(7) + body, body, header_of(7) + b"\0" + body], pa.binary()))
        assert (found.rows.to_pylist(), [*reasons(found)]) == ([{"a": 1, "b": "x"}], [0, 2])


def test_a_message_whose_schema_does_not_have_the_columns_is_a_fault(server: TestRegistry):
    number = server.register("order", ONE)
    texts, wrong = server.register("json", '{"type": "object"}', JSON), server.register("wrong", "{")
    good = message(number, ONE, {"a": 1, "b": "x"})
    found = read(avro(server, "b BIGINT"), good, header_of(texts) + b"{}", header_of(wrong) + b"x")
    assert reasons(found)[0] == f'schema {number} of the registry has "b" as STRING, which is not read as BIGINT'
    assert reasons(found)[1] == f"schema {texts} of the registry is of type JSON, not AVRO"
    assert reasons(found)[2].startswith(f"schema {wrong} of the registry is no JSON")


def test_a_decimal_of_more_digits_than_sql_has_is_read_where_a_value_has_fewer(server: TestRegistry):
    """64 is what Kafka Connect writes where it knows no precision."""
    schema = record(member("n", {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}))
    number = server.register("decimals", schema)
    values = [message(number, schema, {"n": Decimal(text)}) for text in ("123.45", "-0.01", "9" * 40)]
    found = read(avro(server, "n DECIMAL(10, 2)"), *values)
    assert found.rows.column("n").to_pylist() == [Decimal("123.45"), Decimal("-0.01")]
    assert reasons(found) == {2: 'column "n" has no decimal number of at most 16 bytes'}


def test_a_union_of_records_is_read_by_the_branch_of_each_message(server: TestRegistry):
    """Several types of events in a topic: what a branch lacks is NULL, and what is no record is a fault."""
    order = record(member("id", "long"), member("v", "string"), name="Order")
    paid = record(member("id", "int"), member("order", ["null", "Order"]), name="Paid")
    union = ["null", order, paid, "string"]
    number = server.register("events", union)
    values = [
        message(number, union, given)
        for given in (("Order", {"id": 7, "v": "x"}), ("Paid", {"id": 8, "order": {"id": 1, "v": "y"}}), None, "text")
    ]
    found = read(avro(server, "id BIGINT, v STRING"), *values, header_of(number), header_of(number) + b"\x08")
    assert found.rows.to_pylist() == [{"id": 7, "v": "x"}, {"id": 8, "v": None}]
    assert reasons(found) == {
        2: "it is of the branch null of its schema, which is no record",
        3: "it is of the branch string of its schema, which is no record",
        4: "the message is empty",
        5: "has a branch of no union",
    }
    optional = server.register("optional", ["null", order])
    whole = read(
        avro(server, "value STRUCT<id: BIGINT>"), header_of(optional) + b"\x02\x0e\x02x", header_of(optional) + b"\x00"
    )
    assert whole.rows.to_pylist() == [{"value": {"id": 7}}, {"value": None}]  # of the message as a whole
    wrong = read(avro(server, "v BIGINT"), *values[:2])
    assert set(reasons(wrong).values()) == {
        f'schema {number} of the registry has "v" as STRING, which is not read as BIGINT'
    }


@pytest.mark.parametrize("schema", [{"type": "long"}, {"type": "array", "items": "long"}])
def test_a_schema_that_is_no_record_is_read_by_a_column_called_value_alone(server: TestRegistry, schema: Any):
    number = server.register("no record", schema)
    kind, given = ("BIGINT", 7) if schema["type"] == "long" else ("ARRAY<BIGINT>", [7])
    value = message(number, schema, given)
    assert read(avro(server, f"value {kind}"), value).rows.to_pylist() == [{"value": given}]
    assert reasons(read(avro(server, "id BIGINT"), value)) == {
        0: f"schema {number} of the registry is of type {schema['type']} and no record, "
        'which only a column "value" reads'
    }


def test_a_registry_that_is_away_fails_the_task(server: TestRegistry):
    number = server.register("away", record(member("a", "long"), name="Away"))
    server.away = 1_000
    with pytest.raises(ConnectorError, match=r"SS598: schema registry .* does not answer: 503"):
        read(avro(server, "a BIGINT"), header_of(number) + b"\2")
    server.away = 0
    assert read(avro(server, "a BIGINT"), header_of(number) + b"\2").rows.to_pylist() == [{"a": 1}]


def test_a_schema_may_name_types_of_others(server: TestRegistry):
    money = record(member("amount", "long"), name="Money", namespace="shop")
    server.register("money", money)
    order = record(member("price", "shop.Money"))
    number = server.register("orders", order, references=[{"name": "shop.Money", "subject": "money", "version": 1}])
    found = read(avro(server, "price STRUCT<amount: BIGINT>"), header_of(number) + b"\x54")
    assert found.rows.to_pylist() == [{"price": {"amount": 42}}]


def test_json_follows_the_id_of_a_schema(server: TestRegistry):
    number = server.register("json", '{"type": "object"}', JSON)
    columns = fields("a INT")
    decoder = RegisteredJson(columns, Registry((server.url,)), JsonDecoder(columns))
    found = read(decoder, header_of(number) + b'{"a": 1}', b'{"a": 2}', header_of(number) + b"{", header_of(77) + b"{}")
    assert found.rows.to_pylist() == [{"a": 1}]
    assert [*reasons(found)] == [1, 2, 3]


def test_a_key_that_is_not_there_is_a_row_of_nulls(server: TestRegistry):
    number = server.register("order", ONE)
    good = message(number, ONE, {"a": 1, "b": "x"})
    decoder = OptionalRecords(avro(server, "a BIGINT"))
    found = decoder.messages(pa.array([None, good, b"x", None, good], pa.binary()))
    assert [row["a"] for row in found.rows.to_pylist()] == [None, 1, None, 1]
    assert (found.numbers.tolist(), [*reasons(found)]) == ([0, 1, 3, 4], [2])


@given(st.lists(st.sampled_from(["one", "other", "null", "short", "unknown"]), max_size=30))
def test_rows_and_faults_are_those_of_messages_read_alone(server: TestRegistry, kinds: list[str]):
    first, second = server.register("order", ONE), server.register("order", OTHER)
    made = {
        "one": lambda n: message(first, ONE, {"a": n, "b": str(n)}),
        "other": lambda n: message(second, OTHER, {"a": n, "b": None, "new": n / 2}),
        "null": lambda n: None, "short": lambda n: header_of(first) + b"\2", "unknown": lambda n: header_of(88) + b"\2",
    }  # fmt: skip
    values = [made[kind](n) for n, kind in enumerate(kinds)]
    decoder = avro(server, "a BIGINT, b STRING, new DOUBLE")
    found, alone = read(decoder, *values), [read(decoder, value) for value in values]
    assert found.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert [f.record for f in found.faults] == [n for n, one in enumerate(alone) if one.faults]
    assert [f.reason for f in found.faults] == [f.reason for one in alone for f in one.faults]


# --- protobuf ---------------------------------------------------------------------------------------------------

SHOP = """
syntax = "proto3"; import "money.proto";
message Order { int64 id = 1; message Line { int32 n = 1; message Part { string name = 1; } } money.Money price = 2; }
message Other { sint32 id = 1; }
"""
MONEY = 'syntax = "proto3"; package money; message Money { int64 units = 1; }'


def proto(server: TestRegistry, columns: str) -> RegisteredProtobuf:
    return RegisteredProtobuf(fields(columns), Registry((server.url,), patience=0.5))


def test_messages_of_protobuf_say_which_of_their_schema_they_are(server: TestRegistry):
    server.register("money.proto", MONEY, PROTOBUF)
    imports = [{"name": "money.proto", "subject": "money.proto", "version": 1}]
    number = server.register("shop", SHOP, PROTOBUF, imports)
    header = header_of(number)
    values = [
        header + b"\0\x08\x05\x12\2\x08\7",  # Order, said shortly
        header + b"\2\0\x08\6",  # Order, by its index
        header + b"\2\2\x08\7",  # Other
        header + b"\4\0\0\x08\x09",  # Order.Line, which has no id
        header + b"\6\0\0\0",  # Order.Line.Part
        header + b"\2\x0a",  # a sixth message
        header + b"\4\0",  # one index is missing
        header + b"\3",  # a negative number of indexes
        header + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1",
        header,
        header[:-1],
        header + b"\0",
    ]  # fmt: skip
    found = read(proto(server, "id BIGINT, price STRUCT<units: BIGINT>"), *values)
    rows = [(row["id"], row["price"] and row["price"]["units"]) for row in found.rows.to_pylist()]
    assert rows == [(5, 7), (6, None), (-4, None), (None, None), (None, None), (0, None)]
    ends = "it ends within the id of its schema"
    assert reasons(found) == {
        5: f"schema {number} of the registry has no message at [5]", 6: ends, 7: ends, 8: ends, 9: ends, 10: ends,
    }  # fmt: skip


@given(st.lists(st.integers(0, 300), min_size=1, max_size=5))
def test_indexes_are_written_as_they_are_read(indexes: list[int]):
    written = written_indexes(indexes)
    assert indexes_of(written) == tuple(indexes)
    values = pa.array([header_of(1) + written + b"body", header_of(1) + written], pa.binary())
    data, offsets = bytes_of(values), offsets_of(values).astype(np.int64)
    decoder = RegisteredProtobuf((), Registry(("http://h",)))
    ends = decoder.header_ends(data, offsets[:-1], offsets[1:])
    assert (ends - offsets[:-1]).tolist() == [5 + len(written)] * 2


def test_a_schema_of_protobuf_that_does_not_have_the_columns_is_a_fault(server: TestRegistry):
    number = server.register("other", 'syntax = "proto3"; message A { string id = 1; }', PROTOBUF)
    wrong = server.register("broken", "message A {", PROTOBUF)
    found = read(proto(server, "id BIGINT"), header_of(number) + b"\0", header_of(wrong) + b"\0")
    assert reasons(found) == {
        0: f'schema {number} of the registry has "id" as string, which is not read as BIGINT',
        1: f"schema {wrong} of the registry is no .proto: it ends too early",
    }
