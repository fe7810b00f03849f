"""The adapter's own state of a key group: one small entry, read and written in each call."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, StateKey

KEY: StateKey = ("", 0)
"""Where the entry is; kernels name their parts of the state."""

_FORMAT = struct.Struct("<5q")
_HOLDS = b"\x01"


@dataclass(frozen=True)
class GroupEntry:
    """``watermark`` and ``clock`` as the kernel saw them last; the earliest timer of either domain, END_OF_TIME for
    none; the timer registered with Spark, in Spark's milliseconds, 0 for none; whether the kernel holds a watermark."""

    watermark: int = NO_WATERMARK
    clock: int = NO_WATERMARK
    event_timer: int = END_OF_TIME
    processing_timer: int = END_OF_TIME
    spark_timer: int = 0
    holds: bool = False

    @property
    def waits(self) -> bool:
        """True where the kernel must be called although nothing has come: it holds, or has set a timer of the clock."""
        return self.holds or self.processing_timer != END_OF_TIME

    def to_bytes(self) -> bytes:
        times = (self.watermark, self.clock, self.event_timer, self.processing_timer, self.spark_timer)
        return _FORMAT.pack(*times) + (_HOLDS if self.holds else b"")

    @staticmethod
    def from_bytes(value: bytes | None) -> GroupEntry:
        if value is None:
            return GroupEntry()
        watermark, clock, event_timer, processing_timer, spark_timer = _FORMAT.unpack_from(value)
        return GroupEntry(watermark, clock, event_timer, processing_timer, spark_timer, holds=len(value) > _FORMAT.size)
