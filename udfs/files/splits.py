"""Splits of files, which tasks read themselves as columns instead of Spark.

Most of the cost of a row on its way to Python is its way through the JVM, one value at a time. Where tasks read files
themselves, Spark only lists the files of a micro-batch: each task gets the list of all files and reads its share.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError, repeating
from sqlstream.formats.file_access import LOCAL, FileAccess, StoreAccess
from sqlstream.formats.store_errors import store_error
from sqlstream.formats.time_texts import in_micros
from sqlstream.udfs.assigners.assigner import NULL_EVENT_TIME
from sqlstream.udfs.event_times import EARLIEST, HINT, LATEST, OUT_OF_RANGE, out_of_range
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.files.details import DETAILS
from sqlstream.udfs.files.directories import is_url, path_of_url
from sqlstream.udfs.files.listed import FILE_OF_RANGE, cut, size_of, unreadable, vanished
from sqlstream.udfs.kernel import KEY_HASH

FILE = FILE_OF_RANGE
"""STRING column of file ranges: the path of the file as Spark names it."""

NULL_IN_COLUMN = repeating("SS403")

_SHOWN = 100
"""Characters of a record in a message."""

_HINT = "Correct the row, or let the option on-error of its table skip it."

LENGTH = "__length"
"""BIGINT column of file ranges: the size of the file in bytes."""

MODIFIED = "__modified"
"""BIGINT column of file ranges: the modification time of the file in microseconds since 1970."""

BEGIN, END = "__begin", "__end"
"""BIGINT columns of file ranges where a micro-batch reads a part of a file: its first byte, and that after the last."""

SHARE, SHARES = "__share", "__shares"
"""INT columns of file ranges: the number of the task, from 0, and the number of tasks."""


@dataclass(frozen=True)
class FromFile:
    """How a column of the table is read from its files or messages: the column ``source`` of the file becomes Arrow's
    type ``type``.

    ``micros``: the timestamp is converted to BIGINT microseconds. ``event_time``: for the event-time column, its name
    in error messages; its values must be neither NULL nor out of range. ``not_null``: for a NOT NULL column, the
    message of the error SS403 for a NULL.
    """

    source: str
    type: pa.DataType
    micros: bool = False
    event_time: str | None = None
    not_null: str | None = None


class FileRange(NamedTuple):
    """The bytes of a file from ``begin`` up to ``end`` (exclusive), which one task reads. ``file`` is the row of the
    file list, with its path and size.
    """

    file: Mapping[str, Any]
    begin: int
    end: int

    @property
    def path(self) -> str:
        """The path of the file, decoded from the URL that Spark lists; the URL of an object in a store."""
        return path_of_url(self.file[FILE])

    @property
    def modified(self) -> int:
        """The modification time of the file in microseconds since 1970, as it is now, or was when it was listed."""
        as_listed = DETAILS in self.file or is_url(self.path)
        return int(self.file[MODIFIED]) if as_listed else modified(self.path)

    def as_it_is(self, access: FileAccess = LOCAL) -> FileRange:
        """Returns the range of the file as it is now: the last one of a file that has grown since it was cut goes on to
        its end.

        Raises ExecutionError SS531 where the file is shorter: earlier micro-batches have read another one.
        """
        size, before = size_of(self.path, access) if END in self.file else None, self.file[LENGTH]
        if size is None:
            return self
        if size < before:
            raise cut(self.path, before, size)
        return self._replace(end=size) if self.end == before else self

    def rows(self, count: int) -> tuple[int, int]:
        """Returns a pair: the index of the first row that belongs to this range, and that after the last one, if the
        file has ``count`` rows of equal size. The second half of a file of 10 rows is ``(5, 10)``.
        """
        first, stop = (-(-byte * count // self.file[LENGTH]) for byte in (self.begin, self.end))
        return max(first, 0), min(stop, count)


class Piece(NamedTuple):
    """A batch of rows that was read from a file range. ``start``: a position in the file that orders the range after
    earlier ones. ``place``: a function that, for the index of a row in the batch, returns its place in the file for
    messages, such as "row 7".
    """

    start: int
    rows: pa.RecordBatch
    place: Callable[[int], str]


Where = Callable[[int], str]
"""Returns where a row was read, by its index in a batch, as the end of a sentence: ``in line 7 of file "/in/a.csv"``.
"""


@dataclass(frozen=True)
class SplitRows(ABC):
    """The base of readers of source splits in Spark tasks. Reads the splits of a task as batches of ``schema``;
    subclasses read files and topics.

    ``columns``: how to read columns from the splits, by their name in ``schema``. All others are either among the rows
    that were read or the same for all rows of a batch.
    """

    schema: pa.Schema
    columns: Mapping[str, FromFile]

    @abstractmethod
    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads a task's share of the splits, which are rows of ``places``. Raises ExecutionError SS401 for a NULL
        event time, SS430 for one out of range, SS403 for a NULL in a NOT NULL column, and what the source raises.
        """

    @property
    def lifts(self) -> bool:
        """True where the source says how far the watermark may go (``exchange.LIFT``), instead of its rows."""
        return False

    def batch(self, rows: pa.RecordBatch, constants: Mapping[str, Any], where: Where) -> pa.RecordBatch:
        """The columns of ``schema`` of rows that were read, which are checked. ``constants``: the value of each column
        that is the same for all of them.
        """
        filled = (self._filled(f, rows, constants, where) for f in self.schema)
        return pa.RecordBatch.from_arrays([*filled], schema=self.schema)

    def _filled(self, f: pa.Field, rows: pa.RecordBatch, constants: Mapping[str, Any], where: Where) -> pa.Array:
        if f.name in self.columns:
            return self._column(self.columns[f.name], rows, constants, where)
        if f.name in rows.schema.names:
            return rows.column(f.name)
        return pa.repeat(pa.scalar(constants[f.name], f.type), rows.num_rows)

    def _column(self, column: FromFile, rows: pa.RecordBatch, constants: Mapping[str, Any], where: Where) -> pa.Array:
        if column.source not in rows.schema.names:
            values = pa.nulls(rows.num_rows, column.type)
        else:
            values = self.as_declared(rows.column(column.source), column, constants, where)
        if column.event_time is not None:
            _require_time(in_micros(values), column.event_time, where)
        elif column.not_null is not None and values.null_count:
            raise _null_in_column(column.not_null, values, rows, where)
        return in_micros(values) if column.micros else values

    def as_declared(self, values: pa.Array, column: FromFile, constants: Mapping[str, Any], where: Where) -> pa.Array:
        """Converts the values of a column, as they were read, to the type that the table declares. The default returns
        them unchanged.
        """
        return values


@dataclass(frozen=True)
class FileRows(SplitRows):
    """The base of readers of files in Spark tasks. Subclasses read the formats."""

    @property
    def access(self) -> FileAccess:
        """How files are opened."""
        return LOCAL

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads a task's share of the files. ``places`` has a row for each file, with its path, its size, the number of
        the task and the number of tasks. Also raises SS531 for a file of which a part was read before and that has
        become shorter, and what ``read`` raises.
        """
        for file_range in ranges_of([file for batch in places for file in batch.to_pylist()]):
            if isinstance(self.access, StoreAccess) and self.access.is_skipped(file_range.path):
                continue
            yield from self._of(file_range.as_it_is(self.access))

    @abstractmethod
    def read(self, file_range: FileRange) -> Iterator[Piece]:
        """Reads the rows of a range, piece by piece. Columns have the names of the table's columns, which may differ in
        case from the names in the file.
        """

    def constants(self, file_range: FileRange) -> dict[str, Any]:
        """A dictionary with the value of each column that is the same for all rows of a range, such as the path or the
        modification time of the file.
        """
        return {**file_range.file, KEY_HASH: 0, PARTS[0]: file_range.modified}

    def _of(self, file_range: FileRange) -> Iterator[pa.RecordBatch]:
        constants = self.constants(file_range)
        for piece in self.read(file_range):
            constants[PARTS[2]] = piece.start
            yield self.batch(piece.rows, constants, partial(_in_file, piece, file_range.path))


def _in_file(piece: Piece, path: str, row: int) -> str:
    return f'in {piece.place(row)} of file "{path}"'


def _require_time(times: pa.Array, name: str, where: Where) -> None:
    if times.null_count:
        row = int(np.flatnonzero(times.is_null())[0])
        raise ExecutionError(NULL_EVENT_TIME, f"{name} is NULL {where(row)}", hint=_HINT)
    least, most = pc.min_max(times).values()
    for time in (least.as_py(), most.as_py()):
        if time is not None and not EARLIEST <= time <= LATEST:
            row = int(pc.index(times, time).as_py())
            raise ExecutionError(OUT_OF_RANGE, f"{out_of_range(name, str(time))} {where(row)}", hint=HINT)


def _null_in_column(text: str, values: pa.Array, rows: pa.RecordBatch, where: Where) -> ExecutionError:
    row = int(np.flatnonzero(values.is_null())[0])
    return ExecutionError(NULL_IN_COLUMN, f"{text} {where(row)}: {_record(rows, row)}", hint=_HINT)


def _record(rows: pa.RecordBatch, row: int) -> str:
    """The beginning of a row as JSON, without hidden columns."""
    (values,) = rows.slice(row, 1).to_pylist()
    shown = {name: value for name, value in values.items() if not name.startswith("__")}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"), default=str)[:_SHOWN]


def ranges_of(places: Sequence[Mapping[str, Any]]) -> Iterator[FileRange]:
    """The share of the files that a task reads, by bytes, in the order of the files' modification times and names, as
    streams take them: every task gets the same files, so that together they read them in this order. Of a file with
    BEGIN and END only the bytes between are shared out.
    """
    for share in sorted({file[SHARE] for file in places}):
        listed = sorted((f for f in places if f[SHARE] == share), key=lambda f: (f[MODIFIED], f[FILE], _bounds(f)))
        total, before = sum(last - first for first, last in map(_bounds, listed)), 0
        for file in listed:
            first, last = _bounds(file)
            begin, end = (first + total * (share + i) // file[SHARES] - before for i in (0, 1))
            begin, end = max(begin, first), min(end, last)
            if begin < end:  # files without a byte are not read, as by Spark
                yield FileRange(file, begin, end)
            before += last - first


def _bounds(file: Mapping[str, Any]) -> tuple[int, int]:
    return file.get(BEGIN, 0), file.get(END, file[LENGTH])


@contextmanager
def naming(path: str, *, of_version: bool = False) -> Iterator[None]:
    """A context manager that replaces Arrow's and the system's errors about the file ``path``: by error SS529 if the
    file was deleted, else by SS528, which name the file; for objects of stores also by those of ``store_error``.
    ``of_version``: see ``vanished``.
    """
    try:
        yield
    except FileNotFoundError:
        raise vanished(path, of_version=of_version) from None
    except UnicodeDecodeError:  # values that are none are found before
        raise unreadable(path, "the name of one of its columns is no UTF-8") from None
    except (pa.ArrowException, OSError) as error:
        of_store = store_error(path, str(error)) if is_url(path) else None
        raise of_store or unreadable(path, str(error).partition("\n")[0]) from None


def modified(path: str) -> int:
    """The modification time of a file in microseconds since 1970, truncated to milliseconds like Spark's."""
    return Path(path).stat().st_mtime_ns // 1_000_000 * 1000
