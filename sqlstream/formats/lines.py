"""The format ``text``, and ``raw`` of a STRING: each line or message is one text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.csv_records import lines_without_utf8
from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, cut, lines_of, rows_of_nothing
from sqlstream.formats.text_rule import bytes_of, offsets_of

NO_UTF8 = "it is no UTF-8"


@dataclass(frozen=True)
class LineDecoder(Decoder):
    """Decodes each line or message into one value of a STRING column.

    An empty line is a record with the empty text, as in Flink and Spark. A line ends with LF or CR LF; other carriage
    returns are characters of it, and of a message all line breaks are. What is not valid UTF-8 is a fault.
    """

    field: Field

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(self.field.name, pa.string())] if self.field.wanted else [])

    def spans(self, data: pa.Buffer) -> tuple[np.ndarray, np.ndarray]:
        return lines_of(data)

    def block(self, data: pa.Buffer) -> Decoded:
        starts, ends = self.spans(data)
        return self._decoded(cut(data, starts, ends), starts)

    def messages(self, values: pa.BinaryArray) -> Decoded:
        """Decodes each message into one value. An empty message is the empty text; a NULL message is a fault."""
        return self._decoded(values.cast(pa.binary()), np.zeros(len(values), np.int64))

    def _decoded(self, records: pa.BinaryArray, starts: np.ndarray) -> Decoded:
        bad = np.flatnonzero(records.is_null())
        try:
            texts = records.cast(pa.string())
        except pa.ArrowInvalid:
            bad = np.union1d(bad, rows_without_utf8(records))
        faults = [Fault(int(n), int(starts[n]), records[n].as_py() or b"", _reason(records[n])) for n in bad]
        if faults:
            good = np.ones(len(records), bool)
            good[bad] = False
            texts = records.filter(pa.array(good)).cast(pa.string())
        columns = [texts] if self.field.wanted else []
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else rows_of_nothing(len(texts))
        return Decoded(rows, len(records), faults)


def rows_without_utf8(records: pa.BinaryArray) -> list[int]:
    """Returns the indices of the records that are not valid UTF-8. A line feed between them ends what one begins."""
    joined = pc.binary_join_element_wise(records.fill_null(b""), b"\n", b"")
    offsets = offsets_of(joined)
    return lines_without_utf8(bytes_of(joined)[: offsets[-1]].tobytes(), offsets[:-1])


def _reason(record: pa.Scalar) -> str:
    return NO_UTF8 if record.is_valid else "the message is NULL"
