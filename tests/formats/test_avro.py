"""Avro read as another library reads it: values of all types, messages that are cut or changed, blocks of files."""

from __future__ import annotations

import io
import json
import math
import pickle
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import MonkeyPatch

from sqlstream.formats import avro
from sqlstream.formats.avro import AvroDecoder
from sqlstream.formats.avro_defaults import check_defaults
from sqlstream.formats.avro_files import COMPRESS, Container, Corrupt, StoredBlock
from sqlstream.formats.avro_schema import SchemaError, misfits, natural_type, parse_schema, reads
from sqlstream.formats.decoder import Decoded, Field
from sqlstream.formats.encodings import AVRO_CODECS
from sqlstream.types import DataType, parse_type
from tests.depth import depth

INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=70)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
FLOATS = st.floats(width=32, allow_nan=False)


@dataclass(frozen=True)
class Type:
    """A type of Avro, the values of it that are written, what it is read as, and how values are then."""

    schema: Any
    values: st.SearchStrategy[Any]
    kind: str
    read: Callable[[Any], Any] = copy


def _logical(of: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **more}


def _instant(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC)


SCALARS = {
    "null": Type("null", st.none(), "STRING"),
    "boolean": Type("boolean", st.booleans(), "BOOLEAN"),
    "int": Type("int", INTS, "INT"),
    "int as BIGINT": Type("int", INTS, "BIGINT"),
    "int as TINYINT": Type("int", st.integers(-128, 127), "TINYINT"),
    "int as SMALLINT": Type("int", st.integers(-(2**15), 2**15 - 1), "SMALLINT"),
    "int as DOUBLE": Type("int", INTS, "DOUBLE", float),
    "int as FLOAT": Type("int", st.integers(-1000, 1000), "FLOAT", float),
    "int as DECIMAL": Type("int", INTS, "DECIMAL(12, 2)", Decimal),
    "long": Type("long", LONGS, "BIGINT"),
    "long as DOUBLE": Type("long", LONGS, "DOUBLE", float),
    "float": Type("float", FLOATS, "FLOAT"),
    "float as DOUBLE": Type("float", FLOATS, "DOUBLE"),
    "double": Type("double", st.floats(allow_nan=False), "DOUBLE"),
    "bytes": Type("bytes", st.binary(max_size=20), "BINARY"),
    "bytes as STRING": Type("bytes", TEXTS.map(str.encode), "STRING", bytes.decode),
    "string": Type("string", TEXTS, "STRING", lambda text: _valid(text)),
    "string as BINARY": Type("string", TEXTS, "BINARY", lambda text: text.encode(errors="surrogateescape")),
    "fixed": Type({"type": "fixed", "name": "f", "size": 3}, st.binary(min_size=3, max_size=3), "BINARY"),
    "enum": Type({"type": "enum", "name": "e", "symbols": ["A", "B_2"]}, st.sampled_from(["A", "B_2"]), "STRING"),
    "date": Type(_logical("int", "date"), st.dates(), "DATE"),
    "time-millis": Type(
        _logical("int", "time-millis"), st.integers(0, 86_399_999).map(lambda n: _time(n * 1000)), "TIME"
    ),
    "time-micros": Type(_logical("long", "time-micros"), st.times(), "TIME"),
    "timestamp-millis": Type(
        _logical("long", "timestamp-millis"),
        TIMES.map(lambda t: _instant(t.replace(microsecond=t.microsecond // 1000 * 1000))),
        "TIMESTAMP",
    ),
    "timestamp-micros": Type(_logical("long", "timestamp-micros"), TIMES.map(_instant), "TIMESTAMP"),
    "timestamp-micros as TIMESTAMP_NTZ": Type(
        _logical("long", "timestamp-micros"), TIMES.map(_instant), "TIMESTAMP_NTZ", lambda t: t.replace(tzinfo=None)
    ),
    "local-timestamp-micros": Type(_logical("long", "local-timestamp-micros"), TIMES, "TIMESTAMP_NTZ"),
    "decimal": Type(
        _logical("bytes", "decimal", precision=20, scale=5),
        st.decimals(-(10**15) + 1, 10**15 - 1, places=5),
        "DECIMAL(20, 5)",
    ),
    "wide decimal": Type(
        _logical("bytes", "decimal", precision=38, scale=0), st.integers(1 - 10**38, 10**38 - 1).map(Decimal),
        "DECIMAL(38, 0)",
    ),
    "fixed decimal": Type(
        {"type": "fixed", "name": "d", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 2},
        st.decimals(-(10**18) + 1, 10**18 - 1, places=2),
        "DECIMAL(20, 2)",
    ),
    "uuid": Type(_logical("string", "uuid"), st.uuids(), "STRING", str),
}  # fmt: skip


def _valid(text: str) -> str:
    """The text; UnicodeEncodeError if it was no UTF-8."""
    return text.encode().decode()


def _time(micros: int) -> time:
    return time(micros // 3_600_000_000, micros // 60_000_000 % 60, micros // 1_000_000 % 60, micros % 1_000_000)


def optional(of: Type) -> Type:
    """A union with null, which has the null first or last."""
    return Type(["null", of.schema], of.values | st.none(), of.kind, lambda v: None if v is None else of.read(v))


def listed(of: Type) -> Type:
    values = st.lists(of.values, max_size=4)
    return Type({"type": "array", "items": of.schema}, values, f"ARRAY<{of.kind}>", lambda v: [*map(of.read, v)])


def mapped(of: Type) -> Type:
    values = st.dictionaries(TEXTS, of.values, max_size=4)
    kind = f"MAP<STRING, {of.kind}>"
    return Type(
        {"type": "map", "values": of.schema}, values, kind, lambda v: {_valid(k): of.read(x) for k, x in v.items()}
    )


def together(of: list[Type], name: str) -> Type:
    fields = [{"name": f"f{i}", "type": t.schema} for i, t in enumerate(of)]
    return Type(
        {"type": "record", "name": name, "fields": fields},
        st.fixed_dictionaries({f"f{i}": t.values for i, t in enumerate(of)}),
        f"STRUCT<{', '.join(f'f{i}: {t.kind}' for i, t in enumerate(of))}>",
        lambda v: {f"f{i}": t.read(v[f"f{i}"]) for i, t in enumerate(of)},
    )


NAMED = ("fixed", "fixed decimal", "enum")
PLAIN = st.sampled_from([t for name, t in SCALARS.items() if name not in NAMED and name != "null"])
NESTED = st.recursive(
    PLAIN | PLAIN.map(optional),
    lambda inner: st.one_of(inner.map(listed), inner.map(mapped), inner.map(listed).map(optional)),
    max_leaves=3,
)
RECORDS = st.lists(st.sampled_from([*SCALARS.values()]) | NESTED, min_size=1, max_size=5, unique_by=id).map(
    lambda types: _unlike_names(types)
)


def _unlike_names(types: list[Type]) -> list[Type]:
    """Named types may be defined once in a schema."""
    seen: set[str] = set()
    kept = []
    for of in types:
        name = of.schema.get("name") if isinstance(of.schema, dict) else None
        if name not in seen or name is None:
            kept.append(of)
        seen.add(name or "")
    return kept


def record(types: list[Type], name: str = "r") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"c{i}", "type": t.schema} for i, t in enumerate(types)],
    }


def fields(types: list[Type], wanted: set[int] | None = None) -> tuple[Field, ...]:
    chosen = range(len(types)) if wanted is None else wanted
    return tuple(Field(f"c{i}", parse_type(t.kind)) for i, t in enumerate(types) if i in chosen)


def message(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    return [
        {name: _plain(value) for name, value in row.items()} for row in decoded.rows.to_pylist(maps_as_pydicts="strict")
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, list):
        return [*map(_plain, value)]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


@settings(max_examples=depth(150, 3000))
@given(st.data())
def test_messages_and_blocks_are_read_as_another_library_writes_them(data):
    types = data.draw(RECORDS)
    schema = record(types)
    values = data.draw(st.lists(st.tuples(*(t.values for t in types)), max_size=6))
    wanted = data.draw(st.sets(st.sampled_from(range(len(types)))))
    messages = [message(schema, {f"c{i}": v for i, v in enumerate(row)}) for row in values]
    decoder = AvroDecoder(fields(types, wanted), json.dumps(schema))
    expected = [{f"c{i}": types[i].read(row[i]) for i in sorted(wanted)} for row in values]
    if wanted and all(messages):
        found = decoder.messages(pa.array(messages, pa.binary()))
        assert not found.faults
        assert rows(found) == expected
    block, _ = decoder.blocks([pa.py_buffer(b"".join(messages)), pa.py_buffer(b"".join(messages))], [len(messages)] * 2)
    assert not block.faults
    assert block.records == 2 * len(messages)
    if wanted:
        assert rows(block) == expected * 2
    if all(messages):
        one = decoder.block(pa.py_buffer(b"".join(messages)))
        assert (one.records, one.rows.num_rows) == (len(messages), len(messages))


@settings(max_examples=depth(300, 6000))
@given(st.data())
def test_a_changed_message_is_read_as_another_library_does_or_is_a_fault(data):
    # Texts that are no UUID are no fault here: they are read as they are.
    types = data.draw(RECORDS.filter(lambda types: "uuid" not in str(types)))
    schema = record(types)
    row = {f"c{i}": data.draw(t.values) for i, t in enumerate(types)}
    whole = message(schema, row)
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 2))):
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(changed)))
    text = data.draw(st.sampled_from([bytes(changed), bytes(changed[:cut]), bytes(changed) + b"\0"]))
    found = AvroDecoder(fields(types), json.dumps(schema)).messages(pa.array([whole, text, whole], pa.binary()))
    if not whole:
        return
    assert [fault.record for fault in found.faults] in ([], [1])
    try:
        expected = _as_others(schema, types, text)
        read = rows(found)
    except OverflowError:  # times that Python does not have
        return
    if expected is None or found.faults:
        assert found.faults, (text, expected)
        assert found.faults[0].text == text
        assert found.rows.num_rows == 2
    else:
        assert _same(read[1], expected)


def _as_others(schema: Any, types: list[Type], text: bytes) -> dict[str, Any] | None:
    """What the other library reads; None if it does not."""
    stream = io.BytesIO(text)
    try:
        value: Any = fastavro.schemaless_reader(
            stream, fastavro.parse_schema(schema), None, handle_unicode_errors="surrogateescape"
        )
        return None if stream.read(1) else {f"c{i}": t.read(value[f"c{i}"]) for i, t in enumerate(types)}
    except Exception as error:
        if isinstance(error, OverflowError) or any(word in str(error) for word in ("ordinal", "year")):
            raise OverflowError from None
        return None


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right) or str(left) == str(right)


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_files_of_all_codecs_are_read_in_shares(codec):
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": "string"}]}
    written = [{"n": n * 1_000_003, "t": f"text {n}" * (n % 5)} for n in range(5_000)]
    stream = io.BytesIO()
    if codec not in ("zstandard", "snappy"):  # of which the library needs more packages
        fastavro.writer(stream, schema, written, codec=codec, sync_interval=1_000)
    else:
        stream.write(_recoded(schema, written, codec))
    content = stream.getvalue()
    decoder = AvroDecoder((Field("n", DataType("BIGINT")), Field("t", DataType("STRING"))), json.dumps(schema))
    for shares in (1, 3, 7):
        cuts = [len(content) * i // shares for i in range(shares + 1)]
        found: list[dict[str, Any]] = []
        for begin, end in pairwise(cuts):
            blocks = [b for b in Container(content).blocks(begin, end) if isinstance(b, StoredBlock)]
            found += rows(decoder.blocks([b.data for b in blocks], [b.records for b in blocks])[0])
        assert found == written


def _recoded(schema: Any, written: list[Any], codec: str) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, written, codec="null", sync_interval=1_000)
    plain = Container(stream.getvalue())
    marker = bytes(16)
    out = io.BytesIO()
    out.write(b"Obj\x01")
    fastavro.schemaless_writer(
        out,
        {"type": "map", "values": "bytes"},
        {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()},
    )
    out.write(marker)
    for block in plain.blocks():
        assert isinstance(block, StoredBlock)
        packed = COMPRESS[codec](block.data.to_pybytes())
        fastavro.schemaless_writer(out, "long", block.records)
        fastavro.schemaless_writer(out, "bytes", packed)
        out.write(marker)
    return out.getvalue()


def test_a_damaged_block_is_named_and_the_others_are_read():
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [{"n": n} for n in range(3_000)], codec="deflate", sync_interval=1_000)
    whole = stream.getvalue()
    blocks = [b for b in Container(whole).blocks() if isinstance(b, StoredBlock)]
    damaged = bytearray(whole)
    damaged[blocks[1].at + 8] ^= 0xFF
    read = [*Container(bytes(damaged)).blocks()]
    (wrong,) = [b for b in read if isinstance(b, Corrupt)]
    assert wrong.at == blocks[1].at
    assert [b.at for b in read if isinstance(b, StoredBlock)] == [b.at for b in blocks if b is not blocks[1]]
    (cut,) = [b for b in Container(whole[:-20]).blocks() if isinstance(b, Corrupt)]
    assert cut.reason == "the file ends within a block"
    with pytest.raises(Corrupt, match="its header is not complete"):
        Container(whole[:40])


def test_fields_are_found_by_name_alias_and_default():
    writer = {"type": "record", "name": "r", "fields": [
        {"name": "old", "type": "int"}, {"name": "x", "type": {"type": "array", "items": "string"}},
        {"name": "a", "type": "float"}]}  # fmt: skip
    reader = {"type": "record", "name": "r", "fields": [
        {"name": "a", "type": "double"}, {"name": "new", "type": "long", "aliases": ["old"]},
        {"name": "d", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1_500},
        {"name": "l", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
        {"name": "u", "type": ["null", "string"], "default": None}]}  # fmt: skip
    wanted = {"a": "DOUBLE", "new": "BIGINT", "d": "TIMESTAMP_NTZ", "l": "ARRAY<INT>", "u": "STRING", "gone": "DATE"}
    columns = tuple(Field(name, parse_type(kind)) for name, kind in wanted.items())
    decoder = AvroDecoder(columns, json.dumps(writer), json.dumps(reader))
    decoder = pickle.loads(pickle.dumps(decoder))
    (row,) = rows(decoder.messages(pa.array([message(writer, {"old": 7, "x": ["y"], "a": 0.5})], pa.binary())))
    assert row == {
        "a": 0.5,
        "new": 7,
        "d": datetime(1970, 1, 1, 0, 0, 1, 500_000),
        "l": [1, 2],
        "u": None,
        "gone": None,
    }


def test_a_default_of_a_union_is_one_of_the_first_branch_that_has_it():
    def default(kind: Any, value: Any) -> Any:
        reader = {"type": "record", "name": "r", "fields": [{"name": "d", "type": kind, "default": value}]}
        empty = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}
        decoder = AvroDecoder((Field("d", parse_type("STRING")),), json.dumps(empty), json.dumps(reader))
        return decoder.messages(pa.array([b"\x02"], pa.binary())).rows.column(0).to_pylist()[0]

    colour = {"type": "enum", "name": "c", "symbols": ["RED"]}
    assert [default(["null", "string"], "x"), default(["null", "string"], None)] == ["x", None]
    assert [default(["long", colour, "string"], text) for text in ("RED", "x")] == ["RED", "x"]
    with pytest.raises(
        SchemaError, match=r'has the default "x" for a field of type \[null, enum "c"\], which lacks it'
    ):
        default(["null", colour], "x")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "1"), ("int", 1 << 31), ("long", 1.5), ("long", True), ("boolean", 0), ("string", None),
        ("double", "x"), ("bytes", "\u0100"), ({"type": "fixed", "name": "f", "size": 2}, "a"),
        ({"type": "array", "items": "int"}, 1),
        ({"type": "map", "values": "int"}, {"a": "b"}),
        ({"type": "record", "name": "i", "fields": [{"name": "x", "type": "int"}]}, {}),
    ],
)  # fmt: skip
def test_a_default_that_its_type_does_not_have_is_said(kind: Any, value: Any):
    inner = {"type": "record", "name": "o", "fields": [{"name": "d", "type": kind, "default": value}]}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": inner}}]}
    with pytest.raises(SchemaError, match="has the default"):
        check_defaults(parse_schema(json.dumps(schema)))


def test_symbols_that_the_readers_enum_lacks_are_its_default():
    def of(enum: dict[str, Any]) -> str:
        given = {"type": "enum", "name": "e", **enum}
        return json.dumps({"type": "record", "name": "r", "fields": [{"name": "e", "type": ["null", given]}]})

    writer, columns = of({"symbols": ["A", "NEW"]}), (Field("e", parse_type("STRING")),)
    messages = pa.array([b"\x02\x00", b"\x02\x02", b"\x00"], pa.binary())
    for reader, new in (({"symbols": ["U", "A"], "default": "U"}, "U"), ({"symbols": ["A"]}, "NEW")):
        found = AvroDecoder(columns, writer, of(reader)).messages(messages)
        assert [row["e"] for row in rows(found)] == ["A", new, None]


def test_faults_name_column_and_value():
    schema = {"type": "record", "name": "r", "fields": [
        {"name": "n", "type": "int"},
        {"name": "s", "type": {"type": "array", "items": ["string", "int"]}}]}  # fmt: skip
    columns = (Field("n", parse_type("TINYINT")), Field("s", parse_type("ARRAY<STRING>")))
    values = [{"n": 1, "s": ["a"]}, {"n": 300, "s": []}, {"n": 2, "s": ["b", 5]}, {"n": 3, "s": []}]
    messages = [*(message(schema, v) for v in values), b"\x02\x02\x00\x04\xc3\x28\x00", b"\x02\x06", b"", None]
    found = AvroDecoder(columns, json.dumps(schema)).messages(pa.array(messages, pa.binary()))
    assert rows(found) == [{"n": 1, "s": ["a"]}, {"n": 3, "s": []}]
    assert [(f.record, f.reason) for f in found.faults] == [
        (1, 'column "n" of type TINYINT is 300'),
        (2, 'column "s" of type STRING is one of Avro\'s type int'),
        (4, 'column "s" of type STRING is "\ufffd("'),
        (5, 'it ends within column "s"'),
        (6, "the message is empty"),
        (7, "the message is empty"),
    ]


def test_records_may_contain_themselves():
    node = {"type": "record", "name": "n", "fields": [
        {"name": "v", "type": "int"}, {"name": "next", "type": ["null", "n"]}]}  # fmt: skip
    value = {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}}
    columns = (Field("next", parse_type("STRUCT<v: INT>")), Field("v", parse_type("INT")))
    decoder = AvroDecoder(columns, json.dumps(node))
    assert rows(decoder.messages(pa.array([message(node, value)], pa.binary()))) == [{"next": {"v": 2}, "v": 1}]


NODE = {"type": "record", "name": "n", "fields": [
    {"name": "v", "type": "int"}, {"name": "next", "type": ["null", "n"]}]}  # fmt: skip
TREE = {"type": "record", "name": "n", "fields": [
    {"name": "left", "type": ["null", "n"]}, {"name": "right", "type": ["null", "n"]}]}  # fmt: skip
LISTS = {"type": "record", "name": "n", "fields": [{"name": "of", "type": {"type": "array", "items": "n"}}]}
MAPS = {"type": "record", "name": "n", "fields": [
    {"name": "of", "type": {"type": "map", "values": {"type": "map", "values": "n"}}}]}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "opened", "closed", "most"),
    [
        (NODE, b"\x02\x02", (b"\x02\x00", b""), 199),
        (TREE, b"\x02", (b"\x00\x00", b"\x00"), 199),
        (LISTS, b"\x02", (b"\x00", b"\x00"), 199),
        (MAPS, b"\x02\x00\x02\x00", (b"\x00", b"\x00\x00"), 79),
    ],
    ids=["list", "tree", "arrays", "maps"],
)
def test_values_that_are_nested_too_deeply_are_faults(
    schema: Any, opened: bytes, closed: tuple[bytes, bytes], most: int
) -> None:
    def deep(levels: int) -> bytes:
        return opened * levels + closed[0] + closed[1] * levels

    decoder = AvroDecoder((Field("v", parse_type("INT")),), json.dumps(schema))
    for data in (deep(most + 1), deep(1_500), deep(20_000), opened * 1_500):
        found, firsts = decoder.blocks([pa.py_buffer(data), pa.py_buffer(deep(most))], [1, 1])
        assert [(f.record, f.reason) for f in found.faults] == [(0, "it is nested too deeply")]
        assert (found.rows.num_rows, firsts.tolist()) == (1, [0, 1])
        found = decoder.messages(pa.array([data, deep(most)], pa.binary()))
        assert [(f.record, f.reason) for f in found.faults] == [(0, "it is nested too deeply")]


def test_the_first_records_of_blocks_are_those_that_are_found():
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": "string"}]}
    good = [message(schema, {"n": n, "t": "x"}) for n in range(50)]
    blocks = [[*good[:wrong], b"\x02\x7f", *good[wrong:]] for wrong in (2, 5, 50)]
    data = [pa.py_buffer(b"".join(block)) for block in blocks]
    decoder = AvroDecoder((Field("n", DataType("BIGINT")),), json.dumps(schema))
    found, firsts = decoder.blocks([*data, pa.py_buffer(b""), data[0]], [51, 51, 51, 0, 51])
    assert firsts.tolist() == [0, 3, 9, 60, 60]
    assert ([f.record for f in found.faults], found.records) == ([2, 8, 59, 62], 63)
    none, firsts = decoder.blocks([], [])
    assert (none.records, firsts.tolist()) == (0, [])


@pytest.mark.parametrize("kind", ["null", {"type": "fixed", "name": "f", "size": 0}])
def test_items_without_bytes_are_read_in_records_too(kind):
    empty = {"type": "record", "name": "e", "fields": [{"name": "z", "type": kind}]}
    twice = {"type": "record", "name": "e2", "fields": [{"name": "e", "type": empty}]}
    schema = {"type": "record", "name": "r", "fields": [
        {"name": "x", "type": {"type": "array", "items": twice}},
        {"name": "m", "type": {"type": "map", "values": "e"}}]}  # fmt: skip
    columns = tuple(
        Field(name, parse_type(of))
        for name, of in {"x": "ARRAY<STRUCT<e: STRUCT<z: STRING>>>", "m": "MAP<STRING, STRUCT<z: STRING>>"}.items()
    )
    value = None if kind == "null" else ""
    found, _ = AvroDecoder(columns, json.dumps(schema)).blocks([pa.py_buffer(b"\x04\x00\x02\x02k\x00")], [1])
    assert not found.faults
    assert rows(found) == [{"x": [{"e": {"z": value}}] * 2, "m": {"k": {"z": value}}}]


@pytest.mark.parametrize("logical", [{"precision": "x"}, {"precision": 5, "scale": "y"}, {"precision": None}, {}])
def test_a_decimal_that_is_none_is_bytes(logical):
    schema = parse_schema(json.dumps({"type": "bytes", "logicalType": "decimal", **logical}))
    assert natural_type(schema) == pa.binary()


@pytest.mark.parametrize("size", ["x", -1, 1e300, 1 << 62, None])
def test_a_fixed_without_a_size_is_no_schema(size):
    with pytest.raises(SchemaError, match=r"^(is none of Avro's: |has a fixed \"f\" of )"):
        parse_schema(json.dumps({"type": "fixed", "name": "f", "size": size}))


@pytest.mark.parametrize("codec", [codec for codec in AVRO_CODECS if codec != "null"])
def test_a_small_block_does_not_become_a_huge_one(codec, monkeypatch: MonkeyPatch):
    schema = {"type": "record", "name": "r", "fields": [{"name": "t", "type": "string"}]}
    content = _recoded(schema, [{"t": "x" * 30_000}], codec)
    for most, wrong in ((30_003, ()), (30_002, (Corrupt,))):
        monkeypatch.setattr("sqlstream.formats.avro_files._MOST_BYTES", most)
        monkeypatch.setattr("sqlstream.formats.avro_files._PIECE", 7_000)
        block = next(iter(Container(content).blocks()))
        assert isinstance(block, wrong or StoredBlock)
    assert str(block) == f"a block cannot be decompressed ({codec}): it has more than 30,002 bytes"


@pytest.mark.parametrize(
    ("schema", "kind", "is_read"),
    [
        ("int", "BIGINT", True), ("long", "INT", False), ("long", "TIMESTAMP", False), ("double", "FLOAT", False),
        ("string", "INT", False), (_logical("long", "timestamp-nanos"), "TIMESTAMP", True),
        (_logical("int", "date"), "DATE", True), (["null", "string", "int"], "INT", True),
        (["null", "string"], "INT", False), ({"type": "map", "values": "int"}, "MAP<STRING, BIGINT>", True),
        ({"type": "map", "values": "int"}, "ARRAY<INT>", False), ("boolean", "INT", False),
        (_logical("bytes", "decimal", precision=50, scale=2), "DECIMAL(38, 2)", True),
        (_logical("bytes", "decimal", precision=50, scale=40), "DECIMAL(38, 2)", False),
        (_logical("bytes", "decimal", precision=50, scale=2), "BINARY", True),
    ],
)  # fmt: skip
def test_what_is_read_as_what(schema, kind, is_read):
    assert reads(parse_schema(json.dumps(schema)), parse_type(kind).to_arrow()) is is_read


def test_another_record_of_a_union_is_a_fault_and_no_row_of_nulls():
    card = {
        "type": "record",
        "name": "Card",
        "fields": [{"name": "id", "type": "long"}, {"name": "no", "type": "string"}],
    }
    cash = {
        "type": "record",
        "name": "Cash",
        "fields": [{"name": "id", "type": "long"}, {"name": "till", "type": "int"}],
    }
    values = [("Card", {"id": 1, "no": "x"}), ("Cash", {"id": 2, "till": 3}), None]
    paid = ["null", card, cash]
    schema = {"type": "record", "name": "r", "fields": [{"name": "p", "type": paid}]}
    nested = {"type": "record", "name": "r", "fields": [{"name": "p", "type": {"type": "array", "items": paid}}]}

    def read(kind: str, schema: Any = schema, wrap: Callable[[Any], Any] = lambda value: value) -> Decoded:
        texts = [message(schema, {"p": wrap(value)}) for value in values]
        return AvroDecoder((Field("p", parse_type(kind)),), json.dumps(schema)).messages(pa.array(texts, pa.binary()))

    decoded = read("STRUCT<id: BIGINT, no: STRING>")
    assert rows(decoded) == [{"p": {"id": 1, "no": "x"}}, {"p": None}]
    reason = 'column "p" of type STRUCT<id: BIGINT, no: STRING> is one of Avro\'s type record "Cash"'
    assert [(f.record, f.reason) for f in decoded.faults] == [(1, reason)]

    decoded = read("ARRAY<STRUCT<no: STRING>>", nested, lambda value: [value])
    assert rows(decoded) == [{"p": [{"no": "x"}]}, {"p": [None]}]
    assert [f.reason for f in decoded.faults] == [
        'column "p" of type STRUCT<no: STRING> is one of Avro\'s type record "Cash"'
    ]

    # A field that no branch has is as elsewhere; what all records have is read of all.
    assert rows(read("STRUCT<id: BIGINT, no: STRING, later: INT>"))[0] == {"p": {"id": 1, "no": "x", "later": None}}
    assert rows(read("STRUCT<id: BIGINT>")) == [{"p": {"id": 1}}, {"p": {"id": 2}}, {"p": None}]


def test_a_field_that_all_records_of_a_union_lack_is_as_in_a_single_one():
    one, two = ({"type": "record", "name": n, "fields": [{"name": n, "type": "long"}]} for n in "ab")
    union = parse_schema(json.dumps([one, two]))
    for declared, misfit in (("STRUCT<a: BIGINT>", 0), ("STRUCT<c: BIGINT>", 1)):
        assert len([*misfits(union, parse_type(declared).to_arrow(), "p", nulls=False)]) == misfit
        assert not [*misfits(union, parse_type(declared).to_arrow(), "p", nulls=True)]


def test_a_schema_that_is_none_is_refused_with_a_reason():
    for text, reason in (("{", "is no JSON"), ('"nothing"', 'names the type "nothing"'), ('{"type": 3}', "none of")):
        with pytest.raises(SchemaError, match=reason):
            parse_schema(text)


def test_a_uuid_of_16_bytes_and_an_odd_union_have_types():
    uuid = parse_schema(json.dumps({"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}))
    assert natural_type(uuid) == pa.string()
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "u", "type": {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}}],
    }
    value = UUID("123e4567-e89b-12d3-a456-426614174000")
    decoder = AvroDecoder((Field("u", DataType("STRING")),), json.dumps(schema))
    assert rows(decoder.messages(pa.array([value.bytes], pa.binary()))) == [{"u": str(value)}]


@settings(max_examples=depth(8, 100))
@given(st.integers(0, 2**32), st.sampled_from([20, 400, 3_000, 40_000]), st.booleans())
def test_the_records_of_a_large_block_are_found_in_segments_as_from_its_beginning(seed, longest, is_damaged):
    random = Random(seed)
    schema = record([SCALARS["long"], optional(SCALARS["string"]), listed(SCALARS["double"])])
    few = [
        {
            "c0": random.randrange(-(2**40), 2**40),
            "c1": random.choice([None, "\0\2" * random.randrange(longest // 2), "ü" * random.randrange(longest)]),
            "c2": [random.random() for _ in range(random.randrange(4))],
        }
        for _ in range(200)
    ]
    messages = [message(schema, value) for value in few]
    written = bytearray()
    count = 0
    while len(written) < 400_000:
        written += random.choice(messages)
        count += 1
    if is_damaged:
        for _ in range(3):
            written[random.randrange(len(written))] = random.randrange(256)
    decoder = AvroDecoder(fields([SCALARS["long"], optional(SCALARS["string"])]), json.dumps(schema))
    found, _ = decoder.blocks([pa.py_buffer(bytes(written))], [count])
    with MonkeyPatch.context() as patch:
        patch.setattr(avro, "_LARGE", len(written))
        expected, _ = decoder.blocks([pa.py_buffer(bytes(written))], [count])
    assert found.rows.equals(expected.rows)
    assert found.faults == expected.faults
    assert is_damaged or found.rows.num_rows == count
