"""Records of JSON that are arrays of rows. The oracle is Python's module json."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.formats.decoder import Decoded, Field, OptionalRecords
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.json_records import NO_OBJECT
from sqlstream.types import DataType

FIELDS = (Field("a", DataType("INT")), Field("s", DataType("STRING")))
DECODER = JsonDecoder(FIELDS, arrays=True)
TEXTS = st.text('ab"\\[]{},: é', max_size=6)
OBJECTS = st.fixed_dictionaries({"a": st.one_of(st.integers(-9, 9), st.just("x")), "s": TEXTS, "more": st.lists(TEXTS)})
RECORDS = st.one_of(OBJECTS, st.lists(OBJECTS, max_size=4))


def read(*records: bytes | None, decoder: JsonDecoder | OptionalRecords = DECODER) -> Decoded:
    return decoder.messages(pa.array(records, pa.binary()))


def pairs(decoded: Decoded) -> list[tuple[Any, ...]]:
    """The number of its record, and the values, of each row."""
    columns = decoded.rows.to_pydict().values()
    return list(zip(decoded.numbers.tolist(), *columns, strict=True))


@given(st.lists(RECORDS), st.sampled_from([None, 1]), st.booleans())
def test_each_object_of_an_array_is_a_row(records: list[Any], indent: int | None, in_lines: bool) -> None:
    texts = [json.dumps(r, indent=None if in_lines else indent, ensure_ascii=False).encode() for r in records]
    decoded = DECODER.block(pa.py_buffer(b"\n".join(texts))) if in_lines else read(*texts)
    rows, bad = [], []
    for number, record in enumerate(records):
        objects = record if isinstance(record, list) else [record]
        if any(o["a"] == "x" for o in objects):
            bad.append(number)
        else:
            rows += [(number, o["a"], o["s"]) for o in objects]
    assert pairs(decoded) == rows
    assert [(fault.record, fault.text) for fault in decoded.faults] == [(n, texts[n]) for n in bad]
    assert decoded.records == len(records)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ('[{"a": 1}, {"a": "x"}, {"a": "y"}]', 'element 2: column "a" of type INT is "x"'),
        ('[{"a": 1}, 2]', f"element 2: {NO_OBJECT}"),
        ('[{"a": 1},]', f"element 2: {NO_OBJECT}"),
        ('[[{"a": 1}]]', f"element 1: {NO_OBJECT}"),
        ('[{"a": 1]}]', NO_OBJECT),
        ('[{"a": 1}] 2', NO_OBJECT),
        ('[{"a": 1}', NO_OBJECT),
        ('[{"a": 1}}', NO_OBJECT),
        ('[{"s": "]', NO_OBJECT),
        ("[", NO_OBJECT),
    ],
)
def test_an_array_with_a_wrong_element_is_a_fault_as_a_whole(record: str, reason: str) -> None:
    good = b'[{"a": 7}, {"a": 8}]'
    decoded = read(good, record.encode(), good)
    assert [(n, a) for n, a, _ in pairs(decoded)] == [(0, 7), (0, 8), (2, 7), (2, 8)]
    assert [(f.record, f.text, f.reason) for f in decoded.faults] == [(1, record.encode(), reason)]


def test_an_array_without_elements_is_no_row_and_none_beside_others_neither() -> None:
    decoded = read(b"[]", b" [ ] ", b'{"a": 1}', b'[ {"a": 2} , {"a": 3} ]')
    assert [(n, a) for n, a, _ in pairs(decoded)] == [(2, 1), (3, 2), (3, 3)]
    assert (decoded.records, decoded.faults) == (4, [])


def test_rows_are_counted_where_no_column_is_read() -> None:
    decoded = read(b"[{}, {}]", b"{}", decoder=replace(DECODER, fields=()))
    assert decoded.rows.num_rows == 3 and decoded.numbers.tolist() == [0, 0, 1]


def test_messages_without_a_value_stand_between_rows_of_arrays() -> None:
    decoded = read(None, b'[{"a": 1}, {"a": 2}]', None, b'{"a": 3}', decoder=OptionalRecords(DECODER))
    assert [(n, a) for n, a, _ in pairs(decoded)] == [(0, None), (1, 1), (1, 2), (2, None), (3, 3)]


def test_other_decoders_of_json_take_no_arrays() -> None:
    decoded = read(b'[{"a": 1}]', decoder=JsonDecoder(FIELDS))
    assert [f.reason for f in decoded.faults] == [NO_OBJECT]
