"""Files of messages that were received: how a batch of them is written, and how tasks read a range of them.

A spool is a folder of files, each named by the number of its first message. A file is a sequence of frames: a header,
a note of the spool's, and a batch of messages as Arrow writes it. The first frame of a file has a note alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.errors import ConnectorError, repeating

LOST = repeating("SS662")

RECEIVED = "received"
"""The folder of a job that holds its spools."""
SUFFIX = ".messages"

MESSAGES = pa.schema(
    [
        ("value", pa.binary()),
        ("id", pa.string()),
        ("subject", pa.string()),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("received", pa.timestamp("us", "UTC")),
    ]
)
"""What a spool keeps of a message: ``value`` is what it holds, ``id`` how its sender calls it, ``subject`` what it is
about, such as a topic, ``received`` when it was stored."""

NUMBER = "number"
"""The column of a message's number in its spool, which a range has, too."""

DDL = {
    "value": "BINARY",
    "id": "STRING",
    "subject": "STRING",
    "headers": "MAP<STRING, STRING>",
    "received": "TIMESTAMP",
    NUMBER: "BIGINT",
}

_MAGIC = b"SQM1"
_HEADER = struct.Struct("<4sIIII")
_CHECKED = struct.Struct("<III")
_AT_ONCE, _BYTES_AT_ONCE = 20_000, 32 << 20
"""Rows and bytes of the batches that tasks read."""


class Frame(NamedTuple):
    """A frame that begins at byte ``at`` of its file and has ``size`` bytes; ``rows``: how many messages it holds."""

    at: int
    size: int
    rows: int
    note: bytes
    batch: memoryview


def frame_of(batch: pa.RecordBatch | None, note: bytes = b"") -> bytes:
    """A frame of messages (MESSAGES), or of a note alone."""
    body = note + (b"" if batch is None else batch.serialize().to_pybytes())
    checked = _CHECKED.pack(len(body), 0 if batch is None else batch.num_rows, len(note))
    size, rows, of_note = _CHECKED.unpack(checked)
    return _HEADER.pack(_MAGIC, size, zlib.crc32(body, zlib.crc32(checked)), rows, of_note) + body


def frame_at(data: memoryview, at: int) -> Frame | None:
    """The frame that begins at this byte; None where none is whole there."""
    if len(data) - at < _HEADER.size:
        return None
    magic, size, checksum, rows, of_note = _HEADER.unpack_from(data, at)
    begin = at + _HEADER.size
    body = data[begin : begin + size]
    if magic != _MAGIC or len(body) < size or of_note > size:
        return None
    if zlib.crc32(body, zlib.crc32(_CHECKED.pack(size, rows, of_note))) != checksum:
        return None
    return Frame(at, _HEADER.size + size, rows, bytes(body[:of_note]), body[of_note:])


def is_cut_off(data: memoryview, at: int) -> bool:
    """True where nothing follows this byte but the beginning of one frame, or zeros that were never written over. A
    frame is stored before the next one is written, so this is what a machine that died has left.
    """
    rest = data[at:]
    if len(bytes(rest).rstrip(b"\0")) <= _HEADER.size:
        return True
    magic, size, *_ = _HEADER.unpack_from(rest)
    return bool(magic == _MAGIC and len(rest) <= _HEADER.size + size)


def messages_in(frame: Frame) -> pa.RecordBatch:
    """The messages of a frame."""
    return pa.ipc.read_record_batch(pa.py_buffer(frame.batch), MESSAGES)


# --- what tasks read --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpoolRange:
    """Messages of a file: ``count`` of them from number ``number`` on. ``begin`` and ``until``: the bytes of the frames
    that hold them, of which the first one has ``skip`` messages before.
    """

    path: str
    begin: int
    until: int
    skip: int
    number: int
    count: int


def messages_of(ranges: Sequence[SpoolRange], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The messages of ranges, in order, with the named columns of MESSAGES and NUMBER. ConnectorError SS662 where a
    file is gone or damaged.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _batches(ranges, [name for name in columns if name != NUMBER]):
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _AT_ONCE or size >= _BYTES_AT_ONCE:
            yield _joined(waiting, columns)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting, columns)


def _batches(ranges: Iterable[SpoolRange], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for wanted in ranges:
        number, left, skip = wanted.number, wanted.count, wanted.skip
        for frame in _frames(wanted):
            batch = messages_in(frame).slice(skip, left)
            numbers = pa.array(np.arange(number, number + batch.num_rows, dtype=np.int64))
            chosen = [batch.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays([*chosen, numbers], [*columns, NUMBER])
            number, left, skip = number + batch.num_rows, left - batch.num_rows, 0


def _frames(wanted: SpoolRange) -> Iterator[Frame]:
    try:
        with Path(wanted.path).open("rb") as file:
            file.seek(wanted.begin)
            data = memoryview(file.read(wanted.until - wanted.begin))
    except OSError as error:
        raise lost(f'file "{wanted.path}" of messages that were received cannot be read: {error.strerror}') from None
    at = 0
    while at < wanted.until - wanted.begin:
        frame = frame_at(data, at)
        if frame is None:
            raise damaged(wanted.path, wanted.begin + at)
        at += frame.size
        if frame.rows:
            yield frame


def _joined(batches: list[pa.RecordBatch], columns: Sequence[str]) -> pa.RecordBatch:
    (joined,) = pa.Table.from_batches(batches).select(list(columns)).combine_chunks().to_batches()
    return joined


def lost(message: str) -> ConnectorError:
    """SS662: messages that were received are gone."""
    hint = "Restore the folder of the job, or start in a new one; senders were told that the messages are stored."
    return ConnectorError(LOST, message, hint=hint)


def damaged(path: str | Path, at: int) -> ConnectorError:
    return lost(f'file "{path}" of messages that were received is damaged at byte {at}')
