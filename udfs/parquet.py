"""Rows of Parquet files, read by the exchange itself.

Of all that a row costs on its way to Python, most is its way through the JVM, one value at a time. Where kernels take
columns as they are in files, Spark lists and splits the files and hands over *places*: one for ROWS_PER_PLACE rows,
which are then read here, in columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sqlstream.errors import ExecutionError
from sqlstream.udfs.assigners.assigner import NULL_EVENT_TIME
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.kernel import KEY_HASH

FILE = "__file"
"""STRING column of places: the file, as Spark names it."""

FIRST = "__first_row"
"""BIGINT column of places: the number in its file of the first of ROWS_PER_PLACE rows, or of fewer at its end."""

ROWS_PER_PLACE = 1 << 13

OTHER_TYPE = "SS467"

_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class FromFile:
    """A column of the rows: that with the name ``source`` in files, which the table says is ``type``.

    ``micros``: microseconds of a timestamp. ``required``: what SS401 says where it is NULL.
    """

    source: str
    type: pa.DataType
    micros: bool = False
    required: str | None = None


class _Run(NamedTuple):
    """Rows of a file one after the other, and a place that has what else is known of them."""

    path: str
    start: int
    stop: int
    place: Mapping[str, object]


@dataclass(frozen=True)
class ParquetRows:
    """Batches of ``schema`` for places. What is not among ``columns`` are columns of the places, PARTS, or KEY_HASH of
    rows without keys."""

    schema: pa.Schema
    columns: Mapping[str, FromFile]

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """ExecutionError SS467 where a column of a file has another type than in the table, SS401 at a NULL time."""
        for batch in places:
            for run in _runs(batch):
                yield from self._of(run)

    def _of(self, run: _Run) -> Iterator[pa.RecordBatch]:
        known: dict[str, object] = {**run.place, KEY_HASH: 0, PARTS[0]: _modified(run.path), PARTS[2]: run.start}
        constants = {f.name: pa.scalar(known[f.name], f.type) for f in self.schema if f.name not in self.columns}
        for batch in _read(run, sorted({c.source for c in self.columns.values()})):
            found = {name: self._column(column, batch, run.path) for name, column in self.columns.items()}
            filled = {name: pa.repeat(value, batch.num_rows) for name, value in constants.items()}
            columns = {**found, **filled}
            yield pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def _column(self, column: FromFile, batch: pa.RecordBatch, path: str) -> pa.Array:
        if column.source not in batch.schema.names:
            values = pa.nulls(batch.num_rows, column.type)
        else:
            values = _as(batch.column(column.source), column, path)
        if column.required is not None and values.null_count:
            raise ExecutionError(NULL_EVENT_TIME, column.required)
        return values.cast(pa.timestamp("us")).view(pa.int64()) if column.micros else values


def _runs(places: pa.RecordBatch) -> Iterator[_Run]:
    """Places that follow one another in a file are one run."""
    paths, first = places.column(FILE), places.column(FIRST).to_numpy()
    if not len(first):
        return
    same_file = np.asarray(pc.equal(paths[1:], paths[:-1]).to_numpy(zero_copy_only=False), bool)
    goes_on = same_file & (first[1:] == first[:-1] + ROWS_PER_PLACE)
    begins = [0, *(np.flatnonzero(~goes_on) + 1).tolist()]
    for begin, end in zip(begins, [*begins[1:], len(first)], strict=True):
        place = {name: places.column(name)[begin].as_py() for name in places.schema.names}
        path = unquote(urlsplit(paths[begin].as_py()).path)
        yield _Run(path, int(first[begin]), int(first[end - 1]) + ROWS_PER_PLACE, place)


def _read(run: _Run, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The run's rows; of the columns ``names``, in any case as Spark has it, those that the file has."""
    with pq.ParquetFile(run.path, memory_map=True, coerce_int96_timestamp_unit="us") as file:
        counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        ends = np.cumsum(counts)
        groups = [i for i, end in enumerate(ends) if end > run.start and end - counts[i] < run.stop]
        position = int(ends[groups[0]] - counts[groups[0]])
        own = _own_names(file.schema_arrow.names, names)
        for batch in file.iter_batches(_ROWS_PER_BATCH, groups, [*own], use_threads=False):
            rows = batch.slice(max(run.start - position, 0), run.stop - max(run.start, position))
            position += batch.num_rows
            if rows.num_rows:
                yield rows.rename_columns([own[name] for name in rows.schema.names])
            if position >= run.stop:
                return


def _own_names(there: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """By their names in the file, those of the table."""
    lower = {name.lower(): name for name in wanted}
    return {name: lower[name.lower()] for name in there if name.lower() in lower}


def _modified(path: str) -> int:
    """Microseconds, of whole milliseconds, as Spark has it."""
    return Path(path).stat().st_mtime_ns // 1_000_000 * 1000


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
    message = f'column "{column.source}" is {values.type} in file "{path}", not {column.type}'
    raise ExecutionError(OTHER_TYPE, message, hint="Give the column the type that it has in its files.")


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


def _is_text(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
                                           pa.types.is_binary, pa.types.is_large_binary))  # fmt: skip


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    """True where all values of one are values of the other, as far as Spark reads one as the other."""
    if pa.types.is_null(found) or (_is_text(found) and _is_text(wanted)):
        return True
    if any(is_found(found) and is_wanted(wanted) for is_found, is_wanted in _KINDS):
        exact = pa.types.is_decimal(found) or pa.types.is_timestamp(found)
        return exact or bool(found.bit_width <= wanted.bit_width)
    return False
