"""Groups of protobuf, messages between two tags: read and written as Google's library does, and skipped where they are
no columns.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.protobuf import ProtoType
from sqlstream.formats.protobuf_encoder import ProtobufEncoder
from sqlstream.formats.protobuf_schema import parse_descriptors, parse_proto
from sqlstream.types import parse_type
from tests.depth import depth
from tests.formats.test_protobuf import decoder, pool_of, read, reasons

TEXT = """
syntax = "proto2";
message Search {
  required int32 id = 1;
  optional group Best = 2 [deprecated = true] {
    required string url = 1;
    repeated group Word = 3 { optional string text = 1; optional fixed64 weight = 2; }
  }
  repeated group Result = 4 { optional string url = 2; repeated int32 ranks = 3 [packed = true]; }
  oneof answer { string text = 5; group Page = 6 { optional int32 number = 1; } }
  optional string last = 7;
}
message Small { required int32 id = 1; optional string last = 7; }
"""
COLUMNS = {
    "id": "INT",
    "best": "STRUCT<url: STRING, word: ARRAY<STRUCT<text: STRING, weight: DECIMAL(20, 0)>>>",
    "result": "ARRAY<STRUCT<url: STRING, ranks: ARRAY<INT>>>",
    "text": "STRING",
    "page": "STRUCT<number: INT>",
    "last": "STRING",
}
F = descriptor_pb2.FieldDescriptorProto


def descriptor() -> descriptor_pb2.FileDescriptorProto:
    """The descriptor of TEXT, as protoc would make it."""
    file = descriptor_pb2.FileDescriptorProto(name="search.proto", syntax="proto2")
    search, one, many = file.message_type.add(name="Search"), F.LABEL_OPTIONAL, F.LABEL_REPEATED
    search.oneof_decl.add(name="answer")
    best, result, page = (search.nested_type.add(name=name) for name in ("Best", "Result", "Page"))
    word = best.nested_type.add(name="Word")
    search.field.add(name="id", number=1, type=F.TYPE_INT32, label=F.LABEL_REQUIRED)
    search.field.add(name="best", number=2, type=F.TYPE_GROUP, type_name=".Search.Best", label=one)
    search.field.add(name="result", number=4, type=F.TYPE_GROUP, type_name=".Search.Result", label=many)
    search.field.add(name="text", number=5, type=F.TYPE_STRING, label=one, oneof_index=0)
    search.field.add(name="page", number=6, type=F.TYPE_GROUP, type_name=".Search.Page", label=one, oneof_index=0)
    search.field.add(name="last", number=7, type=F.TYPE_STRING, label=one)
    best.field.add(name="url", number=1, type=F.TYPE_STRING, label=F.LABEL_REQUIRED)
    best.field.add(name="word", number=3, type=F.TYPE_GROUP, type_name=".Search.Best.Word", label=many)
    word.field.add(name="text", number=1, type=F.TYPE_STRING, label=one)
    word.field.add(name="weight", number=2, type=F.TYPE_FIXED64, label=one)
    result.field.add(name="url", number=2, type=F.TYPE_STRING, label=one)
    result.field.add(name="ranks", number=3, type=F.TYPE_INT32, label=many).options.packed = True
    page.field.add(name="number", number=1, type=F.TYPE_INT32, label=one)
    small = file.message_type.add(name="Small")
    small.field.add(name="id", number=1, type=F.TYPE_INT32, label=F.LABEL_REQUIRED)
    small.field.add(name="last", number=7, type=F.TYPE_STRING, label=one)
    return file


FILE = descriptor()
SEARCH: Any = message_factory.GetMessageClass(pool_of(FILE).FindMessageTypeByName("Search"))

_NUMBERS, _TEXTS = st.integers(-(2**31), 2**31 - 1), st.text(max_size=5)
_WORD = st.fixed_dictionaries({}, optional={"text": _TEXTS, "weight": st.integers(0, 2**64 - 1)})
_BEST = st.fixed_dictionaries({"url": _TEXTS}, optional={"word": st.lists(_WORD, max_size=3)})
_RESULT = st.fixed_dictionaries({}, optional={"url": _TEXTS, "ranks": st.lists(_NUMBERS, max_size=3)})
VALUES = st.builds(
    lambda values, answer: values | answer,
    st.fixed_dictionaries(
        {"id": _NUMBERS},
        optional={"best": _BEST, "result": st.lists(_RESULT, max_size=3), "last": _TEXTS},
    ),
    st.one_of(
        st.just({}),
        st.fixed_dictionaries({"text": _TEXTS}),
        st.fixed_dictionaries({"page": st.fixed_dictionaries({}, optional={"number": _NUMBERS})}),
    ),
)  # fmt: skip


def seen(message: Any) -> dict[str, Any]:
    """A message as the row that it should be."""

    def given(of: Any, name: str) -> Any:
        return getattr(of, name) if of.HasField(name) else None

    best = message.best
    words = [{"text": given(w, "text"), "weight": given(w, "weight")} for w in best.word]
    return {
        "id": message.id,
        "best": {"url": best.url, "word": words} if message.HasField("best") else None,
        "result": [{"url": given(r, "url"), "ranks": [*r.ranks]} for r in message.result],
        "text": given(message, "text"),
        "page": {"number": given(message.page, "number")} if message.HasField("page") else None,
        "last": given(message, "last"),
    }


def search(values: dict[str, Any]) -> Any:
    message = SEARCH(**values)
    if values.get("page") == {}:
        message.page.SetInParent()
    return message


@settings(max_examples=depth(60, 3_000))
@given(st.lists(VALUES, min_size=1, max_size=8))
def test_groups_are_read_and_written_as_by_googles_library(values: list[dict[str, Any]]):
    messages = [search(value) for value in values]
    found = read(decoder(COLUMNS, TEXT, "Search"), *(message.SerializeToString() for message in messages))
    assert not found.faults
    assert found.rows.to_pylist() == [seen(message) for message in messages]
    encoder = ProtobufEncoder(ProtoType(TEXT, "Search"))
    encoder.check([*found.rows.schema])
    written = encoder.encoded(found.rows).to_pylist()
    assert written == [message.SerializeToString() for message in messages]


@settings(max_examples=depth(30, 1_000))
@given(st.lists(VALUES, min_size=1, max_size=8), st.lists(VALUES, min_size=1, max_size=8))
def test_groups_that_are_no_columns_are_skipped_and_those_that_follow_merged(
    values: list[dict[str, Any]], others: list[dict[str, Any]]
):
    pairs = [*zip(values, others, strict=False)]
    messages = [search(one).SerializeToString() + search(other).SerializeToString() for one, other in pairs]
    merged = [SEARCH.FromString(message) for message in messages]
    for name in ("Search", "Small"):
        found = read(decoder({"id": "INT", "last": "STRING"}, TEXT, name), *messages)
        assert found.rows.to_pylist() == [{"id": m.id, "last": m.last if m.HasField("last") else None} for m in merged]
    assert read(decoder(COLUMNS, TEXT, "Search"), *messages).rows.to_pylist() == [seen(m) for m in merged]


def test_a_text_and_a_descriptor_have_the_same_groups():
    files = descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString()
    for file in (parse_proto(TEXT), parse_descriptors(files)):
        assert [(m.full_name, [(f.name, f.number, f.delimited, f.repeated) for f in m.fields]) for m in file.all()] == [
            ("Search", [
                ("id", 1, False, False), ("best", 2, True, False), ("result", 4, True, True),
                ("text", 5, False, False), ("page", 6, True, False), ("last", 7, False, False),
            ]),
            ("Small", [("id", 1, False, False), ("last", 7, False, False)]),
            ("Search.Best", [("url", 1, False, False), ("word", 3, True, True)]),
            ("Search.Result", [("url", 2, False, False), ("ranks", 3, False, True)]),
            ("Search.Page", [("number", 1, False, False)]),
            ("Search.Best.Word", [("text", 1, False, False), ("weight", 2, False, False)]),
        ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        'edition = "2023"; message A { B b = 1 [features.message_encoding = DELIMITED]; map<int32, B> m = 2; } '
        "message B { int32 i = 1; }",
        'edition = "2023"; option features.message_encoding = DELIMITED; message A { B b = 1; map<int32, B> m = 2; '
        "B c = 3 [features.message_encoding = LENGTH_PREFIXED]; } message B { int32 i = 1; }",
    ],
)
def test_editions_say_which_messages_are_groups(text: str):
    fields = {field.name: field for field in parse_proto(text).message("A").fields}
    assert fields["b"].delimited and not any(f.delimited for name, f in fields.items() if name != "b")
    rows = pa.RecordBatch.from_pylist(
        [{"b": {"i": 5}}], schema=pa.schema([("b", parse_type("STRUCT<i: INT>").to_arrow())])
    )
    assert ProtobufEncoder(ProtoType(text, "A")).encoded(rows).to_pylist() == [b"\x0b\x08\x05\x0c"]
    assert read(decoder({"b": "STRUCT<i: INT>"}, text, "A"), b"\x0b\x08\x05\x0c").rows.to_pylist() == [{"b": {"i": 5}}]


def test_options_of_descriptors_say_which_messages_are_groups():
    file = descriptor_pb2.FileDescriptorProto(name="e.proto", syntax="editions", edition="EDITION_2023")
    inner, outer = file.message_type.add(name="B"), file.message_type.add(name="A")
    inner.field.add(name="i", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    for number, name in enumerate("bc", 1):
        outer.field.add(name=name, number=number, type=F.TYPE_MESSAGE, type_name=".B", label=F.LABEL_OPTIONAL)
    features = descriptor_pb2.FeatureSet
    outer.field[0].options.features.message_encoding = features.DELIMITED

    def which() -> list[bool]:
        files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
        return [field.delimited for field in parse_descriptors(files).message("A").fields]

    assert which() == [True, False]
    file.options.features.message_encoding = features.DELIMITED
    outer.field[0].options.features.message_encoding = features.LENGTH_PREFIXED
    assert which() == [False, True]


def test_a_group_without_a_required_field_and_one_that_ends_early_are_faults():
    of = decoder({"id": "INT", "best": "STRUCT<url: STRING>"}, TEXT, "Search")
    found = read(of, b"\x08\x01\x13\x14", b"\x08\x01\x13\x0a\x01x", b"\x08\x01\x13\x0a\x01x\x14")
    assert reasons(found) == {
        0: 'column "best.url" is required, and not there',
        1: 'it ends within column "best"',
    }
    assert found.rows.to_pylist() == [{"id": 1, "best": {"url": "x"}}]


def test_a_message_where_the_type_has_a_group_is_another_field():
    """So is one of another type, as for Google's library: it is kept as unknown, and not read."""
    message = b"\x08\x01\x12\x03\x0a\x01x"
    assert not SEARCH.FromString(message).HasField("best")
    assert read(decoder({"id": "INT", "best": "STRUCT<url: STRING>"}, TEXT, "Search"), message).rows.to_pylist() == [
        {"id": 1, "best": None}
    ]


def test_groups_within_groups_are_read_as_deeply_as_by_googles_library():
    deep = b"\x08\x01" + b"\xf3\x01" * 100 + b"\xf4\x01" * 100
    found = read(decoder({"id": "INT"}, TEXT, "Small"), deep, deep[:2] + b"\xf3\x01" + deep[2:] + b"\xf4\x01")
    assert found.rows.to_pylist() == [{"id": 1}]
    assert reasons(found) == {1: "it is nested too deeply"}
