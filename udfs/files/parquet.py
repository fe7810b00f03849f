"""Rows of Parquet files, read by tasks themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.formats.columnar import Ambiguous, converted, position_of, usual_type
from sqlstream.formats.file_access import LOCAL, FileAccess
from sqlstream.udfs.files.details import FileDetails
from sqlstream.udfs.files.directories import is_url, path_of_url
from sqlstream.udfs.files.listed import Mismatch, refused
from sqlstream.udfs.files.splits import FILE, FileRange, FileRows, FromFile, Piece, Where, naming

_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class TableFiles:
    """How tasks read the files of a table format: Parquet, which ``stored`` opens where they are elsewhere."""

    stored: Callable[[str], pa.NativeFile]


@dataclass(frozen=True)
class ParquetRows(FileRows):
    """Reads rows of Parquet files, and applies what a split says of its file (``udfs.files.details``).

    ``nulls``: columns that a file lacks are NULL instead of errors, as they always are for files with details.
    ``stored``: opens files of table formats that are not on this machine, by their location in the details.
    ExecutionError SS524 where a file lacks a column, SS467 where its column has another type than in the table.
    """

    nulls: bool = False
    stored: Callable[[str], pa.NativeFile] | None = None

    def read(self, file_range: FileRange) -> Iterator[Piece]:
        details = FileDetails.of_split(file_range.file)
        with naming(file_range.path, of_version=details is not None), self.opened(file_range, details) as file:
            if details is None:
                names = sorted({column.source for column in self.columns.values()})
                yield from _read(file, file_range, names, nulls=self.nulls)
            else:
                yield from _read_table(file, file_range, self._types(), details)

    def opened(self, file_range: FileRange, details: FileDetails | None) -> pq.ParquetFile:
        """Opens the file, which is on this machine or that ``stored`` opens."""
        if self.stored is None or details is None or not is_url(file_range.path):
            return parquet_file(file_range.path)
        return pq.ParquetFile(self.stored(details.location), coerce_int96_timestamp_unit="us")

    def _types(self) -> dict[str, pa.DataType]:
        return {column.source: column.type for _, column in sorted(self.columns.items())}

    def as_declared(self, values: pa.Array, column: FromFile, constants: Mapping[str, Any], where: Where) -> pa.Array:
        try:
            return converted(values, column.type)
        except pa.ArrowInvalid:  # another type, or a value that the type does not have
            path = path_of_url(constants[FILE])
            raise refused(values, column.source, column.type, path, where) from None


def parquet_file(path: str, access: FileAccess = LOCAL) -> pq.ParquetFile:
    """Opens a file. Of an object, what a read needs is fetched in a few large pieces."""
    if access.is_local:
        return pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit="us")
    return pq.ParquetFile(access.columnar(path), pre_buffer=True, coerce_int96_timestamp_unit="us")


def _read(file: pq.ParquetFile, file_range: FileRange, names: Sequence[str], *, nulls: bool) -> Iterator[Piece]:
    """The rows of the file range.

    It reads those of the columns ``names`` that the file has; names are compared without regard to case, as in Spark.
    """
    own = own_names(file.schema_arrow, names, file_range.path, nulls=nulls)
    for start, first, rows in batches_of(file, file_range, own):
        yield Piece(start, rows, _numbered(first))


def _read_table(
    file: pq.ParquetFile, file_range: FileRange, types: Mapping[str, pa.DataType], details: FileDetails
) -> Iterator[Piece]:
    """The rows of the file range as rows of a table format: without deleted ones, and with columns that all share."""
    for start, first, batch in batches_of(file, file_range, details.own_names(file.schema_arrow, [*types])):
        rows = without_views(batch)
        remaining = details.remaining(first, rows.num_rows)
        if remaining is None:
            yield Piece(start, details.with_constants(rows, types), _numbered(first))
        elif len(remaining):
            kept = rows.take(pa.array(remaining))
            yield Piece(start, details.with_constants(kept, types), _numbered_among(first, remaining))


def batches_of(
    file: pq.ParquetFile, file_range: FileRange, own: Mapping[str, str]
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Yields the position of the range, that of the first row, and rows, in batches of the columns ``own``, by their
    names in the file, which are renamed.

    Several tasks may decode the same row group for different rows; that costs little compared to what they do with the
    rows.
    """
    counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    start, stop = file_range.rows(sum(counts))
    if start >= stop:
        return
    ends = np.cumsum(counts)
    groups = np.flatnonzero((start < ends) & (ends - counts < stop)).tolist()
    position = sum(counts[: groups[0]])
    for batch in file.iter_batches(_ROWS_PER_BATCH, groups, [*own], use_threads=False):
        number = max(start, position)
        rows = batch.slice(number - position, stop - number)
        position += batch.num_rows
        if rows.num_rows:
            yield start, number, rows.select([*own]).rename_columns([*own.values()])
        if position >= stop:
            return


def without_views(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with texts and bytes of Arrow's usual types: some writers note view types in their files, and Arrow
    cannot take rows of those.
    """
    kinds = [usual_type(kind) for kind in rows.schema.types]
    if kinds == rows.schema.types:
        return rows
    return rows.cast(pa.schema([*zip(rows.schema.names, kinds, strict=True)]))


def without_view(values: pa.Array) -> pa.Array:
    """Values of one column, as ``without_views``."""
    kind = usual_type(values.type)
    return values if kind == values.type else values.cast(kind)


def _numbered(first: int) -> Callable[[int], str]:
    return lambda row: f"row {first + row + 1:,}"


def _numbered_among(first: int, remaining: np.ndarray) -> Callable[[int], str]:
    return lambda row: f"row {first + int(remaining[row]) + 1:,}"


def own_names(there: pa.Schema, wanted: Sequence[str], file: str, *, nulls: bool) -> dict[str, str]:
    """By their names in the file, the columns of the table. SS524 if the file lacks one, unless that is NULL, or has it
    more than once.
    """
    own = {}
    for name in wanted:
        try:
            number = position_of(there.names, name)
        except Ambiguous as error:
            raise Mismatch(name, pa.null(), None, error.found, twice=True).error(file) from None
        if number is not None:
            own[there.names[number]] = name
        elif not nulls:
            raise Mismatch(name, pa.null(), None, tuple(there.names)).error(file)
    return own
