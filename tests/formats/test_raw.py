"""Messages that are the bytes of one value. The oracle is Python's module struct."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.formats.decoder import Field
from sqlstream.formats.raw import RawDecoder
from sqlstream.types import DataType

SPELLINGS = {"TINYINT": "b", "SMALLINT": "h", "INT": "i", "BIGINT": "q", "FLOAT": "f", "DOUBLE": "d"}


def decoder(kind: str, *, wanted: bool = True, little: bool = False) -> RawDecoder:
    return RawDecoder(Field("v", DataType(kind), wanted), little)


@given(st.data(), st.sampled_from([*SPELLINGS]), st.booleans())
def test_numbers_are_read_as_java_writes_them(data: st.DataObject, kind: str, little: bool) -> None:
    spelled = ("<" if little else ">") + SPELLINGS[kind]
    bits = 8 * struct.calcsize(spelled)
    whole = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    floats = {"FLOAT": st.floats(width=32), "DOUBLE": st.floats()}
    values = data.draw(st.lists(floats.get(kind, whole)))
    messages = [struct.pack(spelled, value) for value in values]
    # A slice, whose data does not begin with its buffer.
    given_ = pa.array([b"?", *messages], pa.binary()).slice(1)
    decoded = decoder(kind, little=little).messages(given_)
    assert decoded.rows.schema == decoder(kind).schema
    # Compared as bytes: NaN is not NaN.
    assert [struct.pack(spelled, v) for v in decoded.rows.column(0).to_pylist()] == messages
    assert (decoded.records, decoded.faults) == (len(values), [])


@pytest.mark.parametrize("wanted", [True, False])
def test_another_length_is_a_fault(wanted: bool) -> None:
    messages = pa.array([b"\0\0\0\1", b"\0", None, b"", b"\0\0\0\2"], pa.binary())
    decoded = decoder("INT", wanted=wanted).messages(messages)
    assert decoded.rows.num_rows == 2
    assert decoded.rows.to_pydict() == ({"v": [1, 2]} if wanted else {})
    assert [(f.record, f.text, f.reason) for f in decoded.faults] == [
        (1, b"\0", 'column "v" of type INT has 4 bytes, and not 1'),
        (2, b"", "the message is NULL"),
        (3, b"", 'column "v" of type INT has 4 bytes, and not 0'),
    ]


@pytest.mark.parametrize(
    ("kind", "messages", "values"),
    [
        ("BOOLEAN", [b"\0", b"\1", b"\2"], [False, True, True]),
        ("BINARY", [b"\xff\0", b"", b"x\n"], [b"\xff\0", b"", b"x\n"]),
    ],
)
def test_booleans_are_a_byte_and_bytes_are_what_they_are(kind: str, messages: list[bytes], values: list[Any]) -> None:
    assert decoder(kind).messages(pa.array(messages, pa.binary())).rows.to_pydict() == {"v": values}
