"""Messages of protobuf that are written: Google's library reads them, and so do we; what a type lacks is said."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.avro_encoder import Unwritable
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.decoder import Field
from sqlstream.formats.protobuf import ProtobufDecoder, ProtoType
from sqlstream.formats.protobuf_encoder import ProtobufEncoder, proto_of_columns
from sqlstream.types import parse_type
from tests.depth import depth
from tests.formats.test_protobuf import COLUMNS, ORDER, TEXT, VALUES, decoder, order, read, rows_of, seen


def encoded(
    columns: dict[str, str], rows: list[dict[str, Any]], source: str = TEXT, name: str = "Order"
) -> list[bytes]:
    schema = pa.schema([(column, parse_type(kind).to_arrow()) for column, kind in columns.items()])
    encoder = ProtobufEncoder(ProtoType(source, name))
    encoder.check([*schema])
    return list(encoder.encoded(pa.RecordBatch.from_pylist(rows, schema=schema)).to_pylist())


@settings(max_examples=depth(60, 3_000))
@given(st.lists(VALUES.filter(lambda values: values.get("e") != 7), max_size=8))
def test_what_is_written_is_read_by_googles_library(values: list[dict[str, Any]]):
    messages = [order(value) for value in values]
    rows = read(decoder(COLUMNS), *(message.SerializeToString() for message in messages)).rows
    encoder = ProtobufEncoder(ProtoType(TEXT, "Order"))
    encoder.check([*rows.schema])
    written = encoder.encoded(rows).to_pylist()
    assert [seen(ORDER.FromString(message)) for message in written] == [seen(message) for message in messages]
    assert rows_of(read(decoder(COLUMNS), *written)) == [seen(message) for message in messages]


def test_messages_are_written_as_by_googles_library():
    columns = {
        "i64": "BIGINT",
        "s": "STRING",
        "e": "STRING",
        "packed": "ARRAY<INT>",
        "lines": "ARRAY<STRUCT<count: INT>>",
    }
    row = {"i64": -1, "s": "", "e": "PAID", "packed": [1, 300], "lines": [{"count": 5}, {"count": 0}]}
    message = ORDER(i64=-1, e=1, packed=[1, 300], lines=[{"count": 5}, {}])
    assert encoded(columns, [row, dict.fromkeys(columns)]) == [message.SerializeToString(), b""]


@pytest.mark.parametrize(
    ("columns", "value", "reason"),
    [
        ({"i32": "BIGINT"}, 2**31, 'column "i32" has a number that is no int32, its type in the schema'),
        ({"u64": "BIGINT"}, -1, 'column "u64" has a number that is no uint64, its type in the schema'),
        ({"u64": "DECIMAL(21, 0)"}, Decimal(2**64),
         'column "u64" has a number that is no uint64, its type in the schema'),
        ({"e": "STRING"}, "GONE", 'column "e" is "GONE", which is no name of its enum'),
        ({"texts": "ARRAY<STRING>"}, ["a", None],
         'column "texts" has NULL within an ARRAY, which protobuf does not have'),
        ({"counts": "MAP<STRING, INT>"}, {"a": None},
         'column "counts" has NULL as a value of a MAP, which protobuf does not have'),
    ],
)  # fmt: skip
def test_values_that_a_type_does_not_have_are_said(columns: dict[str, str], value: Any, reason: str):
    (name,) = columns
    with pytest.raises(Unwritable) as caught:
        encoded(columns, [{name: value}])
    assert str(caught.value) == reason


def test_required_fields_need_a_column_and_a_value():
    text = (
        "message A { required int32 r = 1; optional B b = 2; }message B { required int32 r = 1; optional int32 o = 2; }"
    )
    with pytest.raises(SchemaError, match='requires the field "r", for which there is no column'):
        encoded({"b": "STRUCT<r: INT>"}, [], text, "A")
    with pytest.raises(Unwritable, match='column "r" is NULL, but its field is required'):
        encoded({"r": "INT"}, [{"r": None}], text, "A")
    columns = {"r": "INT", "b": "STRUCT<r: INT, o: INT>"}
    assert encoded(columns, [{"r": 0, "b": None}, {"r": 1, "b": {"r": 2}}], text, "A") == [
        b"\x08\0",
        b"\x08\1\x12\2\x08\2",
    ]
    with pytest.raises(Unwritable, match=r'column "b.r" is NULL, but its field is required'):
        encoded(columns, [{"r": 0, "b": {"o": 1}}], text, "A")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"nothing": "INT"}, 'has no field "nothing" in message shop.v1.Order'),
        ({"s": "INT"}, 'has "s" as string, as which INT is not written'),
        ({"f": "DOUBLE"}, 'has "f" as float, as which DOUBLE is not written'),
        ({"line": "STRUCT<other: INT>"}, 'has no field "line.other" in message shop.v1.Order'),
        ({"at": "DATE"}, 'has "at" as google.protobuf.Timestamp, as which DATE is not written'),
    ],
)
def test_columns_that_a_type_does_not_have_are_said(columns: dict[str, str], reason: str):
    with pytest.raises(SchemaError) as caught:
        encoded(columns, [])
    assert str(caught.value) == reason


def test_a_type_is_made_of_columns():
    columns = {
        "id": "BIGINT", "b": "BOOLEAN", "d": "DOUBLE", "y": "BINARY", "at": "TIMESTAMP", "tags": "ARRAY<STRING>",
        "line": "STRUCT<product: STRING, parts: ARRAY<STRUCT<n: SMALLINT>>>", "counts": "MAP<STRING, BIGINT>",
    }  # fmt: skip
    text = proto_of_columns([(name, parse_type(kind)) for name, kind in columns.items()])
    assert text == (
        'syntax = "proto3";\n\nimport "google/protobuf/timestamp.proto";\n\nmessage Record {\n'
        "  optional int64 id = 1;\n  optional bool b = 2;\n  optional double d = 3;\n  optional bytes y = 4;\n"
        "  google.protobuf.Timestamp at = 5;\n  repeated string tags = 6;\n  message Line_ {\n"
        "    optional string product = 1;\n    message Parts_ {\n      optional int32 n = 1;\n    }\n"
        "    repeated Parts_ parts = 2;\n  }\n  Line_ line = 7;\n  map<string, int64> counts = 8;\n}\n"
    )
    rows = [
        {"id": 0, "b": False, "d": -0.0, "y": b"", "at": datetime(1969, 12, 31, 23, 59, 59, 1, UTC), "tags": ["", "x"],
         "line": {"product": None, "parts": [{"n": -5}, {"n": 0}]}, "counts": [("k", 0)]},
        dict.fromkeys(columns) | {"tags": [], "counts": []},
    ]  # fmt: skip
    written = encoded(columns, rows, text, "Record")
    fields = tuple(Field(name, parse_type(kind)) for name, kind in columns.items())
    assert read(ProtobufDecoder(fields, ProtoType(text, (0,))), *written).rows.to_pylist() == rows
    for kind, reason in (
        ("DECIMAL(5, 2)", 'cannot be made: protobuf has no DECIMAL(5, 2), of column "v"'),
        ("ARRAY<ARRAY<INT>>", 'cannot be made: protobuf has no ARRAY<INT>, of column "v"'),
        ("MAP<DOUBLE, INT>", 'cannot be made: protobuf has no MAP<DOUBLE, INT>, of column "v"'),
    ):
        with pytest.raises(SchemaError) as caught:
            proto_of_columns([("v", parse_type(kind))])
        assert str(caught.value) == reason
    with pytest.raises(SchemaError, match='cannot be made: "a b" is no name in protobuf'):
        proto_of_columns([("a b", parse_type("INT"))])
