"""Rows of Parquet files, read by tasks themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.formats.columnar import converted
from sqlstream.udfs.file_splits import FileRange, FileRows, FromFile, Piece, naming
from sqlstream.udfs.listed_files import Mismatch

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
    try:
        return converted(values, column.type)
    except pa.ArrowInvalid:  # another type, or a value that the type does not have
        raise Mismatch(column.source, column.type, values.type).error(path) from None
