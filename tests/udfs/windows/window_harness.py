"""A kernel over rows (k, v, ts) whose results are tuples; times in milliseconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.windows.operator import WindowKernel

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us")), (KEY_HASH, pa.int64())])
SUM = Aggregates((AggregateCall("s", "sum", ("v",), pa.int64()),), SCHEMA)
MS = 1000


class Windowed:
    """Restarts before each step. ``late`` are (k, v, ts, start, end) of late rows."""

    def __init__(self, assigner, trigger, function=SUM, **options):
        kernel = WindowKernel(SCHEMA, ("k",), assigner, trigger, function, **options)
        self.harness = KernelHarness(kernel, SCHEMA, ["k"], restarts=True)

    def rows(self, *rows: tuple[str, int | None, int]) -> list[tuple[Any, ...]]:
        self.harness.rows([{"k": k, "v": v, "ts": ts * MS} for k, v, ts in rows])
        return self.output()

    def watermark(self, time: int) -> list[tuple[Any, ...]]:
        self.harness.watermark(time * MS)
        return self.output()

    def processing_time(self, time: int) -> list[tuple[Any, ...]]:
        self.harness.processing_time(time * MS)
        return self.output()

    def finish(self) -> list[tuple[Any, ...]]:
        self.harness.finish()
        return self.output()

    def output(self) -> list[tuple[Any, ...]]:
        return [_tuple(row) for row in self.harness.output()]

    @property
    def late(self) -> list[tuple[Any, ...]]:
        return [_tuple(row) for row in self.harness.late()]

    @property
    def late_rows(self) -> int:
        return self.harness.counters["late_rows"]


def _tuple(row: dict[str, Any]) -> tuple[Any, ...]:
    times = ("window_start", "window_end", "ts")
    return tuple(value // MS if name in times and value is not None else value for name, value in row.items())


def with_calls(*calls: AggregateCall) -> Aggregates:
    return replace(SUM, calls=calls)
