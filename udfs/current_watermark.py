"""CURRENT_WATERMARK: each row with the watermark that was current when the row arrived."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sqlstream.udfs.event_times import END_OF_INPUT
from sqlstream.udfs.kernel import NO_WATERMARK, Context, Kernel

NOW = "__watermark"
"""The column with the watermark, in microseconds; NULL before the first one."""


@dataclass(frozen=True)
class CurrentWatermarkKernel(Kernel):
    """The kernel of CURRENT_WATERMARK: emits the columns ``passed`` of every row, in order of arrival, with the current
    watermark in the column NOW. It has no state.
    """

    input: pa.Schema
    passed: tuple[str, ...]

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self.passed), (NOW, pa.int64())])

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        now = None if context.watermark == NO_WATERMARK else min(context.watermark, END_OF_INPUT)
        watermarks = pa.repeat(pa.scalar(now, pa.int64()), rows.num_rows)
        context.emit(rows.select(self.passed).append_column(self.output.field(NOW), watermarks))

    def on_event_time(self, watermark: int, context: Context) -> None:
        """Never called, as the kernel sets no timers."""

    def on_processing_time(self, time: int, context: Context) -> None:
        """Never called, as the kernel sets no timers."""
