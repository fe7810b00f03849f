"""The format ``raw``: a message is the bytes of one value, as in Flink's format of that name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, cut, lines_of, rows_of_nothing
from sqlstream.formats.text_rule import bytes_of, offsets_of

NUMBERS = {
    "BOOLEAN": "u1", "TINYINT": "i1", "SMALLINT": "i2", "INT": "i4", "BIGINT": "i8", "FLOAT": "f4", "DOUBLE": "f8",
}  # fmt: skip
"""The types of values that have a fixed number of bytes, as numpy spells them. A BOOLEAN is 0 or another number."""


@dataclass(frozen=True)
class RawDecoder(Decoder):
    """Decodes each message into the value of a BINARY column, or of one of the types in NUMBERS. (A STRING is the work
    of ``LineDecoder``.) A message of another length than that of the type is a fault.

    ``little``: the first byte of a number is the lowest, else the highest.
    """

    field: Field
    little: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(self.field.name, self.field.type.to_arrow())] if self.field.wanted else [])

    def spans(self, data: pa.Buffer) -> tuple[np.ndarray, np.ndarray]:
        return lines_of(data)

    def block(self, data: pa.Buffer) -> Decoded:
        starts, ends = self.spans(data)
        return self._decoded(cut(data, starts, ends), starts)

    def messages(self, values: pa.BinaryArray) -> Decoded:
        return self._decoded(values.cast(pa.binary()), np.zeros(len(values), np.int64))

    def _decoded(self, records: pa.BinaryArray, starts: np.ndarray) -> Decoded:
        good = records.is_valid()
        numpy_type = NUMBERS.get(self.field.type.name)
        if numpy_type is not None:
            width = np.dtype(numpy_type).itemsize
            good = pc.equal(pc.binary_length(records), width).fill_null(False)
        faults = [
            Fault(int(n), int(starts[n]), records[n].as_py() or b"", self._reason(records[n]))
            for n in np.flatnonzero(~good.to_numpy(zero_copy_only=False))
        ]
        chosen = records.filter(good) if faults else records
        if not self.field.wanted:
            return Decoded(rows_of_nothing(len(chosen)), len(records), faults)
        column = chosen if numpy_type is None else self._numbers(chosen, numpy_type)
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self.schema), len(records), faults)

    def _numbers(self, records: pa.BinaryArray, numpy_type: str) -> pa.Array:
        offsets = offsets_of(records)
        given = np.dtype(numpy_type).newbyteorder("<" if self.little else ">")
        numbers = bytes_of(records)[offsets[0] : offsets[-1]].view(given)
        if self.field.type.name == "BOOLEAN":
            return pa.array(numbers != 0)
        return pa.array(numbers.astype(given.newbyteorder("=")))

    def _reason(self, record: pa.Scalar) -> str:
        if not record.is_valid:
            return "the message is NULL"
        width = np.dtype(NUMBERS[self.field.type.name]).itemsize
        return f'column "{self.field.name}" of type {self.field.type} has {width} bytes, and not {len(record.as_py())}'
