"""JSON of MySQL's binary log, by an oracle that writes documents one value at a time. What the server itself writes and
prints is in the tests of the connector.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.formats.binlog import BinlogError, Spans
from sqlstream.formats.mysql_json import json_texts

_INTEGERS = ((5, "<h"), (6, "<H"), (7, "<i"), (8, "<I"), (9, "<q"), (10, "<Q"))


@dataclass(frozen=True)
class Opaque:
    """A value of a column of another type, and how it is printed."""

    type: int
    content: bytes
    text: str


def written(value: Any, *, large: bool = False) -> tuple[int, bytes]:
    """The type and the bytes of a value. ``large``: its objects and arrays have offsets of four bytes."""
    if value is None or isinstance(value, bool):
        return 4, struct.pack("<H", {None: 0, True: 1, False: 2}[value])
    if isinstance(value, int):
        type_, form = next((t, f) for t, f in _INTEGERS if _fits(value, f))
        return type_, struct.pack(form, value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        return 12, size(len(value.encode())) + value.encode()
    if isinstance(value, Opaque):
        return 15, bytes([value.type]) + size(len(value.content)) + value.content
    return large | 2 * (not isinstance(value, dict)), _container(value, large=large)


def _fits(value: int, form: str) -> bool:
    try:
        return bool(struct.pack(form, value))
    except struct.error:
        return False


def size(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _container(value: dict[str, Any] | list[Any], *, large: bool) -> bytes:
    form = "<I" if large else "<H"
    width = 4 if large else 2
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    members = [written(v, large=large) for v in (value.values() if isinstance(value, dict) else value)]
    at = 2 * width + len(keys) * (width + 2) + len(members) * (width + 1)
    key_entries, value_entries, content = b"", b"", b""
    for key in keys:
        key_entries += struct.pack(form, at + len(content)) + struct.pack("<H", len(key))
        content += key
    for type_, own in members:
        if type_ in (4, 5, 6) or (large and type_ in (7, 8)):
            value_entries += bytes([type_]) + own.ljust(width, b"\0")
        else:
            value_entries += bytes([type_]) + struct.pack(form, at + len(content))
            content += own
    head = struct.pack(form, len(members)) + struct.pack(form, at + len(content))
    return head + key_entries + value_entries + content


def printed(value: Any) -> str:
    if isinstance(value, Opaque):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{printed(k)}: {printed(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(printed, value)) + "]"
    if isinstance(value, float):
        return _printed_double(value)
    return json.dumps(value, ensure_ascii=False)


def _printed_double(value: float) -> str:
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent if value else 1
    figures, minus = "".join(map(str, digits)), "-" * sign
    if not -14 <= point <= 15:
        return f"{minus}{figures[0]}{'.' * (len(figures) > 1)}{figures[1:]}e{point - 1}"
    text = f"{Decimal(value=repr(value)).normalize():f}"
    return text if "." in text else f"{text}.0"


def read(*documents: bytes | None) -> list[str | None]:
    """Documents with other bytes between them."""
    data, starts = b"before", []
    for document in documents:
        starts.append(len(data))
        data += (document or b"") + b"\xff"
    lengths = np.array([len(document or b"") for document in documents], np.int64)
    there = np.array([document is not None for document in documents], bool)
    found: list[str | None] = json_texts(
        np.frombuffer(data, np.uint8), Spans(np.array(starts, np.int64), lengths, there)
    ).to_pylist()
    return found


def document(value: Any, *, large: bool = False) -> bytes:
    type_, content = written(value, large=large)
    return bytes([type_]) + content


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ['"', "\\\\n", "\0\x1f\x7f", "é😀", "x" * 300]
)
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.integers(-300, 300), _TEXTS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(lambda digits, exponent: float(f"{digits}e{exponent}"), st.integers(-999, 999), st.integers(-20, 20)),
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4), max_leaves=12
)


@given(st.lists(st.tuples(_VALUES, st.booleans()) | st.none(), max_size=6))
def test_documents_are_printed_as_the_server_does(given: list[tuple[Any, bool] | None]):
    documents = [None if one is None else document(one[0], large=one[1]) for one in given]
    assert read(*documents) == [None if one is None else printed(one[0]) for one in given]


def _packed(date: tuple[int, int, int], clock: tuple[int, int, int], micros: int, *, negative: bool = False) -> bytes:
    (year, month, day), (hour, minute, second) = date, clock
    days = ((year * 13 + month) << 5 | day) << 17
    number = ((days | hour << 12 | minute << 6 | second) << 24) + micros
    return (-number if negative else number).to_bytes(8, "little", signed=True)


def test_values_of_other_types_are_texts():
    nothing = (0, 0, 0)
    others = [
        Opaque(246, b"\x05\x02\x80\x01\x05", "1.05"),
        Opaque(246, b"\x05\x02\x7f\xfe\xfa", "-1.05"),
        Opaque(246, b"\x03\x00\x80\x7b", "123"),
        Opaque(10, _packed((2024, 2, 29), nothing, 0), '"2024-02-29"'),
        Opaque(12, _packed((9999, 12, 31), (23, 59, 58), 7), '"9999-12-31 23:59:58.000007"'),
        Opaque(7, _packed((1970, 1, 1), (0, 0, 1), 999_999), '"1970-01-01 00:00:01.999999"'),
        Opaque(11, _packed(nothing, (838, 59, 59), 0, negative=True), '"-838:59:59.000000"'),
        Opaque(11, _packed(nothing, (1, 2, 3), 4), '"01:02:03.000004"'),
        Opaque(15, b"abc", '"base64:type15:YWJj"'),
        Opaque(15, b"a" * 58, f'"base64:type15:{"YWFh" * 19}\\nYQ=="'),
        Opaque(252, b"", '"base64:type252:"'),
    ]
    assert read(*map(document, others)) == [other.text for other in others]
    assert read(document([{"a": other} for other in others])) == [printed([{"a": other} for other in others])]


def test_documents_may_be_deep_and_wide():
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    wide = {f"{n:05}": n for n in range(20_000)}
    assert read(document(deep), document(wide, large=True)) == [printed(deep), printed(wide)]
    with pytest.raises(BinlogError, match=r"^a JSON document is nested too deeply$"):
        read(document([deep]))


def test_an_empty_document_is_null():
    """INSERT IGNORE gives a column that is NOT NULL one."""
    assert read(b"", None, document(True)) == ["null", None, "true"]


_DAMAGED: Mapping[str, bytes] = {
    "without value": b"\x05",
    "a number that ends too early": b"\x0b\0\0\0",
    "a literal that is none": b"\x04\x09",
    "a literal that is not there": b"\x04",
    "a text that ends too early": b"\x0c\x05abc",
    "a length without end": b"\x0c" + b"\xff" * 9,
    "more elements than there is space": document([1, 2])[:7],
    "a number of elements that is not there": b"\x03\xff\xff\xff\xff\xff\xff\xff\xff",
    "an array in itself": b"\x02\x01\x00\x07\x00\x02\x00\x00",
    "a key outside": b"\x00\x01\x00\x0b\x00\xff\x00\x03\x00\x04\x00\x00",
    "a decimal without digits": b"\x0f\xf6\x02\x05\x02",
}


@pytest.mark.parametrize("damaged", _DAMAGED)
def test_a_damaged_document_is_an_error(damaged: str):
    with pytest.raises(BinlogError, match=r"^a JSON document is damaged$"):
        read(document({"a": [1]}), _DAMAGED[damaged])


def test_other_types_and_other_characters_are_errors():
    with pytest.raises(BinlogError, match=r"^a JSON document has a value of a type that is not known \(13\)$"):
        read(b"\x0d\0\0")
    with pytest.raises(BinlogError, match=r"^a text is none of the character set utf8mb4$"):
        read(b"\x0c\x01\xff")
