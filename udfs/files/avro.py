"""Rows of Avro files, which tasks and lookups read themselves, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError
from sqlstream.formats.avro import AvroDecoder
from sqlstream.formats.avro_files import Container, Corrupt, StoredBlock, opened, schema_text
from sqlstream.formats.avro_schema import Schema, SchemaError, missing_or_other, parse_schema, reads
from sqlstream.formats.decoder import Decoded, Fault, Field
from sqlstream.formats.file_access import LOCAL, FileAccess
from sqlstream.types import DataType
from sqlstream.udfs.files.listed import Mismatch, unreadable
from sqlstream.udfs.files.records import ReadRecords, RecordFormat
from sqlstream.udfs.files.splits import naming
from sqlstream.udfs.messages import BAD_TYPE, bad_records, said, unreadable_record

_BYTES_AT_ONCE = 1 << 25
"""Blocks are decoded together up to so many bytes: their records are found in one step for each in the longest."""


@dataclass(frozen=True)
class AvroFormat(RecordFormat):
    """How the Avro files of a table are read. ``fields``: the columns, by name; ``nulls``: those that a file lacks are
    NULL instead of errors. ``access``: how files are opened.
    """

    fields: tuple[Field, ...]
    nulls: bool = False
    tolerant: bool = False
    keeps_records: bool = False
    access: FileAccess = LOCAL

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])

    def decoded(
        self, path: str, begin: int = 0, end: int | None = None, content: bytes | None = None
    ) -> Iterator[tuple[Decoded, ReadRecords]]:
        """The records of a file in the blocks that begin between two bytes. ``content``: the bytes of a file that is
        not on this machine.

        Raises SS524 if the file lacks a column, SS467 if a column has another type, SS528 if it is no Avro file.
        """
        try:
            with opened(path, self.access) if content is None else nullcontext(Container(content)) as file:
                yield from self._of(file, path, begin, end)
        except Corrupt as error:
            raise unreadable(path, error.reason) from None

    def _of(self, file: Container, path: str, begin: int, end: int | None) -> Iterator[tuple[Decoded, ReadRecords]]:
        decoder = self._decoder(file.schema, path)
        for blocks in _together(file.blocks(begin, end)):
            if isinstance(blocks, Corrupt):
                rows = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self.schema], schema=self.schema)
                fault = Fault(0, 0, blocks.beginning, blocks.reason)
                yield Decoded(rows, 1, [fault]), _Read(path, [blocks.at], [0], is_block=True)
                continue
            decoded, firsts = decoder.blocks([block.data for block in blocks], [block.records for block in blocks])
            yield decoded, _Read(path, [block.at for block in blocks], firsts.tolist())

    def _decoder(self, written: str, path: str) -> AvroDecoder:
        try:
            schema = AvroDecoder.record_schema(parse_schema(written))
        except SchemaError as error:
            raise unreadable(path, f"its schema {error}") from None
        for mismatch in mismatches(schema, self.schema, nulls=self.nulls):
            raise mismatch.error(path, "avro")
        return _decoder_of(tuple(f for f in self.fields if f.wanted or _can_read(schema, f)), written)


def _can_read(schema: Schema, field: Field) -> bool:
    """Whether a file has a column as declared, or lacks it. A column that is not wanted may be otherwise."""
    member = schema.member(field.name)
    return member is None or reads(member.type, field.type.to_arrow())


@dataclass(frozen=True)
class AvroFiles:
    """Reads whole files, as ``ColumnarFiles`` does. A record that cannot be read is an error."""

    format: AvroFormat

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read, as Arrow's."""
        return self.format.schema

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The columns that are read, with their declared types."""
        return tuple((f.name, f.type) for f in self.format.fields)

    def batches(self, path: str, content: bytes | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file in order. ``content``: the bytes of a file that is not on this machine.

        Raises SS402 for a record that cannot be read, SS529 if the file does not exist any more, and what
        ``AvroFormat.decoded`` does.
        """
        with naming(path):
            for decoded, read in self.format.decoded(path, content=content):
                if decoded.faults:
                    raise read.error(decoded.faults[0])
                yield decoded.rows


@lru_cache(maxsize=64)
def _decoder_of(fields: tuple[Field, ...], written: str) -> AvroDecoder:
    """Files of a table have mostly one schema, for which the readers are made once."""
    return AvroDecoder(fields, written)


def file_schema(path: str, access: FileAccess = LOCAL) -> Schema:
    """Reads the schema of a file. Raises pa.ArrowException or OSError if the file cannot be read."""
    try:
        return parse_schema(schema_text(path, access))
    except SchemaError as error:
        raise pa.ArrowInvalid(f"its schema {error}") from None


def mismatches(schema: Schema, wanted: Iterable[pa.Field], *, nulls: bool) -> Iterator[Mismatch]:
    """Compares the schema of a file with the ``wanted`` columns, and yields each that is missing or has another type.
    ``nulls``: a missing column is NULL and not reported.
    """
    record = AvroDecoder.record_schema(schema)
    for path, declared, found, names in missing_or_other(record, [*wanted], nulls=nulls):
        yield Mismatch(path, declared, found, names)


def _together(blocks: Iterable[StoredBlock | Corrupt]) -> Iterator[list[StoredBlock] | Corrupt]:
    """The blocks in groups of a bounded size; each that cannot be read alone."""
    group: list[StoredBlock] = []
    size = 0
    for block in blocks:
        if isinstance(block, Corrupt):
            if group:
                yield group
            group, size = [], 0
            yield block
            continue
        group.append(block)
        size += block.data.size
        if size >= _BYTES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


@dataclass(frozen=True)
class _Read(ReadRecords):
    """Some decoded blocks of a file: where each is, and the number of its first record among those of all.

    ``is_block``: the one record is a block that cannot be read.
    """

    path: str
    blocks: Sequence[int]
    firsts: Sequence[int]
    is_block: bool = False

    def _place(self, record: int) -> str:
        block = int(np.searchsorted(self.firsts, record, side="right")) - 1
        at = f"the block at byte {self.blocks[block]:,}"
        return at if self.is_block else f"record {record - self.firsts[block] + 1:,} of {at}"

    def error(self, fault: Fault) -> ExecutionError:
        return unreadable_record(f' in {self._place(fault.record)} of file "{self.path}"', fault)

    def message(self, fault: Fault) -> str:
        return f"{self._place(fault.record)}: {said(fault)}"

    def bad(self, faults: Sequence[Fault]) -> pa.StructArray:
        return bad_records(faults, [f"{self.path}: {self._place(fault.record)}" for fault in faults])

    def place(self, row: int, decoded: Decoded) -> str:
        return self._place(int(decoded.numbers[row]))

    def lines_of_good(self, decoded: Decoded) -> np.ndarray | None:
        return None

    def records(self, decoded: Decoded) -> pa.StructArray:
        return pa.nulls(decoded.rows.num_rows, BAD_TYPE)
