"""What the adapter itself keeps of a key group: one small entry, read and written in each call."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, StateKey

KEY: StateKey = ("", 0)
"""Where the entry is; kernels name their parts of the state."""

_FORMAT = struct.Struct("<5q")


@dataclass(frozen=True)
class GroupEntry:
    """``watermark`` and ``clock`` as the kernel saw them last; the earliest timer of either domain, END_OF_TIME for
    none; and the timer registered with Spark, in Spark's milliseconds, 0 for none."""

    watermark: int = NO_WATERMARK
    clock: int = NO_WATERMARK
    event_timer: int = END_OF_TIME
    processing_timer: int = END_OF_TIME
    spark_timer: int = 0

    def to_bytes(self) -> bytes:
        return _FORMAT.pack(self.watermark, self.clock, self.event_timer, self.processing_timer, self.spark_timer)

    @staticmethod
    def from_bytes(value: bytes | None) -> GroupEntry:
        return GroupEntry() if value is None else GroupEntry(*_FORMAT.unpack(value))
