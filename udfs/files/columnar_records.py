"""Rows of Parquet, ORC and Arrow files of tables that tolerate bad rows: a row with a value that its column does not
have is a bad one, as a record of text is that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError
from sqlstream.formats.columnar import converted, fits, position_of
from sqlstream.formats.decoder import Decoded, Fault, Field, rows_of_nothing
from sqlstream.formats.file_access import LOCAL, FileAccess
from sqlstream.formats.misfits import misfits, readable
from sqlstream.udfs.files.columnar import ColumnarFiles, require_whole
from sqlstream.udfs.files.listed import Mismatch
from sqlstream.udfs.files.parquet import batches_of, own_names, parquet_file, without_view
from sqlstream.udfs.files.records import ReadRecords, RecordFormat
from sqlstream.udfs.files.splits import LENGTH, FileRange, naming
from sqlstream.udfs.messages import BAD_TYPE, bad_records, said, unreadable_record


@dataclass(frozen=True)
class ColumnarFormat(RecordFormat):
    """How the Parquet, ORC or Arrow files (``format``) of a table are read. ``fields``: the columns, by name; those
    that are not wanted make a row bad, too, unless they have another type in a file. ``nulls``: columns that a file
    lacks are NULL instead of errors. ``access``: how files are opened.
    """

    format: str
    fields: tuple[Field, ...]
    nulls: bool = False
    tolerant: bool = True
    keeps_records: bool = False
    access: FileAccess = LOCAL

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])

    @cached_property
    def _files(self) -> ColumnarFiles:
        return ColumnarFiles(self.format, tuple((f.name, f.type) for f in self.fields), self.nulls, self.access)

    def decoded(self, path: str, begin: int = 0, end: int | None = None) -> Iterator[tuple[Decoded, ReadRecords]]:
        """The rows of a file: of Parquet as large a share as the bytes are, others whole where they begin at 0. Raises
        SS524 if the file lacks a column or has it twice, SS467 if a column has another type, SS528 if the file cannot
        be read.
        """
        with naming(path):
            for first, batch in self._stored(path, begin, end):
                yield self._decoded(batch, path), _Read(path, batch, first)

    def _stored(self, path: str, begin: int, end: int | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows as the file has them, each batch with the number of its first one, from 0."""
        if self.format != "parquet":
            first = 0
            for batch in self._files.stored(path) if begin <= 0 and end != 0 else ():
                yield first, batch
                first += batch.num_rows
            return
        size = self.access.size(path)
        with parquet_file(path, self.access) as file:
            wanted = own_names(file.schema_arrow, self.schema.names, path, nulls=self.nulls)
            others = [f.name for f in self.fields if not f.wanted]
            own = {**own_names(file.schema_arrow, others, path, nulls=True), **wanted}
            own = {name: own[name] for name in file.schema_arrow.names if name in own}  # as records have them
            share = FileRange({LENGTH: size}, max(begin, 0), size if end is None else end)
            for _, first, batch in batches_of(file, share, own):
                yield first, batch

    def _decoded(self, batch: pa.RecordBatch, path: str) -> Decoded:
        stored = {f.name: values for f in self.fields if (values := self._values(batch, f, path)) is not None}
        try:
            columns = {f.name: self._converted(stored[f.name], f) for f in self.fields if f.name in stored}
        except pa.ArrowInvalid:
            return self._without_bad(batch, {name: without_view(values) for name, values in stored.items()})
        return Decoded(self._rows(columns, batch.num_rows), batch.num_rows)

    def _without_bad(self, batch: pa.RecordBatch, stored: Mapping[str, pa.Array]) -> Decoded:
        """The rows but for those with a value that its column does not have."""
        reasons: dict[int, list[str]] = {}
        for field in (f for f in self.fields if f.name in stored):
            wrong = misfits(stored[field.name], field.type.to_arrow(), orc=self.format == "orc")
            for row, value in wrong.items():
                reasons.setdefault(row, []).append(f'column "{field.name}" of type {field.type} is {value}')
        bad = sorted(reasons)
        good = pa.array(np.delete(np.arange(batch.num_rows), bad))
        columns = {f.name: self._converted(stored[f.name].take(good), f) for f in self.fields if f.wanted}
        texts = _texts(batch, bad)
        faults = [Fault(row, 0, text, ", ".join(reasons[row])) for row, text in zip(bad, texts, strict=True)]
        return Decoded(self._rows(columns, len(good)), batch.num_rows, faults)

    def _rows(self, columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
        if not len(self.schema):  # which have a number all the same
            return rows_of_nothing(count)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def _converted(self, values: pa.Array, field: Field) -> pa.Array:
        return converted(values, field.type.to_arrow(), orc=self.format == "orc")

    def _values(self, batch: pa.RecordBatch, field: Field, path: str) -> pa.Array | None:
        """The values of a column; None of one that is not wanted and has another type."""
        kind = field.type.to_arrow()
        number = position_of(batch.schema.names, field.name)
        if number is None:
            if field.wanted and not self.nulls:
                raise Mismatch(field.name, kind, None, tuple(batch.schema.names)).error(path, self.format)
            return pa.nulls(batch.num_rows)
        values = batch.column(number)
        if not fits(values.type, kind, orc=self.format == "orc"):
            if field.wanted:
                raise Mismatch(field.name, kind, values.type).error(path, self.format)
            return None
        if self.format == "arrow":
            require_whole(values)
        return values


def _texts(batch: pa.RecordBatch, rows: Sequence[int]) -> list[bytes]:
    """Rows as JSON, with the values of the file."""
    names, chosen = batch.schema.names, pa.array(rows, pa.int64())
    columns = [_values(readable(without_view(column).take(chosen))) for column in batch.columns]
    records = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    return [_JSON.encode(record).encode(errors="replace") for record in records]


def _values(column: pa.Array) -> list[object]:
    try:
        values: list[object] = column.to_pylist()
    except (ArithmeticError, ValueError):  # a time or a text that Python does not have
        return [_value(scalar) for scalar in column]
    return values


def _value(scalar: pa.Scalar) -> object:
    try:
        return scalar.as_py()
    except (ArithmeticError, ValueError):
        return repr(scalar)


def _spelled(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_spelled)


@dataclass(frozen=True)
class _Read(ReadRecords):
    """A batch of rows of a file, of which the first has the number ``first``, from 0."""

    path: str
    batch: pa.RecordBatch
    first: int

    def _place(self, record: int) -> str:
        return f"row {self.first + record + 1:,}"

    def error(self, fault: Fault) -> ExecutionError:
        return unreadable_record(f' in {self._place(fault.record)} of file "{self.path}"', fault)

    def message(self, fault: Fault) -> str:
        return f"{self._place(fault.record)}: {said(fault)}"

    def bad(self, faults: Sequence[Fault]) -> pa.StructArray:
        return bad_records(faults, [f"{self.path}: row {self.first + fault.record + 1}" for fault in faults])

    def place(self, row: int, decoded: Decoded) -> str:
        return self._place(int(decoded.numbers[row]))

    def lines_of_good(self, decoded: Decoded) -> np.ndarray | None:
        return None

    def records(self, decoded: Decoded) -> pa.StructArray:
        numbers = pa.array(decoded.numbers + (self.first + 1)).cast(pa.string())
        places = pc.binary_join_element_wise(f"{self.path}: row", numbers, " ")
        unread = pa.nulls(len(numbers), pa.binary()), pa.nulls(len(numbers), pa.string())  # Spark makes JSON of the row
        return pa.StructArray.from_arrays([*unread, places], fields=[*BAD_TYPE])
