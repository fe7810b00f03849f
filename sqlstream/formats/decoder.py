"""What a decoder of text records takes and gives.

A block is bytes of whole records: a piece of a file that ends where a record ends. Messages are records of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sqlstream.types import DataType


@dataclass(frozen=True)
class Field:
    """A column of the records. ``wanted``: it is among the rows; else it is only checked."""

    name: str
    type: DataType
    wanted: bool = True


@dataclass(frozen=True)
class Fault:
    """A record that cannot be read.

    ``record``: its position among all records of the block or the messages, good and bad, from 0. ``start``: its first
    byte in the block; 0 for messages. ``text``: its bytes as they were, without the end of its line. ``reason``: each
    value that does not fit, with column and type, or what is wrong with the record as a whole.
    """

    record: int
    start: int
    text: bytes
    reason: str


@dataclass(frozen=True)
class Decoded:
    """The good records as rows, in their order, with the wanted columns; the others as faults, in their order.

    ``records``: how many there are of both.
    """

    rows: pa.RecordBatch
    records: int
    faults: Sequence[Fault] = field(default=())


class Decoder(ABC):
    """Reads records of one format and table. It can be pickled: Spark's tasks get it."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of the rows: the wanted columns in their declared order, TIMESTAMP in UTC."""

    def starts(self, data: pa.Buffer) -> np.ndarray:
        """The first byte of each record of a block, good and bad: of each line with more than white space."""
        bytes_ = np.frombuffer(data, np.uint8)
        feeds = np.flatnonzero(bytes_ == ord("\n"))
        starts: np.ndarray = np.concatenate(([0], feeds + 1))
        starts = starts[starts < data.size]
        if not len(starts):
            return starts
        filled: np.ndarray = np.add.reduceat(bytes_ > ord(" "), starts) > 0
        return np.asarray(starts[filled])

    @abstractmethod
    def block(self, data: pa.Buffer) -> Decoded:
        """The records of a block. Empty lines are no records."""

    @abstractmethod
    def messages(self, values: pa.BinaryArray) -> Decoded:
        """One record for each message; NULL and empty messages are faults."""
