"""Rows that are written by a schema that is given: another library reads them by it; what it does not have is said."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from sqlstream.formats.avro_encoder import AvroEncoder, Unwritable
from sqlstream.formats.avro_schema import parse_schema, schema_of_columns
from sqlstream.formats.avro_writable import unwritten_fields
from sqlstream.types import from_arrow, parse_type


def record(*members: tuple[str, Any] | dict[str, Any], name: str = "R") -> dict[str, Any]:
    named = [m if isinstance(m, dict) else {"name": m[0], "type": m[1]} for m in members]
    return {"type": "record", "name": name, "fields": named}


def batch(columns: str, *rows: dict[str, Any]) -> pa.RecordBatch:
    kinds = parse_type(f"STRUCT<{columns}>").fields()
    return pa.RecordBatch.from_pylist([*rows], schema=pa.schema([(n, kind.to_arrow()) for n, kind in kinds]))


def encoded(schema: Any, rows: pa.RecordBatch) -> list[Any]:
    messages = AvroEncoder(json.dumps(schema)).encoded(rows).to_pylist()
    files = [io.BytesIO(message) for message in messages]
    read = [fastavro.schemaless_reader(file, fastavro.parse_schema(schema), None) for file in files]
    assert all(file.read() == b"" for file in files)
    return read


def test_fields_are_written_in_the_schemas_order_with_defaults_for_those_without_a_column():
    schema = record(
        ("b", ["string", "null"]), {"name": "version", "type": "int", "default": 3}, ("A", "int"),
        ("inner", record(("x", "double"), {"name": "y", "type": ["null", "int"], "default": None}, name="Inner")),
    )  # fmt: skip
    rows = batch("a INT, b STRING, inner STRUCT<x: DOUBLE>", {"a": 1, "b": None, "inner": {"x": 0.5}},
                 {"a": -1, "b": "ü", "inner": {"x": 2.0}})  # fmt: skip
    assert encoded(schema, rows) == [
        {"b": None, "version": 3, "A": 1, "inner": {"x": 0.5, "y": None}},
        {"b": "ü", "version": 3, "A": -1, "inner": {"x": 2.0, "y": None}},
    ]


@pytest.mark.parametrize(
    ("kind", "written", "value", "expected"),
    [
        ("INT", "long", 7, 7),
        ("SMALLINT", "double", 7, 7.0),
        ("FLOAT", "double", 0.5, 0.5),
        ("STRING", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ("STRING", ["null", "long", "string"], "x", "x"),
        ("BIGINT", ["string", "long"], 5, 5),
        ("BINARY", {"type": "fixed", "name": "F", "size": 3}, b"abc", b"abc"),
        ("STRING", {"type": "string", "logicalType": "uuid"}, str(UUID(int=9)), UUID(int=9)),
        ("STRING", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, str(UUID(int=2**125 + 171)),
         UUID(int=2**125 + 171).bytes),
        ("DATE", {"type": "int", "logicalType": "date"}, date(1969, 12, 31), date(1969, 12, 31)),
        ("TIME", {"type": "int", "logicalType": "time-millis"}, time(1, 2, 3, 4567), time(1, 2, 3, 4000)),
        ("TIME", {"type": "long", "logicalType": "time-micros"}, time(1, 2, 3, 4567), time(1, 2, 3, 4567)),
        ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-millis"},
         datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
        ("TIMESTAMP_NTZ", {"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2024, 1, 31, 12, 0, 0, 7),
         datetime(2024, 1, 31, 12, 0, 0, 7)),
        ("DECIMAL(10, 2)", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}, Decimal("-1.25"),
         Decimal("-1.2500")),
        ("DECIMAL(4, 2)", {"type": "fixed", "name": "D", "size": 3, "logicalType": "decimal", "precision": 6,
         "scale": 2}, Decimal("-1.25"), Decimal("-1.25")),
        ("DECIMAL(4, 2)", {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 6,
         "scale": 2}, Decimal("-1.25"), Decimal("-1.25")),
        ("ARRAY<STRING>", {"type": "array", "items": ["null", "string"]}, ["a", None], ["a", None]),
        ("MAP<STRING, BIGINT>", {"type": "map", "values": "long"}, {"k": 1}, {"k": 1}),
    ],
)  # fmt: skip
def test_values_are_written_as_the_type_of_the_schema(kind: str, written: Any, value: Any, expected: Any):
    column = pa.array([value, value], parse_type(kind).to_arrow())
    rows = pa.RecordBatch.from_arrays([column], ["v"])
    if kind == "BINARY" or (kind == "STRING" and isinstance(written, dict) and written.get("size") == 16):
        plain = {k: v for k, v in written.items() if k != "logicalType"}
        assert [r["v"] for r in read_plain(written, plain, rows)] == [expected] * 2
    else:
        assert [r["v"] for r in encoded(record(("v", written)), rows)] == [expected] * 2
    unions = record(("v", ["null", written] if isinstance(written, (str, dict)) else written))
    nullable = pa.RecordBatch.from_arrays([pa.array([None, value], column.type)], ["v"])
    if isinstance(written, (str, dict)) and not (isinstance(written, dict) and "uuid" in json.dumps(written)):
        assert [r["v"] for r in encoded(unions, nullable)] == [None, expected]


def read_plain(written: Any, plain: Any, rows: pa.RecordBatch) -> list[Any]:
    messages = AvroEncoder(json.dumps(record(("v", written)))).encoded(rows).to_pylist()
    schema = fastavro.parse_schema(record(("v", plain)))
    return [fastavro.schemaless_reader(io.BytesIO(message), schema, None) for message in messages]


@pytest.mark.parametrize(
    ("kind", "written", "value", "reason"),
    [
        ("INT", "int", None, 'column "v" is NULL, which its type in the schema does not have'),
        ("STRING", {"type": "enum", "name": "E", "symbols": ["A"]}, "B",
         'column "v" is "B", which is no symbol of its enum'),
        ("BINARY", {"type": "fixed", "name": "F", "size": 3}, b"ab",
         'column "v" has not 3 bytes, as its fixed type in the schema'),
        ("STRING", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, "x",
         'column "v" has a text that is no UUID'),
        ("DECIMAL(10, 2)", {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, Decimal("1.25"),
         'column "v" has a number that is no DECIMAL(3, 1), its type in the schema'),
        ("DECIMAL(10, 2)", {"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 10,
          "scale": 2}, Decimal("1.28"),
         'column "v" has a number of more than 1 bytes, as its fixed type in the schema'),
        ("STRUCT<x: INT>", record(("x", "int"), name="I"), {"x": None},
         'column "v.x" is NULL, which its type in the schema does not have'),
        ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-nanos"}, datetime(9999, 1, 1, tzinfo=UTC),
         'column "v" has a time that 64 bits do not have in nanoseconds'),
    ],
)  # fmt: skip
def test_values_that_the_schema_does_not_have_are_said(kind: str, written: Any, value: Any, reason: str):
    rows = pa.RecordBatch.from_arrays([pa.array([value], parse_type(kind).to_arrow())], ["v"])
    with pytest.raises(Unwritable) as caught:
        AvroEncoder(json.dumps(record(("v", written)))).encoded(rows)
    assert str(caught.value) == reason


def test_null_within_null_is_none_of_the_schemas_business():
    schema = record(("s", ["null", record(("x", "int"), ("t", {"type": "array", "items": "string"}), name="S")]))
    rows = batch("s STRUCT<x: INT, t: ARRAY<STRING>>", {"s": None}, {"s": {"x": 1, "t": ["a"]}})
    assert encoded(schema, rows) == [{"s": None}, {"s": {"x": 1, "t": ["a"]}}]


@pytest.mark.parametrize(
    ("columns", "schema", "expected"),
    [
        ("v BIGINT", record(("v", "int")), ("v", "BIGINT", "int")),
        ("v STRING", record(("v", ["null", "long", "boolean"])), ("v", "STRING", "union")),
        ("v STRUCT<x: STRING>", record(("v", record(("x", "bytes"), name="I"))), None),
        ("v STRUCT<x: DATE>", record(("v", record(("x", "string"), name="I"))), ("v.x", "DATE", "string")),
        ("v INT", record(("v", "int"), ("w", "string")), ("w", None, "string")),
        ("v INT, w INT", record(("v", "int")), ("w", "INT", "nothing")),
    ],
)
def test_columns_that_the_schema_does_not_take_are_said(columns: str, schema: Any, expected: Any):
    kinds = parse_type(f"STRUCT<{columns}>").fields()
    given = [pa.field(name, kind.to_arrow()) for name, kind in kinds]
    found = [
        (path, None if kind is None else str(from_arrow(kind)), written)
        for path, kind, written in unwritten_fields(parse_schema(json.dumps(schema)), given)
    ]
    assert found == ([] if expected is None else [expected])


def test_the_schema_of_columns_is_flinks():
    columns = [(name, parse_type(kind)) for name, kind in (("a", "BIGINT"), ("t", "TIMESTAMP_NTZ"), ("u", "TIMESTAMP"))]
    assert json.loads(schema_of_columns(columns, required=["a"], millis=["t"]))["fields"] == [
        {"name": "a", "type": "long"},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "local-timestamp-millis"}], "default": None},
        {"name": "u", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None},
    ]
