"""The adapter on Spark: kernels see rows, watermarks, ticks and their state as promised, also after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from sqlstream.planner.lowering.columnar.inputs import with_key_hash
from sqlstream.planner.lowering.columnar.operator import Running, run
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS, EPOCH_SHIFT_MS
from sqlstream.udfs.exchange import LATE, LATE_TABLE, from_bytes
from sqlstream.udfs.kernel import EMITTED_AHEAD, KEY_HASH
from sqlstream.udfs.spark import Watermark
from tests.streams import Streams, scan, table
from tests.udfs.spark.recorder import OUTPUT, Recorder

pytestmark = pytest.mark.spark

ROWS = table("rows", bounded=False, k="STRING", v="INT", event_timer="BIGINT", processing_timer="BIGINT")
SECOND = 1_000_000


@dataclass
class Job:
    """An operator over rows whose watermark is moved by control rows alone."""

    streams: Streams
    watermark: Watermark = Watermark.EVENT_TIME
    options: dict[str, Any] = field(default_factory=dict)
    steps: Iterator[int] = field(default_factory=count)
    reports: list[Any] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[Callable[..., list[tuple[object, ...]]]]:
        operator = Running(Recorder(), OUTPUT, 0, self.watermark, late_table="0/late", chained=True, **self.options)
        tables: list[pa.Table] = []
        writer = run(self._rows(), operator, self.streams).writeStream
        writer = writer.foreachBatch(lambda batch, _: tables.append(batch.toArrow()))
        query = writer.option("checkpointLocation", str(self.streams.folder / "checkpoint")).start()

        def step(*rows, watermark=None, tick=None):
            """What comes out: rows without their late columns, and late rows decoded."""
            number = next(self.steps)
            if rows:
                self.streams.write(ROWS, rows)
                query.processAllAvailable()
            if watermark is not None:
                self.streams.control_rows.lift("rows", watermark, f"lift-{number}")
            if tick is not None:
                self.streams.control_rows.tick(tick, f"tick-{number}")
            query.processAllAvailable()
            emitted_rows = [shown(row) for t in tables for row in t.to_pylist()]
            tables.clear()
            self.reports = query.recentProgress
            return emitted_rows

        try:
            yield step
        finally:
            query.stop()

    def _rows(self):
        rows = self.streams.read(scan(ROWS))
        rows = rows.select("*", F.expr("CAST(NULL AS TIMESTAMP) AS t"), F.lit(True).alias("live"))
        moved = F.expr(f"timestamp_millis(watermark_ms + {EPOCH_SHIFT_MS}L)").alias("t")
        nulls = [F.lit(None).cast(f.dataType) for f in rows.schema.fields[:-2]]
        united = self.streams.control("rows").select(*nulls, moved, F.lit(False)).toDF(*rows.columns).union(rows)
        united = united.withWatermark("t", "0 milliseconds") if self.watermark is Watermark.EVENT_TIME else united
        live = united.select("*", F.expr("live AND spark_partition_id() >= 0 AS here")).where("here")
        return with_key_hash(live, ["k"]).select(KEY_HASH, "v", "event_timer", "processing_timer")


def shown(row):
    if row[LATE_TABLE] is not None:
        return row[LATE_TABLE], from_bytes(row[LATE]).column("v").to_pylist()
    return row["call"], row["watermark"], row["clock"], row["calls_before"], row[EMITTED_AHEAD]


def test_rows_timers_state_and_late_rows_over_a_restart(streams):
    job = Job(streams)
    with job.running() as step:
        first = step(("a", 1, 5 * SECOND, None), ("a", 2, None, None), ("a", -3, None, None))
        assert first == [("rows 1 2 -3", None, None, 0, False), ("0/late", [-3])]
        assert job.reports[-1]["observedMetrics"]["operator/0"]["late_rows"] == 1
        assert step(watermark=4999) == []
        assert step(watermark=5000) == [("event time", 5000, None, 1, True)]
        assert step(("a", 4, 5_000_001, None)) == [("rows 4", 5000, None, 2, False)]
    with job.running() as step:
        assert step(watermark=5001) == [("event time", 5001, None, 3, True)]
        step(("a", 5, None, 1))
        assert step(watermark=END_OF_INPUT_MS) == [("processing time", -1, -1, 5, True)]


def test_ticks_reach_every_key_group(streams):
    job = Job(streams, options={"ticks": True})
    with job.running() as step:
        step(("a", 1, None, 2 * SECOND), ("b", 2, None, 2 * SECOND), ("c", 3, None, 3 * SECOND))
        assert step(tick=2000) == [], "rows of this millisecond may still come"
        fired = step(tick=2001)
        assert {row[:3] for row in fired} == {("processing time", None, 2000)}
        assert step(tick=END_OF_INPUT_MS)[-1][:3] == ("processing time", None, -1)


def test_ticks_are_the_watermark_of_queries_without_one(streams):
    job = Job(streams, Watermark.CLOCK, {"ticks": True})
    with job.running() as step:
        step(("a", 1, None, 2 * SECOND))
        assert step(tick=2000) == []
        assert step(tick=2001) == [("processing time", None, 2000, 1, True)]
        step(("a", 1, 7 * SECOND, None))
        assert step(tick=END_OF_INPUT_MS) == [("event time", -1, 2000, 3, True)]


def test_without_clocks_each_batch_is_one(streams):
    job = Job(streams, Watermark.NONE, {"keyed": False})
    with job.running() as step:
        assert step(("a", 1, None, None), ("b", 2, None, None)) == [("rows 1 2", None, None, 0, False)]
        assert step(("c", 3, 1, 1)) == [("rows 3", None, None, 1, False)]
        assert {report["batchId"] for report in job.reports} == {0, 1}
