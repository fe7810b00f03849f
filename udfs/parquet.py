"""Rows of Parquet files, read by tasks themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.udfs.file_splits import FileRange, FileRows, FromFile, Piece, naming
from sqlstream.udfs.listed_files import Mismatch, is_text

_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class ParquetRows(FileRows):
    """Reads rows of Parquet files.

    ``nulls``: columns that a file lacks are NULL instead of errors. ExecutionError SS524 where a file lacks a column,
    SS467 where its column has another type than in the table.
    """

    nulls: bool = False

    def read(self, file_range: FileRange) -> Iterator[Piece]:
        names = sorted({column.source for column in self.columns.values()})
        yield from _read(file_range, names, nulls=self.nulls)

    def as_declared(self, values: pa.Array, column: FromFile, path: str) -> pa.Array:
        return _as(values, column, path)


def _read(file_range: FileRange, names: Sequence[str], *, nulls: bool) -> Iterator[Piece]:
    """The rows of the file range.

    It reads those of the columns ``names`` that the file has; names are compared without regard to case, as in Spark.
    Several tasks may decode the same row group for different rows; that costs little compared to what they do with the
    rows.
    """
    with (
        naming(file_range.path),
        pq.ParquetFile(file_range.path, memory_map=True, coerce_int96_timestamp_unit="us") as file,
    ):
        counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        start, stop = file_range.rows(sum(counts))
        if start >= stop:
            return
        ends = np.cumsum(counts)
        groups = np.flatnonzero((start < ends) & (ends - counts < stop)).tolist()
        position = sum(counts[: groups[0]])
        own = _own_names(file.schema_arrow, names, None if nulls else file_range.path)
        for batch in file.iter_batches(_ROWS_PER_BATCH, groups, [*own], use_threads=False):
            number = max(start, position)
            rows = batch.slice(number - position, stop - number)
            position += batch.num_rows
            if rows.num_rows:
                named = rows.rename_columns([own[name] for name in rows.schema.names])
                yield Piece(start, named, _numbered(number))
            if position >= stop:
                return


def _numbered(first: int) -> Callable[[int], str]:
    return lambda row: f"row {first + row + 1:,}"


def _own_names(there: pa.Schema, wanted: Sequence[str], strict: str | None) -> dict[str, str]:
    """By their names in the file, the columns of the table; SS524 if one is missing in the file ``strict``."""
    lower = {name.lower(): name for name in wanted}
    own = {name: lower[name.lower()] for name in there.names if name.lower() in lower}
    missing = [name for name in wanted if name not in own.values()]
    if missing and strict is not None:
        raise Mismatch(missing[0], pa.null(), None, tuple(there.names)).error(strict)
    return own


def _as(values: pa.Array, column: FromFile, path: str) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type == column.type:
        return values
    try:
        if _is_like(values.type, column.type):
            return _cast(values, column.type)
    except pa.ArrowInvalid:
        pass  # a value that the type does not have
    raise Mismatch(column.source, column.type, values.type).error(path)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):  # a clock without zone is read as UTC, as Spark does
        return values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.timestamp("us")).cast(kind)
    return values.cast(kind)


_KINDS = (
    (pa.types.is_integer, pa.types.is_integer),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width < 64, pa.types.is_float64),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_decimal, pa.types.is_decimal),
)


def _is_like(in_file: pa.DataType, wanted: pa.DataType) -> bool:
    """True where all values of one type are values of the other, as far as Spark converts them."""
    if pa.types.is_null(in_file) or (is_text(in_file) and is_text(wanted)):
        return True
    if any(is_found(in_file) and is_wanted(wanted) for is_found, is_wanted in _KINDS):
        exact = pa.types.is_decimal(in_file) or pa.types.is_timestamp(in_file)
        return exact or bool(in_file.bit_width <= wanted.bit_width)
    return False
