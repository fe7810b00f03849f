"""The format ``raw``: a message is the bytes of one value, as in Flink's format of that name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, rows_of_nothing
from sqlstream.formats.encodings import RAW_WIDTHS
from sqlstream.formats.text_rule import bytes_of, offsets_of


@dataclass(frozen=True)
class RawDecoder(Decoder):
    """Decodes each message into the value of a BINARY column, or of one of the types in RAW_WIDTHS, of which a BOOLEAN
    is 0 or another number. (A STRING is the work of ``LineDecoder``.) A message of another length is a fault.

    ``little``: the first byte of a number is the lowest, else the highest.
    """

    field: Field
    little: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(self.field.name, self.field.type.to_arrow())] if self.field.wanted else [])

    def block(self, data: pa.Buffer) -> Decoded:
        raise AssertionError("raw numbers and bytes have no marks between them")

    def messages(self, values: pa.BinaryArray) -> Decoded:
        records, kind = values.cast(pa.binary()), self.field.type.name
        good = records.is_valid()
        if kind in RAW_WIDTHS:
            good = pc.equal(pc.binary_length(records), RAW_WIDTHS[kind]).fill_null(False)
        bad = np.flatnonzero(~good.to_numpy(zero_copy_only=False)).tolist()
        faults = [Fault(n, 0, records[n].as_py() or b"", self._reason(records[n])) for n in bad]
        chosen = records.filter(good) if faults else records
        if not self.field.wanted:
            return Decoded(rows_of_nothing(len(chosen)), len(records), faults)
        column = self._numbers(chosen) if kind in RAW_WIDTHS else chosen
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self.schema), len(records), faults)

    def _numbers(self, records: pa.BinaryArray) -> pa.Array:
        offsets, kind = offsets_of(records), self.field.type.name
        letter = "f" if kind in ("FLOAT", "DOUBLE") else "i"
        given = np.dtype(f"{letter}{RAW_WIDTHS[kind]}").newbyteorder("<" if self.little else ">")
        numbers = bytes_of(records)[offsets[0] : offsets[-1]].view(given)
        if kind == "BOOLEAN":
            return pa.array(numbers != 0)
        return pa.array(numbers.astype(given.newbyteorder("=")))

    def _reason(self, record: pa.Scalar) -> str:
        if not record.is_valid:
            return "the message is NULL"
        kind, width = self.field.type, RAW_WIDTHS[self.field.type.name]
        return f'column "{self.field.name}" of type {kind} has {width} bytes, and not {len(record.as_py())}'
