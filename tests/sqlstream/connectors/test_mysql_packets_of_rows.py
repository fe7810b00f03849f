"""The packets of a query's rows, read as a server sends them: in pieces of any size."""

from __future__ import annotations

import io
from typing import Any
from unittest.mock import patch

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.connectors.mysql import copies
from sqlstream.udfs.mysql_changes import PACKET_HEAD

_LONGEST = 0x3F
"""Of a packet, in place of 16 MB: as many bits, all set."""


class Pieces(io.RawIOBase):
    """Sends bytes in pieces of these sizes, and then one by one."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        super().__init__()
        self._content, self._sizes = content, sizes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._content[: min(len(buffer), self._sizes.pop(0) if self._sizes else 1)]
        self._content = self._content[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)


def sent(*rows: bytes) -> bytes:
    """Rows in packets, of which one that is full is followed by another one."""
    packets = []
    for row in rows:
        parts = [row[n : n + _LONGEST] for n in range(0, len(row) + 1, _LONGEST)]
        packets += [len(part).to_bytes(3, "little") + bytes([n % 256]) + part for n, part in enumerate(parts)]
    return b"".join(packets)


def read(content: bytes, sizes: list[int]) -> list[bytes]:
    rows = []
    with patch.object(copies, "_MOST_BYTES", _LONGEST):
        received = copies._Received(io.BufferedReader(Pieces(content, sizes)))
        for packets, lengths in copies._rows_of(received):
            assert sum(lengths) == len(packets)
            for length in lengths:
                rows.append(packets[PACKET_HEAD:length])
                packets = packets[length:]
    return rows


_END = b"\xfe\0\0\2\0"
_ROWS = st.lists(
    st.binary(min_size=1, max_size=3 * _LONGEST).filter(lambda row: row[0] < 0xFE)
    | st.just(b"\xfe" + bytes(8) + b"a row with a value of a length of eight bytes"),
    max_size=30,
)


@given(_ROWS, st.lists(st.integers(1, 100)))
def test_rows_are_found_by_the_lengths_of_their_packets(rows: list[bytes], sizes: list[int]):
    assert read(sent(*rows, _END), sizes) == rows


def test_a_connection_that_breaks_and_an_error_of_the_server_are_told():
    whole = sent(b"\3abc", b"\3def")
    for end in range(len(whole) + 1):
        with pytest.raises(pymysql.OperationalError, match="Lost connection"):
            read(whole[:end], [])
    error = b"\xff" + (1317).to_bytes(2, "little") + b"#70100Query execution was interrupted"
    with pytest.raises(pymysql.OperationalError, match="interrupted"):
        read(sent(b"\3abc", error), [])
