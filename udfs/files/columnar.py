"""Reads whole files of columns: Parquet, ORC and Arrow (IPC files and streams, also called Feather).

One task reads a file from its beginning, in batches, so that memory is bounded by a batch or a row group. Streams and
finished data read so what Spark cannot (``udfs.spark.batches.of_files``), lookups all of their files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc, orc

from sqlstream.errors import ExecutionError
from sqlstream.formats.columnar import Ambiguous, converted, position_of
from sqlstream.formats.file_access import LOCAL, FileAccess
from sqlstream.formats.misfits import readable
from sqlstream.types import DataType
from sqlstream.udfs.bad_records import BAD_ROW
from sqlstream.udfs.files.listed import Mismatch, refused, type_name
from sqlstream.udfs.files.splits import naming

_ROWS_PER_BATCH = 1 << 16
_IPC_FILE, _FEATHER_V1 = b"ARROW1", b"FEA1"


@dataclass(frozen=True)
class ColumnarFiles:
    """Reads whole files of a table. ``format``: parquet, orc or arrow; ``columns``: the columns to read, with their
    declared types. ``nulls``: columns that a file lacks are NULL instead of errors. ``access``: how files are opened.
    """

    format: str
    columns: tuple[tuple[str, DataType], ...]
    nulls: bool = False
    access: FileAccess = LOCAL

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows that ``batches`` returns; TIMESTAMP columns have the zone UTC."""
        return pa.schema([(name, kind.to_arrow()) for name, kind in self.columns])

    def batches(self, path: str, content: bytes | None = None) -> Iterator[pa.RecordBatch]:
        """Reads a file and yields its rows in order, in batches of the schema ``schema``.

        ``content``: the bytes of a file that is not on this machine; None to read the local file ``path``. Raises SS524
        if the file lacks a column or has it twice, SS467 if a column has another type, SS402 for a value that its type
        does not have, SS528 if the file cannot be read, SS529 if it does not exist any more.
        """
        first = 0
        with naming(path):
            for batch in self.stored(path, content):
                yield self._declared(batch, path, first)
                first += batch.num_rows

    def stored(self, path: str, content: bytes | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a file with those of the columns that it has, as it has them. Raises what ``batches`` does for
        names, and for what Arrow cannot read.
        """
        names = [name for name, _ in self.columns]
        try:
            yield from _BATCHES[self.format](self._opened(path, content), names)
        except Ambiguous as error:
            found = Mismatch(error.name, self.schema.field(error.name).type, None, error.found, twice=True)
            raise found.error(path, self.format) from None
        except _BeyondNanoseconds as error:
            raise error.named(self.schema.field(position_of(names, error.column) or 0), path) from None

    def _opened(self, path: str, content: bytes | None) -> pa.NativeFile:
        return self.access.columnar(path) if content is None else pa.BufferReader(content)

    def placed(self, path: str) -> Iterator[tuple[pa.RecordBatch, Callable[[int], str]]]:
        """``batches``, each with a function that returns the place of a row by its index, such as ``row 7``."""
        first = 0
        for batch in self.batches(path):
            yield batch, partial(_numbered, first)
            first += batch.num_rows

    def _declared(self, batch: pa.RecordBatch, path: str, first: int) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        for field in self.schema:
            number = position_of(batch.schema.names, field.name)
            if number is None and not self.nulls:
                raise Mismatch(field.name, field.type, None, tuple(batch.schema.names)).error(path, self.format)
            values = pa.nulls(batch.num_rows) if number is None else batch.column(number)
            if self.format == "arrow":
                require_whole(values)
            try:
                columns.append(converted(values, field.type, orc=self.format == "orc"))
            except pa.ArrowInvalid:  # another type, or a value that the type does not have
                where = partial(_in_row, path, first)
                raise refused(values, field.name, field.type, path, where, self.format) from None
        if not columns:  # rows are counted all the same
            return batch
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def require_whole(values: pa.Array) -> None:
    """Raises pa.ArrowInvalid where values are not as Arrow says: its files are memory, of which nothing is
    looked at when it is read, and offsets that lead elsewhere would end the process. Of texts that are no UTF-8 and
    times of no day it is said later which ones they are.
    """
    readable(values)


def _numbered(first: int, row: int) -> str:
    return f"row {first + row + 1:,}"


def _in_row(path: str, first: int, row: int) -> str:
    return f'in {_numbered(first, row)} of file "{path}"'


def schema_of(path: str, format: str, access: FileAccess = LOCAL) -> pa.Schema:  # noqa: A002
    """Reads the Arrow schema of a file. ``format``: parquet, orc or arrow. Raises pa.ArrowException or OSError if the
    file cannot be read.
    """
    if format == "orc":
        return orc.ORCFile(path if access.is_local else access.columnar(path)).schema
    if format == "parquet":
        return pq.read_schema(path if access.is_local else access.columnar(path))
    return _reader(access.columnar(path)).schema


def _of_parquet(source: pa.NativeFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
        yield from _or_empty(
            file.iter_batches(_ROWS_PER_BATCH, columns=_own(file.schema_arrow, names), use_threads=False),
            file.schema_arrow,
            bool(file.metadata.num_rows),
        )


def _of_orc(source: pa.NativeFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    file = orc.ORCFile(source)
    own = _own(file.schema, names)
    stripes = (_stripe(file, number, own) for number in range(file.nstripes))
    yield from _or_empty(stripes, file.schema, bool(file.nstripes))


class _BeyondNanoseconds(ValueError):
    """Raised where a timestamp of ORC is beyond those of 64 bits of nanoseconds, as which Arrow reads all of them."""

    def __init__(self, column: str, seconds: int, stripe: int) -> None:
        super().__init__(column)
        self.column, self.stripe = column, stripe
        self.value = str(np.datetime64(seconds, "s")).replace("T", " ")

    def named(self, declared: pa.Field, path: str) -> ExecutionError:
        """The error SS402 for a column of a file."""
        kind, stripe = type_name(declared.type), f'in stripe {self.stripe + 1:,} of file "{path}"'
        message = f'column "{declared.name}" of type {kind} is {self.value} {stripe}, before 1677 or after 2262'
        return ExecutionError(
            BAD_ROW, message, hint="Write the files as Parquet, of which lookups read other years, too."
        )


_NO_NANOSECONDS = re.compile(r"ORC timestamp \((-?\d+)s")


def _stripe(file: orc.ORCFile, number: int, own: list[str]) -> pa.RecordBatch:
    try:
        return file.read_stripe(number, columns=own)
    except pa.ArrowInvalid as error:
        for name in own if _NO_NANOSECONDS.search(str(error)) else ():
            try:
                file.read_stripe(number, columns=[name])
            except pa.ArrowInvalid as of_column:
                seconds = _NO_NANOSECONDS.search(str(of_column))
                if seconds is not None:
                    raise _BeyondNanoseconds(name, int(seconds[1]), number) from None
        raise


def _of_arrow(source: pa.NativeFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    reader = _reader(source)
    own = _own(reader.schema, names)
    if isinstance(reader, ipc.RecordBatchFileReader):
        batches: Iterator[pa.RecordBatch] = (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        batches = iter(reader)
    yield from _or_empty((batch.select(own) for batch in batches), reader.schema, some=False)


def _reader(file: pa.NativeFile) -> ipc.RecordBatchFileReader | ipc.RecordBatchStreamReader:
    beginning = file.read(len(_IPC_FILE))
    file.seek(0)
    if beginning.startswith(_FEATHER_V1):
        raise pa.ArrowInvalid("it is a Feather file of version 1; write it again with a version 2, which is Arrow's")
    return ipc.open_file(file) if beginning == _IPC_FILE else ipc.open_stream(file)


def _or_empty(batches: Iterable[pa.RecordBatch], schema: pa.Schema, some: bool) -> Iterator[pa.RecordBatch]:
    """The batches; an empty one of a file without rows, of which the columns are checked, too."""
    for batch in batches:
        some = True
        yield batch
    if not some:
        yield from schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]


def _own(there: pa.Schema, names: list[str]) -> list[str]:
    """The names in the file of the columns that are wanted. Raises Ambiguous."""
    numbers = (position_of(there.names, name) for name in names)
    return [there.names[number] for number in sorted({n for n in numbers if n is not None})]


_BATCHES: Mapping[str, Any] = {"parquet": _of_parquet, "orc": _of_orc, "arrow": _of_arrow}
