"""Lines and messages as texts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.formats.decoder import Fault, Field
from sqlstream.formats.lines import LineDecoder
from sqlstream.types import STRING

DECODER = LineDecoder(Field("line", STRING))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        ("é\r\n b \r\n".encode(), ["é", " b "]),
        (b"a\rb\nc\r\r\n\r\n\r", ["a\rb", "c\r", "", ""]),
    ],
)
def test_each_line_is_a_text(data: bytes, lines: list[str]) -> None:
    decoded = DECODER.block(pa.py_buffer(data))
    assert decoded.rows.to_pydict() == {"line": lines}
    assert (decoded.records, decoded.faults) == (len(lines), [])
    unread = LineDecoder(Field("line", STRING, wanted=False)).block(pa.py_buffer(data))
    assert (unread.rows.num_rows, unread.rows.num_columns) == (len(lines), 0)


def test_what_is_no_utf8_is_a_fault_of_its_line() -> None:
    decoded = DECODER.block(pa.py_buffer(b"a\ncaf\xe9\r\nb\n"))
    assert decoded.rows.to_pydict() == {"line": ["a", "b"]}
    assert decoded.faults == [Fault(1, 2, b"caf\xe9", "it is no UTF-8")]
    assert DECODER.starts(pa.py_buffer(b"a\n\n  \nb\n")).tolist() == [0, 2, 3, 6]


def test_line_breaks_at_the_end_of_a_message_are_characters_of_it() -> None:
    decoded = DECODER.messages(pa.array([b"a\n", b"b\r\n\n", b"\n", b"x\xff\n", b"c\r"], pa.binary()))
    assert decoded.rows.to_pydict() == {"line": ["a\n", "b\r\n\n", "\n", "c\r"]}
    assert [(fault.record, fault.text) for fault in decoded.faults] == [(3, b"x\xff\n")]


def test_a_message_without_a_value_is_a_fault() -> None:
    decoded = DECODER.messages(pa.array([b"a", None, b"", b"\xff"], pa.binary()))
    assert decoded.rows.to_pydict() == {"line": ["a", ""]}
    assert [(fault.record, fault.reason) for fault in decoded.faults] == [
        (1, "the message is NULL"),
        (3, "it is no UTF-8"),
    ]


BYTES = st.lists(st.sampled_from([b"a", b"\xc3", b"\xa9", b"\xff", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b" "])).map(
    b"".join
)


@given(st.lists(st.none() | BYTES, max_size=8), st.booleans())
def test_only_records_that_are_no_utf8_are_faults(records: list[bytes | None], sliced: bool) -> None:
    def is_text(record: bytes | None) -> bool:
        try:
            return record is not None and record.decode() is not None
        except UnicodeDecodeError:
            return False

    given_ = pa.array([b"\xff", *records] if sliced else records, pa.binary())
    decoded = DECODER.messages(given_.slice(1) if sliced else given_)
    assert decoded.rows.column(0).to_pylist() == [r.decode() for r in records if r is not None and is_text(r)]
    assert [f.record for f in decoded.faults] == [n for n, record in enumerate(records) if not is_text(record)]
    lines = [record for record in records if record is not None]
    decoded = DECODER.block(pa.py_buffer(b"".join(line + b"\n" for line in lines)))
    assert decoded.rows.column(0).to_pylist() == [line.decode() for line in lines if is_text(line)]
    assert [f.text for f in decoded.faults] == [line for line in lines if not is_text(line)]
