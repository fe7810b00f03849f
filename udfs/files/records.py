"""Rows of files of records, such as CSV and Avro, read by tasks themselves: what each format answers for, and the
reader that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError
from sqlstream.formats.decoder import Decoded, Fault
from sqlstream.formats.file_access import FileAccess
from sqlstream.formats.time_texts import in_micros
from sqlstream.udfs.bad_records import BAD_ROW, READ_FROM, READ_LINE
from sqlstream.udfs.event_times import EARLIEST, LATEST, OUT_OF_RANGE, out_of_range
from sqlstream.udfs.files.splits import FILE, LENGTH, FileRange, FileRows, Piece, naming
from sqlstream.udfs.messages import BAD_TYPE, rows_of_bad, with_bad, with_column


class ReadRecords(ABC):
    """Some decoded records of a file, to find their places and texts for messages."""

    @abstractmethod
    def error(self, fault: Fault) -> ExecutionError:
        """Returns the error SS402 for a record that the decoder could not read. It names the file and the place."""

    @abstractmethod
    def message(self, fault: Fault) -> str:
        """The place of a record that cannot be read, and why not."""

    @abstractmethod
    def bad(self, faults: Sequence[Fault]) -> pa.StructArray:
        """The values of the column BAD for records that cannot be read, one per fault: the record, the error, and its
        place in the file.
        """

    @abstractmethod
    def place(self, row: int, decoded: Decoded) -> str:
        """The place in the file of a row that was decoded, such as ``line 7``. ``row`` is its index in
        ``decoded.rows``.
        """

    @abstractmethod
    def lines_of_good(self, decoded: Decoded) -> np.ndarray | None:
        """The lines of the good rows; None where the records cannot be told apart, or have no lines."""

    @abstractmethod
    def records(self, decoded: Decoded) -> pa.StructArray:
        """The values of the column BAD for the rows that could be read: each row's record and its place, without an
        error. NULL if they are unknown.
        """


class RecordFormat(ABC):
    """How tasks and lookups read the records of a table's files themselves."""

    tolerant: bool
    """A record that cannot be read becomes a row in which the column BAD has the record and the error, instead of an
    error that ends the job."""
    keeps_records: bool
    """Where ``tolerant``, the column BAD of good rows has their record, too."""
    access: FileAccess
    """How files are opened."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns that are read, as Arrow's."""

    @abstractmethod
    def decoded(self, path: str, begin: int = 0, end: int | None = None) -> Iterator[tuple[Decoded, ReadRecords]]:
        """The records of a file that begin between two bytes, some at a time."""

    def placed(self, path: str) -> Iterator[tuple[pa.RecordBatch, Callable[[int], str]]]:
        """The good rows of a file, without the column BAD, in batches, each with a function that
        returns the place of a row by its index, such as ``line 7``.

        ValueError for a record that cannot be read, if bad ones are not tolerated; also OSError and pa.ArrowException.
        """
        for decoded, read in self.decoded(path):
            if decoded.faults and not self.tolerant:
                raise ValueError(read.message(decoded.faults[0]))
            yield decoded.rows, partial(read.place, decoded=decoded)


@dataclass(frozen=True)
class RequiredValue:
    """A column of the files in which a row must have a value, else it is bad. ``missing``: the error, with its code.
    ``event_time``: of event times, which must be in range too, the name in the error.
    """

    column: str
    missing: str
    event_time: str | None = None

    def errors(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Returns the error of each row, NULL for good ones; None where all are good."""
        values = rows.column(self.column)
        errors = pc.if_else(values.is_null(), self.missing, None) if values.null_count else None
        if self.event_time is None:
            return errors
        times = in_micros(values)
        least, most = (time.as_py() for time in pc.min_max(times).values())
        if least is None or (least >= EARLIEST and most <= LATEST):
            return errors
        before, after = out_of_range(self.event_time, "\n").split("\n")
        text = pc.binary_join_element_wise(f"{OUT_OF_RANGE}: {before}", times.cast(pa.string()), after, "")
        beyond = pc.or_(pc.less(times, EARLIEST), pc.greater(times, LATEST)).fill_null(False)
        return pc.if_else(beyond, text, pa.nulls(len(times), pa.string()) if errors is None else errors)


@dataclass(frozen=True)
class RecordRows(FileRows):
    """Reads rows of files of records, such as CSV. ``metadata``: for each metadata column by name the property that it
    shows, such as ``file.name``. Raises ExecutionError SS402 for a record that cannot be read, ConnectorError SS525 for
    a wrong header.

    Where bad records are tolerated: ``letters``, somebody reads what they are and where they were; else only that they
    are bad is known. ``apart``: the bad records of a block come before its rows, in a batch of their own, instead of
    between them, and so do rows without one of the values that are ``required``.
    """

    format: RecordFormat
    metadata: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    letters: bool = True
    required: tuple[RequiredValue, ...] = ()

    @property
    def access(self) -> FileAccess:
        return self.format.access

    def constants(self, file_range: FileRange) -> dict[str, Any]:
        constants = super().constants(file_range) | {READ_FROM: file_range.file[FILE]}
        path = file_range.path
        properties = {
            "file.path": path,
            "file.name": path.rpartition("/")[2],
            "file.size": file_range.file[LENGTH],
            "file.modification-time": file_range.modified if self.metadata else None,
        }
        return constants | {name: properties[key] for name, key in self.metadata.items()}

    def read(self, file_range: FileRange) -> Iterator[Piece]:
        with naming(file_range.path):
            for decoded, read in self.format.decoded(file_range.path, file_range.begin, file_range.end):
                yield from self._pieces(decoded, read, file_range)

    def _pieces(self, decoded: Decoded, read: ReadRecords, file_range: FileRange) -> Iterator[Piece]:
        if decoded.faults and not self.format.tolerant:
            raise read.error(decoded.faults[0])
        rows, start = decoded.rows, max(file_range.begin, 0)
        if not self.format.tolerant:
            if READ_LINE in self.schema.names:
                lines = read.lines_of_good(decoded)
                numbers = pa.nulls(rows.num_rows, pa.int64()) if lines is None else pa.array(lines, pa.int64())
                rows = with_column(rows, numbers, READ_LINE)
            yield Piece(start, rows, lambda row: read.place(row, decoded))
            return
        if self.apart:
            yield from pieces_apart(decoded, read, start, self.required, letters=self.letters)
            return
        good = read.records(decoded) if self.format.keeps_records else pa.nulls(rows.num_rows, BAD_TYPE)
        if not decoded.faults:
            yield Piece(start, with_column(rows, good), lambda row: read.place(row, decoded))
            return
        bad = read.bad(decoded.faults) if self.letters else _unnamed(len(decoded.faults))
        in_order = with_bad(decoded, good, bad)
        yield Piece(start, in_order, lambda row: f"record {row + 1} of a block")


def pieces_apart(
    decoded: Decoded, read: ReadRecords, start: int, required: Sequence[RequiredValue], *, letters: bool
) -> Iterator[Piece]:
    """The rows of a block with the column BAD: the bad ones, if there are some, and then the good ones. See
    ``RecordRows``.
    """
    rows = decoded.rows
    errors = [errors for value in required if (errors := value.errors(rows)) is not None]
    bad = [read.bad(decoded.faults) if letters else _unnamed(len(decoded.faults))] if decoded.faults else []
    if errors:
        error = pc.coalesce(*errors)
        is_bad = error.is_valid()
        rows = rows.filter(pc.invert(is_bad))
        bad.append(_lacking(decoded, read, error, is_bad) if letters else _unnamed(is_bad.true_count))
    if bad:
        yield Piece(
            start,
            rows_of_bad(decoded, pa.concat_arrays(bad)),
            lambda row: f"record {row + 1} of those that are bad",
        )
    good = with_column(rows, pa.nulls(rows.num_rows, BAD_TYPE))
    yield Piece(start, good, lambda row: f"record {row + 1} of those that are good")


def _lacking(decoded: Decoded, read: ReadRecords, error: pa.Array, is_bad: pa.Array) -> pa.StructArray:
    """The column BAD of rows that could be read and are bad all the same."""
    records = read.records(decoded).filter(is_bad)
    parts = [records.field("record"), error.filter(is_bad), records.field("place")]
    return pa.StructArray.from_arrays(parts, fields=[*BAD_TYPE])


def _unnamed(count: int) -> pa.StructArray:
    """The column BAD of records of which nobody reads more than that they are bad."""
    return pa.repeat(pa.scalar({"record": None, "error": BAD_ROW, "place": None}, BAD_TYPE), count)
