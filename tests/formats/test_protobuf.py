"""Messages of protobuf: what Google's library writes is read as it reads it, from a text and from a descriptor."""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.decoder import Decoded, Field
from sqlstream.formats.protobuf import ProtobufDecoder, ProtoType
from sqlstream.formats.protobuf_schema import parse_descriptors, parse_proto
from sqlstream.types import parse_type
from tests.depth import depth

TEXT = """
// All kinds of fields.
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
option java_package = "com.shop";

message Order {
  option deprecated = false;
  reserved 90 to 99; reserved "old";
  enum Status { option allow_alias = true; NEW = 0; PAID = 1; DONE = 1; LOST = -1; }
  message Line { string product = 1; int32 count = 2; }
  double d = 1; float f = 2; int64 i64 = 3; uint64 u64 = 4 [deprecated = true]; int32 i32 = 5; fixed64 f64 = 6;
  fixed32 f32 = 7; bool b = 8; string s = 9; bytes y = 10; uint32 u32 = 11; Status e = 12; sfixed32 s32 = 13;
  sfixed64 s64 = 14; sint32 z32 = 15; sint64 z64 = 16;
  optional int32 maybe = 17;
  oneof one { string left = 18; Line right = 19; }
  repeated int32 packed = 20; repeated int32 plain = 21 [packed = false]; repeated string texts = 22;
  repeated Line lines = 23; map<string, int32> counts = 24; map<int64, Line> by_number = 25;
  google.protobuf.Timestamp at = 26; google.protobuf.Int64Value wrapped = 27; Line line = 28;
  repeated double doubles = 29; repeated .shop.v1.Order.Status statuses = 30; repeated sint64 zigzags = 31;
}
message Other { Order.Line line = 1; }
service Shop { rpc Buy (Order) returns (Other) { option deprecated = true; } }
"""
F = descriptor_pb2.FieldDescriptorProto


def descriptor() -> descriptor_pb2.FileDescriptorProto:
    """The descriptor of TEXT, as protoc would make it."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop.v1", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    order = file.message_type.add(name="Order")
    status = order.enum_type.add(name="Status")
    status.options.allow_alias = True
    for name, number in (("NEW", 0), ("PAID", 1), ("DONE", 1), ("LOST", -1)):
        status.value.add(name=name, number=number)
    line = order.nested_type.add(name="Line")
    line.field.add(name="product", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    line.field.add(name="count", number=2, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    kinds = (
        "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 enum sfixed32 sfixed64 sint32 sint64"
    )
    names = "d f i64 u64 i32 f64 f32 b s y u32 e s32 s64 z32 z64"
    for number, (name, kind) in enumerate(zip(names.split(), kinds.split(), strict=True), 1):
        made = order.field.add(
            name=name, number=number, type=F.Type.Value(f"TYPE_{kind.upper()}"), label=F.LABEL_OPTIONAL
        )
        if kind == "enum":
            made.type_name = ".shop.v1.Order.Status"
    order.field.add(
        name="maybe", number=17, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL, proto3_optional=True, oneof_index=1
    )
    order.field.add(name="left", number=18, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL, oneof_index=0)
    order.field.add(name="right", number=19, type=F.TYPE_MESSAGE, type_name=".shop.v1.Order.Line", oneof_index=0,
                    label=F.LABEL_OPTIONAL)  # fmt: skip
    for name in ("one", "_maybe"):
        order.oneof_decl.add(name=name)
    order.field.add(name="packed", number=20, type=F.TYPE_INT32, label=F.LABEL_REPEATED)
    order.field.add(name="plain", number=21, type=F.TYPE_INT32, label=F.LABEL_REPEATED).options.packed = False
    order.field.add(name="texts", number=22, type=F.TYPE_STRING, label=F.LABEL_REPEATED)
    order.field.add(
        name="lines", number=23, type=F.TYPE_MESSAGE, type_name=".shop.v1.Order.Line", label=F.LABEL_REPEATED
    )
    for name, entry, number, key in (
        ("counts", "CountsEntry", 24, F.TYPE_STRING),
        ("by_number", "ByNumberEntry", 25, F.TYPE_INT64),
    ):
        inner = order.nested_type.add(name=entry)
        inner.options.map_entry = True
        inner.field.add(name="key", number=1, type=key, label=F.LABEL_OPTIONAL)
        value = inner.field.add(name="value", number=2, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
        if number == 25:
            value.type, value.type_name = F.TYPE_MESSAGE, ".shop.v1.Order.Line"
        order.field.add(name=name, number=number, type=F.TYPE_MESSAGE, type_name=f".shop.v1.Order.{entry}",
                        label=F.LABEL_REPEATED)  # fmt: skip
    for name, number, kind in (("at", 26, ".google.protobuf.Timestamp"), ("wrapped", 27, ".google.protobuf.Int64Value"),
                               ("line", 28, ".shop.v1.Order.Line")):  # fmt: skip
        order.field.add(name=name, number=number, type=F.TYPE_MESSAGE, type_name=kind, label=F.LABEL_OPTIONAL)
    order.field.add(name="doubles", number=29, type=F.TYPE_DOUBLE, label=F.LABEL_REPEATED)
    order.field.add(
        name="statuses", number=30, type=F.TYPE_ENUM, type_name=".shop.v1.Order.Status", label=F.LABEL_REPEATED
    )
    order.field.add(name="zigzags", number=31, type=F.TYPE_SINT64, label=F.LABEL_REPEATED)
    other = file.message_type.add(name="Other")
    other.field.add(name="line", number=1, type=F.TYPE_MESSAGE, type_name=".shop.v1.Order.Line", label=F.LABEL_OPTIONAL)
    return file


def pool_of(*files: descriptor_pb2.FileDescriptorProto) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR):
        pool.AddSerializedFile(known.serialized_pb)
    for file in files:
        pool.Add(file)
    return pool


ORDER: Any = message_factory.GetMessageClass(pool_of(descriptor()).FindMessageTypeByName("shop.v1.Order"))
LINE = "STRUCT<product: STRING, count: INT>"
COLUMNS = {
    "d": "DOUBLE", "f": "FLOAT", "i64": "BIGINT", "u64": "DECIMAL(20, 0)", "i32": "INT", "f64": "DECIMAL(20, 0)",
    "f32": "BIGINT", "b": "BOOLEAN", "s": "STRING", "y": "BINARY", "u32": "BIGINT", "e": "STRING", "s32": "INT",
    "s64": "BIGINT", "z32": "INT", "z64": "BIGINT", "maybe": "INT", "left": "STRING", "right": LINE,
    "packed": "ARRAY<INT>", "plain": "ARRAY<INT>", "texts": "ARRAY<STRING>", "lines": f"ARRAY<{LINE}>",
    "counts": "MAP<STRING, INT>", "by_number": f"MAP<BIGINT, {LINE}>", "at": "TIMESTAMP", "wrapped": "BIGINT",
    "line": LINE, "doubles": "ARRAY<DOUBLE>", "statuses": "ARRAY<INT>", "zigzags": "ARRAY<BIGINT>",
}  # fmt: skip


def decoder(columns: dict[str, str], source: str | bytes = TEXT, name: str = "Order", **given: Any) -> ProtobufDecoder:
    fields = tuple(Field(column, parse_type(kind)) for column, kind in columns.items())
    return ProtobufDecoder(fields, ProtoType(source, name), **given)


def read(of: ProtobufDecoder, *messages: bytes | None) -> Decoded:
    return of.messages(pa.array(messages, pa.binary()))


def reasons(found: Decoded) -> dict[int, str]:
    return {fault.record: fault.reason for fault in found.faults}


PLAIN = ("d", "f", "i64", "i32", "f32", "b", "s", "y", "u32", "s32", "s64", "z32", "z64")


def seen(message: Message | Any) -> dict[str, Any]:
    """What columns of a message are, as Google's library reads it."""

    def line(of: Any) -> dict[str, Any]:
        return {"product": of.product, "count": of.count}

    names = {number: name for name, number in reversed(ORDER.Status.items())}
    row = {name: getattr(message, name) for name in PLAIN}
    row |= {name: Decimal(getattr(message, name)) for name in ("u64", "f64")}
    row["e"] = names.get(message.e, str(message.e))
    row |= {name: getattr(message, name) if message.HasField(name) else None for name in ("maybe", "left")}
    row |= {name: line(getattr(message, name)) if message.HasField(name) else None for name in ("right", "line")}
    row |= {name: [*getattr(message, name)] for name in ("packed", "plain", "texts", "doubles", "statuses", "zigzags")}
    row["lines"] = [line(of) for of in message.lines]
    row["counts"] = sorted(message.counts.items())
    row["by_number"] = sorted(((n, line(of)) for n, of in message.by_number.items()), key=lambda pair: pair[0])
    row["wrapped"] = message.wrapped.value if message.HasField("wrapped") else None
    at = message.at.seconds * 10**6 + message.at.nanos // 1000
    row["at"] = at if message.HasField("at") else None
    return {name: row[name] for name in COLUMNS}


def rows_of(found: Decoded) -> list[dict[str, Any]]:
    at = found.rows.column("at").view(pa.int64()).to_pylist()
    every = found.rows.drop_columns(["at"]).to_pylist()
    for row, time in zip(every, at, strict=True):
        row["at"] = time
        row["counts"], row["by_number"] = sorted(row["counts"]), sorted(row["by_number"], key=lambda pair: pair[0])
    return [{name: row[name] for name in COLUMNS} for row in every]


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) | st.integers(-2, 2)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
LINES = st.fixed_dictionaries({}, optional={"product": TEXTS, "count": signed(32)})
FLOATS = st.floats(allow_nan=False, width=32)
UNSIGNED = st.integers(0, 2**64 - 1) | st.just(2**63)
STATUS = st.sampled_from([0, 1, -1, 7])
VALUES = st.fixed_dictionaries({}, optional={
    "d": st.floats(allow_nan=False), "f": FLOATS, "i64": signed(64), "u64": UNSIGNED, "i32": signed(32),
    "f64": UNSIGNED,
    "f32": st.integers(0, 2**32 - 1), "b": st.booleans(), "s": TEXTS, "y": st.binary(max_size=200),
    "u32": st.integers(0, 2**32 - 1), "e": STATUS, "s32": signed(32), "s64": signed(64), "z32": signed(32),
    "z64": signed(64), "maybe": signed(32), "left": TEXTS, "right": LINES, "packed": st.lists(signed(32), max_size=5),
    "plain": st.lists(signed(32), max_size=5), "texts": st.lists(TEXTS, max_size=3),
    "lines": st.lists(LINES, max_size=3),
    "counts": st.dictionaries(TEXTS, signed(32), max_size=3), "wrapped": signed(64),
    "by_number": st.dictionaries(signed(64), LINES, max_size=3), "line": LINES,
    "at": st.integers(-62_135_596_800, 253_402_300_799), "doubles": st.lists(st.floats(allow_nan=False), max_size=3),
    "statuses": st.lists(STATUS, max_size=4), "zigzags": st.lists(signed(64), max_size=4),
})  # fmt: skip


def order(values: dict[str, Any]) -> Any:
    given = dict(values)
    at, wrapped = given.pop("at", None), given.pop("wrapped", None)
    message = ORDER(**given)
    if wrapped is not None:
        message.wrapped.SetInParent()
        message.wrapped.value = wrapped
    if at is not None:
        message.at.seconds, message.at.nanos = at, 123_456_789
    return message


@settings(max_examples=depth(60, 3_000))
@given(st.lists(VALUES, max_size=12))
def test_messages_are_read_as_by_googles_library(values: list[dict[str, Any]]):
    messages = [order(value) for value in values]
    found = read(decoder(COLUMNS), *(message.SerializeToString() for message in messages))
    assert not found.faults
    assert rows_of(found) == [seen(message) for message in messages]


@settings(max_examples=depth(30, 2_000))
@given(st.lists(st.tuples(VALUES, VALUES), max_size=6))
def test_messages_one_after_the_other_are_merged(pairs: list[tuple[dict[str, Any], dict[str, Any]]]):
    written = [b"".join(order(value).SerializeToString() for value in pair) for pair in pairs]
    assert rows_of(read(decoder(COLUMNS), *written)) == [seen(ORDER.FromString(message)) for message in written]


def test_a_field_of_a_oneof_unsets_those_before_it_also_where_it_is_no_column():
    left, right = (order(of).SerializeToString() for of in ({"left": "x"}, {"right": {"count": 1}}))
    found = read(decoder({"right": LINE}), left + right, right + left, right + left + right)
    assert [row["right"] and row["right"]["count"] for row in found.rows.to_pylist()] == [1, None, 1]
    assert read(decoder({"left": "STRING"}), left + right, right + left).rows.to_pylist() == [
        {"left": None},
        {"left": "x"},
    ]


def test_types_that_are_known_everywhere_need_not_be_brought():
    text = """syntax = "proto3"; import "google/protobuf/struct.proto"; import "google/type/money.proto";
      import "google/protobuf/field_mask.proto"; message A { google.protobuf.Struct any = 1; google.type.Money m = 2;
      google.protobuf.FieldMask mask = 3; google.protobuf.ListValue list = 4; string s = 5; }"""
    columns = {"s": "STRING", "m": "STRUCT<units: BIGINT>", "mask": "STRUCT<paths: ARRAY<STRING>>"}
    written = b"\x2a\x01x\x12\x02\x10\x07\x1a\x03\x0a\x01p\x0a\x07\x0a\x05\x0a\x01k\x12\x00"
    assert read(decoder(columns, text, "A"), written).rows.to_pylist() == [
        {"s": "x", "m": {"units": 7}, "mask": {"paths": ["p"]}}
    ]
    with pytest.raises(SchemaError, match=r'has "list" as google\.protobuf\.ListValue, which is not read as STRING'):
        _ = decoder({"list": "STRING"}, text, "A").reader


def test_a_text_and_a_descriptor_say_the_same():
    files = descriptor_pb2.FileDescriptorSet()
    for known in (timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR):
        known.CopyToProto(files.file.add())
    files.file.add().CopyFrom(descriptor())
    encoded = base64.b64encode(descriptor().SerializeToString()).decode()

    def shape(message: Any) -> list[Any]:
        fields = [
            (f.name, f.number, f.kind, f.label, f.presence, f.packed, f.message and f.message.full_name,
             f.enum and f.enum.numbers) for f in message.fields
        ]  # fmt: skip
        return [message.full_name, message.is_entry, fields]

    parsed = [parse_proto(TEXT), parse_descriptors(files.SerializeToString()), parse_proto(encoded)]
    shapes = [{m.full_name: shape(m) for m in file.all() if m.full_name.startswith("shop")} for file in parsed]
    assert shapes[0] == shapes[1] == shapes[2]
    assert len(shapes[0]) == 5
    message = order({"i64": 5, "lines": [{"product": "x"}]}).SerializeToString()
    for source in (files.SerializeToString(), encoded):
        found = read(decoder({"I64": "BIGINT", "lines": f"ARRAY<{LINE}>"}, source, "shop.v1.Order"), message)
        assert found.rows.to_pylist() == [{"I64": 5, "lines": [{"product": "x", "count": 0}]}]


def test_messages_are_named_or_counted():
    file = parse_proto(TEXT)
    assert file.at([0]).full_name == "shop.v1.Order"
    assert file.at([0, 0]).full_name == file.message("Line").full_name == "shop.v1.Order.Line"
    assert file.at([1]).full_name == "shop.v1.Other"
    for indexes in ([], [2], [0, 7]):
        with pytest.raises(SchemaError, match="has no message at"):
            file.at(indexes)
    with pytest.raises(
        SchemaError, match=r'has no message "Nothing"; it has shop.v1.Order, shop.v1.Other, shop.v1.Order.Line'
    ):
        file.message("Nothing")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A { int32 a = ; }", "is no .proto: invalid literal"),
        ("message A { Unknown a = 1; }", 'names the type "Unknown", which it does not define'),
        ("message A { int32 a = 1;", "is no .proto: it ends too early"),
        ("message A { optional group G = 1; }", 'is no .proto: ";" instead of "{"'),
        ("nonsense", "is no .proto"),
        ("message A { int32 a = 1 } €", "is no .proto: '€' in line 1"),
    ],
)
def test_texts_that_are_none_are_said(text: str, reason: str):
    with pytest.raises(SchemaError) as caught:
        parse_proto(text)
    assert str(caught.value).startswith(reason)


def test_a_type_may_be_in_a_file_that_is_imported():
    shared = 'syntax = "proto3"; package money; message Money { int64 units = 1; }'
    text = 'syntax = "proto3"; import "money.proto"; message A { money.Money price = 1; }'
    of = ProtobufDecoder((Field("price", parse_type("STRUCT<units: BIGINT>")),), ProtoType(text, "A", (shared,)))
    assert read(of, b"\x0a\x02\x08\x05").rows.to_pylist() == [{"price": {"units": 5}}]


@pytest.mark.parametrize(
    ("field", "kind", "default"),
    [
        ("int32 a = 1 [default = 010]", "INT", 8),
        ("int32 a = 1 [default = -0x1F]", "INT", -31),
        ('bytes a = 1 [default = "\\303\\251\\x00€"]', "BINARY", b"\xc3\xa9\x00\xe2\x82\xac"),
        ('string a = 1 [default = "é\\n\\303\\251"]', "STRING", "é\né"),
        ("""string a = 1 [default = "it" 's "so"' "!", deprecated = true]""", "STRING", 'its "so"!'),
        ("double a = 1 [default = -inf]", "DOUBLE", float("-inf")),
    ],
)
def test_defaults_are_spelled_as_in_c(field: str, kind: str, default: Any):
    found = read(decoder({"a": kind}, f'syntax = "proto2"; message A {{ optional {field}; }}', "A", defaults=True), b"")
    assert [row["a"] for row in found.rows.to_pylist()] == [default]


@pytest.mark.parametrize("field", ["int32 a = 1 [default = 09]", "int32 a = 1 [default = x]", "E a = 1 [default = Q]"])
def test_a_default_that_is_none_is_told(field: str):
    with pytest.raises(SchemaError, match=r"default|is no \.proto"):
        parse_proto(f'syntax = "proto2"; enum E {{ X = 0; }} message A {{ optional {field}; }}')


def test_an_entry_of_a_map_may_be_a_message_with_that_option():
    text = """syntax = "proto3"; message A { repeated MEntry m = 1; map<string, int32> ab = 2;
        map<string, string> aB = 3; message MEntry { option map_entry = true; string key = 1; int32 value = 2; } }"""
    columns = {"m": "MAP<STRING, INT>", "ab": "MAP<STRING, INT>", "aB": "MAP<STRING, STRING>"}
    found = read(decoder(columns, text, "A"), b"\x0a\x05\x0a\x01x\x10\x05\x1a\x06\x0a\x01y\x12\x01z")
    assert [*found.rows.to_pylist()[0].values()] == [[("x", 5)], [], [("y", "z")]]


def test_fields_that_are_unset_are_null_or_defaults():
    proto2 = """
      message A { optional int32 a = 1 [default = -7]; optional string s = 2 [default = "x\\ty"]; optional bool b = 3;
        required int64 r = 4; optional E e = 5; optional double d = 6 [default = 1.5];
        optional sint32 z = 7 [default = -3];
        optional bytes y = 8 [default = "\\x01"]; repeated int32 list = 9; optional float f = 10 [default = -inf]; }
      enum E { ONE = 1; TWO = 2; }"""
    columns = {"a": "INT", "s": "STRING", "b": "BOOLEAN", "r": "BIGINT", "e": "STRING", "d": "DOUBLE", "z": "INT",
               "y": "BINARY", "list": "ARRAY<INT>", "f": "FLOAT"}  # fmt: skip
    found = read(decoder(columns, proto2, "A"), b"\x20\x05", b"")
    assert found.rows.to_pylist() == [dict.fromkeys(columns) | {"r": 5, "list": []}]
    assert reasons(found) == {1: 'column "r" is required, and not there'}
    found = read(decoder(columns, proto2, "A", defaults=True), b"\x20\x05")
    assert found.rows.to_pylist() == [
        {"a": -7, "s": "x\ty", "b": False, "r": 5, "e": "ONE", "d": 1.5, "z": -3, "y": b"\1", "list": [],
         "f": -float("inf")}
    ]  # fmt: skip
    zeros = {
        "i32": "INT",
        "s": "STRING",
        "e": "STRING",
        "b": "BOOLEAN",
        "maybe": "INT",
        "line": LINE,
        "at": "TIMESTAMP",
    }
    expected = {"i32": 0, "s": "", "e": "NEW", "b": False, "maybe": None, "line": None, "at": None}
    assert read(decoder(zeros), b"").rows.to_pylist() == [expected]
    assert read(decoder(zeros | {"at": "STRUCT<nanos: INT>"}, defaults=True), b"").rows.to_pylist() == [
        expected | {"maybe": 0}
    ]


def test_numbers_beyond_their_column_are_faults():
    big = order({"f64": 2**63, "u32": 2**32 - 1}).SerializeToString()
    found = read(decoder({"f64": "BIGINT", "u32": "INT"}), big, order({"f64": 2**63 - 1}).SerializeToString())
    assert found.rows.to_pylist() == [{"f64": 2**63 - 1, "u32": 0}]
    assert reasons(found) == {0: 'column "f64" of type BIGINT is 9223372036854775808'}
    assert read(decoder({"f64": "DECIMAL(20, 0)"}), big).rows.to_pylist() == [{"f64": Decimal(2**63)}]


def test_fields_of_another_version_are_skipped_and_those_that_are_missing_null():
    unknown = order({"s": "x", "lines": [{"count": 1}], "f32": 7, "d": 1.0, "i64": -1}).SerializeToString()
    text = 'syntax = "proto3"; message A { string s = 9; }'
    assert read(decoder({"s": "STRING"}, text, "A"), unknown).rows.to_pylist() == [{"s": "x"}]
    newer = decoder({"s": "STRING", "new": "ARRAY<INT>", "inner": "INT"}, text, "A", lacks=True)
    assert read(newer, unknown).rows.to_pylist() == [{"s": "x", "new": None, "inner": None}]
    with pytest.raises(SchemaError, match='has no field "new" in message A'):
        _ = decoder({"new": "INT"}, text, "A").reader
    # A field of another type on the wire is another field of that number.
    assert read(decoder({"s": "STRING"}, text, "A"), b"\x48\x05").rows.to_pylist() == [{"s": ""}]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\x4a\x05x", 'it ends within column "s"'),
        (b"\x4a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 'column "s" has a negative length'),
        (b"\x08", "it ends within the message"),
        (b"\x80", "it ends within the message"),
        (b"\x00\x01", "it has no field of protobuf"),
        (b"\x0c", "it ends a group that has not begun"),
        (b"\x0b\x08\x01", "it ends within the message"),
        (b"\x0b\x0a\x05\x0c", "it ends within the message"),
        (b"\x0b\x14", "it ends a group that has not begun"),
        (b"\x0b\x07\x0c", "it has no field of protobuf"),
        (b"\x0b" * 101 + b"\x0c" * 101, "it is nested too deeply"),
        (b"\x0f", "it has no field of protobuf"),
        (b"\x80\x80\x80\x80\x20\x05", "it has no field of protobuf"),
        (b"\x02\x00", "it has no field of protobuf"),
        (b"\x4a\x01\xff", 'column "s" of type STRING is'),
        (b"\xa2\x01\x02\x05\x80", 'it ends within column "packed"'),
        (b"\xea\x01\x03\x05\x05\x05", 'it ends within column "doubles"'),
        (b"\xd2\x01\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01", 'column "at" has a time that is not of the'),
        (b"\xe2\x01\x03\x0a\x05x", 'it ends within column "line.product"'),
        (None, "the message is empty"),
    ],
)
def test_messages_that_are_none_are_faults(message: bytes | None, reason: str):
    columns = {name: COLUMNS[name] for name in ("s", "packed", "doubles", "at", "line")}
    good = order({"s": "good", "packed": [1, 300], "doubles": [0.5]}).SerializeToString()
    found = read(decoder(columns), good, message, good)
    assert [row["s"] for row in found.rows.to_pylist()] == ["good", "good"]
    assert [row["packed"] for row in found.rows.to_pylist()] == [[1, 300]] * 2
    (fault,) = found.faults
    assert (fault.record, fault.text) == (1, message or b"")
    assert fault.reason.startswith(reason)


def test_columns_that_are_not_read_are_said():
    for columns, reason in (
        ({"s": "INT"}, 'has "s" as string, which is not read as INT'),
        ({"lines": "ARRAY<INT>"}, 'has "lines" as shop.v1.Order.Line, which is not read as INT'),
        ({"packed": "INT"}, 'has "packed" as repeated int32, which is not read as INT'),
        ({"counts": "ARRAY<INT>"}, 'has "counts" as map, which is not read as ARRAY<INT>'),
        ({"line": "STRUCT<product: DATE>"}, 'has "line.product" as string, which is not read as DATE'),
        ({"e": "DATE"}, 'has "e" as shop.v1.Order.Status, which is not read as DATE'),
        ({"i32": "TIMESTAMP"}, 'has "i32" as int32, which is not read as TIMESTAMP'),
        ({"d": "FLOAT"}, 'has "d" as double, which is not read as FLOAT'),
    ):
        with pytest.raises(SchemaError) as caught:
            _ = decoder(columns).reader
        assert str(caught.value) == reason


def test_many_messages_in_any_order_of_fields_are_read():
    def field(number: int, value: int) -> bytes:
        return bytes([number << 3 | 5]) + struct.pack("<I", value)

    text = 'syntax = "proto3"; message A { fixed32 a = 1; fixed32 b = 2; repeated fixed32 c = 3; }'
    orders = [
        field(2, n) + field(3, n) * (n % 7) + field(1, n + 1) if n % 3 else field(1, n + 1) + field(2, n)
        for n in range(40_000)
    ]
    long = b"".join(field(1 + n % 2, n) for n in range(1_001))
    found = read(decoder({"a": "BIGINT", "b": "BIGINT", "c": "ARRAY<INT>"}, text, "A"), *orders, long)
    assert found.rows.num_rows == 40_001
    assert found.rows.column(0).to_pylist() == [*range(1, 40_001), 1_000]
    assert found.rows.column(1).to_pylist() == [*range(40_000), 999]
    assert found.rows.column(2).to_pylist()[5] == [5] * 5


def test_columns_that_are_not_wanted_are_left_out():
    fields = (Field("s", parse_type("INT"), wanted=False), Field("i32", parse_type("INT")))
    of = ProtobufDecoder((Field("s", parse_type("STRING"), wanted=False), fields[1]), ProtoType(TEXT, "Order"))
    assert read(of, b"\x28\x05").rows.to_pylist() == [{"i32": 5}]
    none = ProtobufDecoder((), ProtoType(TEXT, "Order"))
    assert read(none, b"\x28\x05", b"\x80").rows.num_rows == 1
