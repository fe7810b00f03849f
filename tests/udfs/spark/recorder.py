"""A kernel that tells how it was called."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, Context, Domain, Kernel

_NUMBERS = ("watermark", "clock", "calls_before")
OUTPUT = StructType([StructField("call", StringType()), *(StructField(name, LongType()) for name in _NUMBERS)])


@dataclass(frozen=True)
class Recorder(Kernel):
    """Emits a row for each call: what it was, the clocks in milliseconds (-1 for the end), how many calls before.

    Rows have ``v``, and ``event_timer`` and ``processing_timer`` in microseconds, the last of which count; those with
    a negative ``v`` are late.
    """

    by_clock: bool = False

    @property
    def output(self) -> pa.Schema:
        return pa.schema([("call", pa.string()), *((name, pa.int64()) for name in _NUMBERS)])

    @property
    def late_output(self) -> pa.Schema:
        return pa.schema([("v", pa.int32())])

    @property
    def uses_processing_time(self) -> bool:
        return self.by_clock

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        values = rows.column("v").to_pylist()
        self._record(f"rows {' '.join(map(str, values))}", context)
        late = rows.filter(pa.array([v < 0 for v in values])).select(["v"]).cast(self.late_output)
        context.emit_late(late)
        context.count("late_rows", late.num_rows)
        for domain, name in ((Domain.EVENT, "event_timer"), (Domain.PROCESSING, "processing_timer")):
            timers = [t for t in rows.column(name).to_pylist() if t is not None]
            if timers:
                context.set_timer(domain, timers[-1])

    def on_event_time(self, watermark: int, context: Context) -> None:
        context.set_timer(Domain.EVENT, END_OF_TIME)
        self._record("event time", context)

    def on_processing_time(self, time: int, context: Context) -> None:
        context.set_timer(Domain.PROCESSING, END_OF_TIME)
        self._record("processing time", context)

    def _record(self, call: str, context: Context) -> None:
        (stored,) = context.store.get([("calls", 7)])
        before = int(stored or b"0")
        context.store.put({("calls", 7): str(before + 1).encode(), ("old", before): b"", ("old", before - 1): None})
        call_row = (call, _ms(context.watermark), _ms(context.processing_time), before)
        context.emit(pa.table([pa.array([v], f.type) for v, f in zip(call_row, self.output, strict=True)], self.output))


def _ms(time: int) -> int | None:
    return None if time == NO_WATERMARK else -1 if time == END_OF_TIME else time // 1000
