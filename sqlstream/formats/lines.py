"""The formats ``text`` and ``raw``: each line or message is one value of type STRING."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.csv_records import lines_without_utf8
from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field
from sqlstream.formats.text_rule import bytes_of, offsets_of

NO_UTF8 = "it is no UTF-8"
_FEED = 0x0A


@dataclass(frozen=True)
class LineDecoder(Decoder):
    """Decodes each line or message into one value of a STRING column.

    An empty line is a record with the empty text, as in Flink and Spark. A line that is not valid UTF-8 is a fault.
    """

    field: Field

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(self.field.name, pa.string())] if self.field.wanted else [])

    def starts(self, data: pa.Buffer) -> np.ndarray:
        return line_starts(data)

    def block(self, data: pa.Buffer) -> Decoded:
        starts = line_starts(data)
        return self._decoded(_slices(data, starts), starts)

    def messages(self, values: pa.BinaryArray) -> Decoded:
        """Decodes each message into one value. An empty message is the empty text; a NULL message is a fault."""
        return self._decoded(values.cast(pa.binary()), np.zeros(len(values), np.int64))

    def _decoded(self, records: pa.BinaryArray, starts: np.ndarray) -> Decoded:
        bad = np.flatnonzero(records.is_null())
        try:
            texts = records.cast(pa.string())
        except pa.ArrowInvalid:
            bad = np.union1d(bad, rows_without_utf8(records))
        faults = [
            Fault(int(n), int(starts[n]), (records[n].as_py() or b"").rstrip(b"\r\n"), _reason(records[n])) for n in bad
        ]
        if faults:
            good = np.ones(len(records), bool)
            good[bad] = False
            texts = records.filter(pa.array(good)).cast(pa.string())
        columns = [pc.ascii_rtrim(texts, characters="\r\n")] if self.field.wanted else []
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else _rows_without_columns(len(texts))
        return Decoded(rows, len(records), faults)


def line_starts(data: pa.Buffer) -> np.ndarray:
    """Returns the byte offset of each line of a block."""
    feeds = np.flatnonzero(np.frombuffer(data, np.uint8) == _FEED) if data.size else np.zeros(0, np.int64)
    starts = np.concatenate(([0], feeds + 1))
    return starts[:-1] if starts[-1] == data.size else starts


def _slices(data: pa.Buffer, starts: np.ndarray) -> pa.BinaryArray:
    """The block cut at the starts, without a copy."""
    offsets = np.append(starts, data.size).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), data])


def rows_without_utf8(records: pa.BinaryArray) -> list[int]:
    """Returns the indices of the records that are not valid UTF-8. A line feed between them ends what one begins."""
    joined = pc.binary_join_element_wise(records.fill_null(b""), b"\n", b"")
    offsets = offsets_of(joined)
    return lines_without_utf8(bytes_of(joined)[: offsets[-1]].tobytes(), offsets[:-1])


def _reason(record: pa.Scalar) -> str:
    return NO_UTF8 if record.is_valid else "the message is NULL"


def _rows_without_columns(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["none"]).select([])
