"""Records that tasks decode: the values of messages as rows, and what is said of those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError
from sqlstream.formats.decoder import Decoded, Decoder, Fault
from sqlstream.formats.text_rule import bytes_of, offsets_of
from sqlstream.udfs.bad_records import BAD, BAD_ROW, BAD_ROW_HINT
from sqlstream.udfs.files.directories import path_of_url

BAD_TYPE = pa.struct([("record", pa.binary()), ("error", pa.string()), ("place", pa.string())])
"""The Arrow type of the column BAD."""

_SHOWN = 100  # characters of a record in a message


def unreadable_record(place: str, fault: Fault) -> ExecutionError:
    """SS402 for a record that cannot be read. ``place``: where it is, such as ``" at clicks[3]@42"``."""
    return ExecutionError(BAD_ROW, f"a row{place} cannot be read: {said(fault)}", hint=BAD_ROW_HINT)


def said(fault: Fault) -> str:
    """The reason, and the beginning of the record on one line."""
    beginning = " ".join(fault.text.decode(errors="replace")[:_SHOWN].split())
    return f"{fault.reason}: {beginning}" if beginning else fault.reason


def bad_records(faults: Sequence[Fault], places: Sequence[str | None]) -> pa.StructArray:
    """The column BAD of records that cannot be read, each with its place in the source."""
    return pa.array(
        [
            {"record": fault.text, "error": f"{BAD_ROW}: {fault.reason}", "place": place}
            for fault, place in zip(faults, places, strict=True)
        ],
        BAD_TYPE,
    )


def with_bad(decoded: Decoded, good: pa.Array, bad: pa.StructArray) -> pa.RecordBatch:
    """The rows with the column BAD, and a row for each fault, in the order of the records.

    ``good`` and ``bad``: BAD of the rows and of the faults.
    """
    if not decoded.faults:
        return with_column(decoded.rows, good)
    both = pa.Table.from_batches([with_column(decoded.rows, good), rows_of_bad(decoded, bad)])
    in_order = both.take(pa.array(_order(decoded))).combine_chunks().to_batches()
    return in_order[0] if in_order else pa.RecordBatch.from_pylist([], schema=both.schema)


def rows_of_bad(decoded: Decoded, bad: pa.StructArray) -> pa.RecordBatch:
    """A row for each fault, with the column BAD, and NULL in all others."""
    schema = decoded.rows.schema
    nulls = pa.RecordBatch.from_arrays([pa.nulls(len(bad), f.type) for f in schema], schema=schema)
    return with_column(nulls, bad)


def records_of(decoded: Decoded) -> np.ndarray:
    """The record of each row of ``with_bad``."""
    return np.sort(_numbers(decoded))


def _order(decoded: Decoded) -> np.ndarray:
    return np.argsort(_numbers(decoded), kind="stable")


def _numbers(decoded: Decoded) -> np.ndarray:
    return np.concatenate((decoded.numbers, np.array([fault.record for fault in decoded.faults], np.int64)))


def with_column(rows: pa.RecordBatch, values: pa.Array, name: str = BAD) -> pa.RecordBatch:
    """The rows with one more column, BAD by default."""
    return pa.RecordBatch.from_arrays([*rows.columns, values], [*rows.schema.names, name])


# --- messages ---------------------------------------------------------------------------------------------------

VALUE, PLACE = "__value", "__place"
"""The columns of messages: what they hold, BINARY, and where each is in the source, STRING."""


@dataclass(frozen=True)
class MessageRows:
    """Decodes the column VALUE of messages into rows.

    ``tolerant``: records that cannot be read are rows with the column BAD, instead of an error. ``lines``: the messages
    of a batch are lines of a text, of which those without content are no records. ``of_files``: PLACE is the URL of a
    file.
    """

    decoder: Decoder
    tolerant: bool = False
    lines: bool = False
    of_files: bool = False

    @property
    def columns(self) -> pa.Schema:
        """The columns that are decoded."""
        return self.decoder.schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, without those of the messages."""
        return self.columns.append(pa.field(BAD, BAD_TYPE)) if self.tolerant else self.columns

    def begin(self) -> None:
        """Called by a task before it decodes messages of a micro-batch (``Decoder.begin``)."""
        self.decoder.begin()

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of batches of messages; the other columns of a message are in each of its rows.

        ExecutionError SS402 for a record that cannot be read, if bad ones are not tolerated.
        """
        self.begin()
        for batch in batches:
            yield self.of(batch)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of one batch, as of ``rows``."""
        decoded = self.read(batch)
        if decoded.faults and not self.tolerant:
            fault = decoded.faults[0]
            place = self._place(batch, fault)
            where = f' of file "{place}"' if self.of_files else f" at {place}"
            raise unreadable_record("" if place is None else where, fault)
        rows, numbers = decoded.rows, decoded.numbers
        if self.tolerant:
            places = [self._place(batch, fault) for fault in decoded.faults]
            rows = with_bad(decoded, self._good(batch, decoded), bad_records(decoded.faults, places))
            numbers = records_of(decoded)
        names = [name for name in batch.schema.names if name != VALUE]
        if decoded.faults or decoded.origins is not None or self.lines:
            of_message = pa.array(numbers) if not self.lines else pa.array(np.zeros(rows.num_rows, np.int64))
            kept = [batch.column(name).take(of_message) for name in names]
        else:  # each message is a row
            kept = [batch.column(name) for name in names]
        return pa.RecordBatch.from_arrays([*rows.columns, *kept], [*rows.schema.names, *names])

    def _good(self, batch: pa.RecordBatch, decoded: Decoded) -> pa.Array:
        """The column BAD of rows that could be read."""
        return pa.nulls(decoded.rows.num_rows, BAD_TYPE)

    def _place(self, batch: pa.RecordBatch, fault: Fault) -> str | None:
        """Where a record is in the source."""
        place = None if self.lines else batch.column(PLACE)[fault.record].as_py()
        return path_of_url(place) if self.of_files and place is not None else place

    def read(self, messages: pa.RecordBatch) -> Decoded:
        """The rows and faults of messages."""
        return self.decoded(messages.column(VALUE))

    def decoded(self, values: pa.Array) -> Decoded:
        """The rows and faults of messages. ``values``: what they hold."""
        if not self.lines:
            return self.decoder.messages(values.cast(pa.binary()))
        ends, nothing = pa.scalar(b"\n", pa.binary()), pa.scalar(b"", pa.binary())
        lines = pc.binary_join_element_wise(values, ends, nothing)
        return self.decoder.block(pa.py_buffer(bytes_of(lines)[: offsets_of(lines)[-1]]))
