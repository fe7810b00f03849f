"""Columns of messages of topics, which the tasks that fetch them decode, for exchanges and queries without state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError
from sqlstream.formats.decoder import Decoded, Fault
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.files.parquet import TableFiles
from sqlstream.udfs.files.records import ReadRecords, RecordFormat, RequiredValue, pieces_apart
from sqlstream.udfs.files.splits import Piece, SplitRows
from sqlstream.udfs.kafka.fetch import FetchedMessages
from sqlstream.udfs.kafka.records import TopicRecords, place_of, records_of_messages, with_values
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.messages import bad_records, said, unreadable_record


@dataclass(frozen=True)
class TopicFormat:
    """How tasks read the messages of a table. ``metadata``: the columns that are fields of the message
    (``fetched.FIELDS``), by their names in the table. ``lifts``: see ``SplitRows``.
    """

    fetched: FetchedMessages
    records: TopicRecords
    metadata: Mapping[str, str]
    lifts: bool = False


SplitFormat: TypeAlias = RecordFormat | TopicFormat | TableFiles
"""How tasks read the rows of source splits: records of files, messages, or the files of a table format."""


@dataclass(frozen=True)
class TopicRows(SplitRows):
    """Fetches and decodes messages. Where bad ones are tolerated, they come before the rows of a batch, and so do rows
    without one of the values that are ``required``. ``letters``: somebody reads what bad ones are and where they were.

    ExecutionError SS402 for a message that cannot be read, if bad ones are not tolerated; also what fetching raises.
    """

    format: TopicFormat
    letters: bool = True
    required: tuple[RequiredValue, ...] = ()

    @property
    def lifts(self) -> bool:
        return self.format.lifts

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.format.records.begin()
        ranges = [*places]
        clock = [batch.column(CLOCK)[0] for batch in ranges if CLOCK in batch.schema.names and batch.num_rows]
        constants = {KEY_HASH: 0, CLOCK: clock[0].as_py() if clock else None}
        for messages in self.format.fetched.rows(ranges):
            for piece in self._pieces(with_values(messages)):
                yield self.batch(piece.rows, constants, partial(_at, piece))

    def _pieces(self, messages: pa.RecordBatch) -> Iterator[Piece]:
        records, read = self.format.records, ReadMessages(messages)
        decoded = records.read(messages)
        if decoded.faults and not records.tolerant:
            raise read.error(decoded.faults[0])
        decoded = replace(decoded, rows=self._with_metadata(decoded, messages), origins=decoded.numbers)
        if records.tolerant:
            yield from pieces_apart(decoded, read, 0, self.required, letters=self.letters)
        else:
            yield Piece(0, decoded.rows, lambda row: read.place(row, decoded))

    def _with_metadata(self, decoded: Decoded, messages: pa.RecordBatch) -> pa.RecordBatch:
        """The decoded columns, and those that are fields of the message."""
        if not self.format.metadata:
            return decoded.rows
        message = pa.array(decoded.numbers)
        fields = {name: messages.column(field).take(message) for name, field in self.format.metadata.items()}
        arrays = [*decoded.rows.columns, *fields.values()]
        return pa.RecordBatch.from_arrays(arrays, [*decoded.rows.schema.names, *fields])


def _at(piece: Piece, row: int) -> str:
    return f"at {piece.place(row)}"


@dataclass(frozen=True)
class ReadMessages(ReadRecords):
    """Some messages that were decoded, with their topic, partition and offset."""

    messages: pa.RecordBatch

    def error(self, fault: Fault) -> ExecutionError:
        return unreadable_record(f" at {place_of(self.messages, fault.record)}", fault)

    def message(self, fault: Fault) -> str:
        return f"{place_of(self.messages, fault.record)}: {said(fault)}"

    def bad(self, faults: Sequence[Fault]) -> pa.StructArray:
        return bad_records(faults, [place_of(self.messages, fault.record) for fault in faults])

    def place(self, row: int, decoded: Decoded) -> str:
        return place_of(self.messages, int(decoded.numbers[row]))

    def lines_of_good(self, decoded: Decoded) -> np.ndarray | None:
        return None

    def records(self, decoded: Decoded) -> pa.StructArray:
        return records_of_messages(self.messages, decoded.numbers)
