"""Rows of MySQL's text protocol, by an oracle that writes them one value at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.formats.avro_cursor import slices
from sqlstream.formats.binlog import BinlogError
from sqlstream.formats.mysql_packets import text_rows

Values = list[bytes | None]


def packet(values: Values) -> bytes:
    return b"".join(b"\xfb" if value is None else length(len(value)) + value for value in values)


def length(number: int) -> bytes:
    if number < 0xFB:
        return bytes([number])
    mark, size = next((mark, size) for mark, size in ((0xFC, 2), (0xFD, 3)) if number < 1 << 8 * size)
    return bytes([mark]) + number.to_bytes(size, "little")


def read(rows: list[Values], columns: int) -> list[Values]:
    packets = [packet(row) for row in rows]
    data = np.frombuffer(b"".join(packets), np.uint8)
    ends = np.cumsum([len(p) for p in packets], dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    found = []
    for spans in text_rows(data, starts, ends, columns):
        raw = slices(data, spans.starts, spans.starts + spans.lengths).to_pylist()
        found.append([value if there else None for value, there in zip(raw, spans.present.tolist(), strict=True)])
    return [list(row) for row in zip(*found, strict=True)]


_VALUE = st.one_of(st.none(), st.binary(max_size=4), st.sampled_from([b"x" * n for n in (250, 251, 252, 70_000)]))


@given(st.lists(st.lists(_VALUE, min_size=3, max_size=3), min_size=1, max_size=8))
def test_values_are_found_by_their_lengths(rows: list[Values]):
    assert read(rows, 3) == rows


def test_a_row_with_more_or_fewer_values_is_an_error():
    for columns in (1, 3):
        with pytest.raises(BinlogError, match=r"^a row that was copied is damaged$"):
            read([[b"a", b"b"]], columns)
