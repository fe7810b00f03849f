"""Reads rows of Parquet files in the exchange.

Most of the cost of a row on its way to Python is its way through the JVM, one value at a time. Where a kernel takes
columns unchanged from files, Spark only lists the files of a micro-batch: each task gets the list of all files and
reads its share of their rows here, as columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sqlstream.errors import ExecutionError, repeating
from sqlstream.formats.columnar import converted
from sqlstream.udfs.assigners.assigner import NULL_EVENT_TIME
from sqlstream.udfs.event_times import EARLIEST, HINT, LATEST, OUT_OF_RANGE, out_of_range
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.listed_files import Mismatch, naming

FILE = "__file"
"""STRING column of file ranges: the path of the file as Spark names it."""

NULL_IN_COLUMN = repeating("SS403")

LENGTH = "__length"
"""BIGINT column of file ranges: the size of the file in bytes."""

SHARE, SHARES = "__share", "__shares"
"""INT columns of file ranges: the number of the task, from 0, and the number of tasks."""

_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class FromFile:
    """A column that is read from the files: the one named ``source``, of the table's type ``type``.

    ``micros``: as BIGINT microseconds of a timestamp. ``event_time``: its name in messages if it is the event time,
    which must be neither NULL nor out of range. ``not_null``: the text of SS403 for a NULL in a NOT NULL column.
    """

    source: str
    type: pa.DataType
    micros: bool = False
    event_time: str | None = None
    not_null: str | None = None


def path_of_url(url: str) -> str:
    """The path on this machine of a file that Spark names ``file:///data/a%20b.parquet``."""
    return unquote(urlsplit(url).path)


class _FileRange(NamedTuple):
    """The rows of a file from byte ``begin`` until ``end``, were all rows of the same size."""

    file: Mapping[str, Any]
    begin: int
    end: int

    @property
    def path(self) -> str:
        return path_of_url(self.file[FILE])

    def rows(self, count: int) -> tuple[int, int]:
        """The number of the first row, and that after the last row, of ``count`` rows in the file."""
        first, stop = (-(-byte * count // self.file[LENGTH]) for byte in (self.begin, self.end))
        return max(first, 0), min(stop, count)


@dataclass(frozen=True)
class ParquetRows:
    """Reads batches of ``schema`` from the file ranges of a task.

    Columns that are not in ``columns`` are taken from the file ranges, or are PARTS, or are KEY_HASH of rows without
    keys. ``nulls``: columns that a file lacks are NULL instead of errors.
    """

    schema: pa.Schema
    columns: Mapping[str, FromFile]
    nulls: bool = False

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the file ranges of a task. ExecutionError SS524 where a file lacks a column, SS467 where its
        column has another type than in the table, SS401 for a NULL event time, SS430 for one out of range, SS403 for a
        NULL in a NOT NULL column."""
        for file_range in _parts([file for batch in places for file in batch.to_pylist()]):
            yield from self._of(file_range)

    def _of(self, file_range: _FileRange) -> Iterator[pa.RecordBatch]:
        constants = {**file_range.file, KEY_HASH: 0, PARTS[0]: _modified(file_range.path)}
        names = sorted({column.source for column in self.columns.values()})
        for first, number, batch in _read(file_range, names, nulls=self.nulls):
            constants[PARTS[2]] = first
            columns = {
                name: self._column(column, batch, file_range.path, number) for name, column in self.columns.items()
            }
            filled = (
                columns[f.name]
                if f.name in columns
                else pa.repeat(pa.scalar(constants[f.name], f.type), batch.num_rows)
                for f in self.schema
            )
            yield pa.RecordBatch.from_arrays([*filled], schema=self.schema)

    def _column(self, column: FromFile, batch: pa.RecordBatch, path: str, number: int) -> pa.Array:
        if column.source not in batch.schema.names:
            values = pa.nulls(batch.num_rows, column.type)
        else:
            values = _as(batch.column(column.source), column, path)
        column_values = values.cast(pa.timestamp("us")).view(pa.int64()) if column.micros else values
        if column.event_time is not None:
            _require_time(column_values, column.event_time)
        elif column.not_null is not None and values.null_count:
            raise _null_in_column(column.not_null, values, path, number)
        return column_values


def _require_time(times: pa.Array, name: str) -> None:
    if times.null_count:
        raise ExecutionError(NULL_EVENT_TIME, f"{name} is NULL")
    least, most = pc.min_max(times).values()
    for time in (least.as_py(), most.as_py()):
        if time is not None and not EARLIEST <= time <= LATEST:
            raise ExecutionError(OUT_OF_RANGE, out_of_range(name, str(time)), hint=HINT)


def _null_in_column(text: str, values: pa.Array, path: str, number: int) -> ExecutionError:
    """``number``: that of the first value in the file."""
    row = number + int(np.flatnonzero(values.is_null())[0]) + 1
    hint = "Correct the row, or let the option on-error of its table skip it."
    return ExecutionError(NULL_IN_COLUMN, f'{text} in row {row:,} of file "{path}"', hint=hint)


def _parts(places: Sequence[Mapping[str, Any]]) -> Iterator[_FileRange]:
    """The share of the files that a task reads, by bytes. Every task gets the files in the same order."""
    for share in sorted({file[SHARE] for file in places}):
        listed = sorted((file for file in places if file[SHARE] == share), key=itemgetter(FILE))
        total, start = sum(file[LENGTH] for file in listed), 0
        for file in listed:
            begin, end = (total * (share + i) // file[SHARES] - start for i in (0, 1))
            if begin < file[LENGTH] and end > 0:
                yield _FileRange(file, begin, end)
            start += file[LENGTH]


def _read(file_range: _FileRange, names: Sequence[str], *, nulls: bool) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The rows of the file range, each batch with the numbers of the first row of the range and of its own first row in
    the file.

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
                yield start, number, rows.rename_columns([own[name] for name in rows.schema.names])
            if position >= stop:
                return


def _own_names(there: pa.Schema, wanted: Sequence[str], strict: str | None) -> dict[str, str]:
    """By their names in the file, the columns of the table; SS524 if one is missing in the file ``strict``."""
    lower = {name.lower(): name for name in wanted}
    own = {name: lower[name.lower()] for name in there.names if name.lower() in lower}
    missing = [name for name in wanted if name not in own.values()]
    if missing and strict is not None:
        raise Mismatch(missing[0], pa.null(), None, tuple(there.names)).error(strict)
    return own


def _modified(path: str) -> int:
    """Microseconds, of whole milliseconds, as Spark has it."""
    return Path(path).stat().st_mtime_ns // 1_000_000 * 1000


def _as(values: pa.Array, column: FromFile, path: str) -> pa.Array:
    try:
        return converted(values, column.type)
    except pa.ArrowInvalid:  # another type, or a value that the type does not have
        raise Mismatch(column.source, column.type, values.type).error(path) from None
