"""Operators that hold the watermark, on Spark: no row is overtaken, whatever makes the micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from sqlstream.planner.lowering.columnar.operator import Running, run
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS, EPOCH_SHIFT_MS
from sqlstream.udfs.exchange import HOLD
from sqlstream.udfs.kernel import EMITTED_AHEAD, KEY_HASH
from sqlstream.udfs.spark import Watermark
from tests.streams import Streams, scan, table
from tests.udfs.spark.keeper import Keeper
from tests.udfs.spark.recorder import OUTPUT, Recorder

pytestmark = pytest.mark.spark

SECOND = 1_000_000
KEYED = dict.fromkeys(("k", "v", "event_timer", "processing_timer", "batches"), "BIGINT")
COLUMNS: dict[str, Any] = {**KEYED, "v": "INT"}
ROWS = table("rows", bounded=False, **COLUMNS)


@dataclass
class Job:
    """Keepers, one above the other, and above them an operator that tells how it is called."""

    streams: Streams
    watermark: Watermark = Watermark.EVENT_TIME
    keepers: int = 1
    steps: Iterator[int] = field(default_factory=count)
    reports: list[Any] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[Callable[..., list[tuple[object, ...]]]]:
        tables: list[pa.Table] = []
        writer = self._recorded().writeStream.foreachBatch(lambda batch, _: tables.append(batch.toArrow()))
        query = writer.option("checkpointLocation", str(self.streams.folder / "checkpoint")).start()

        def step(*rows, watermark=None, tick=None):
            """What comes out: calls with the watermark in milliseconds, and whether they came ahead of it."""
            number = next(self.steps)
            if rows:
                self.streams.write(ROWS, rows)
                query.processAllAvailable()
            if watermark is not None:
                self.streams.control_rows.lift("rows", watermark, f"lift-{number}")
            if tick is not None:
                self.streams.control_rows.tick(tick, f"tick-{number}")
            query.processAllAvailable()
            emitted_rows = [(row["call"], row["watermark"]) for t in tables for row in t.to_pylist()]
            tables.clear()
            self.reports = query.recentProgress
            return emitted_rows

        try:
            yield step
        finally:
            query.stop()

    def pending(self) -> list[int]:
        """Rows that wait, by operator from below."""
        observed = self.reports[-1]["observedMetrics"]
        return [observed[f"operator/{i}"]["pending"] or 0 for i in range(self.keepers)]

    def _recorded(self):
        rows = self._rows()
        for number in range(self.keepers):
            schema = rows.select(KEY_HASH, "v", "event_timer", "processing_timer").schema
            operator = Running(Keeper(), schema, number, self.watermark, chained=True, goes_on=True)
            kept = run(rows, operator, self.streams).where(f"v > 0 OR {HOLD} IS NOT NULL")
            rows = kept.select("*", F.lit(None).cast("BIGINT").alias("batches"))
        passed = rows.select(KEY_HASH, "v", "event_timer", "processing_timer", EMITTED_AHEAD, HOLD)
        return run(passed, Running(Recorder(), OUTPUT, self.keepers, self.watermark, goes_on=True), self.streams)

    def _rows(self):
        rows = self.streams.read(scan(ROWS))
        rows = rows.select("*", F.expr("CAST(NULL AS TIMESTAMP) AS t"), F.lit(True).alias("live"))
        if self.watermark is Watermark.EVENT_TIME:
            moved = F.expr(f"timestamp_millis(watermark_ms + {EPOCH_SHIFT_MS}L)").alias("t")
            nulls = [F.lit(None).cast(f.dataType) for f in rows.schema.fields[:-2]]
            control = self.streams.control("rows").select(*nulls, moved, F.lit(False)).toDF(*rows.columns)
            rows = control.union(rows).withWatermark("t", "0 milliseconds")
            rows = rows.select("*", F.expr("live AND spark_partition_id() >= 0 AS here")).where("here")
        return rows.select(F.col("k").alias(KEY_HASH), "v", "event_timer", "processing_timer", "batches")


def row(key, value, event_timer, *, batches=None):
    return key, value, event_timer, None, batches


@pytest.mark.long
def test_a_kept_row_is_not_overtaken_by_the_watermark(streams):
    job = Job(streams)
    with job.running() as step:
        assert step(row(0, 1, 2 * SECOND), row(1, 2, 3 * SECOND, batches=4)) == [("rows 1", None)]
        assert job.pending() == [1]
        assert step(watermark=9000) == [("event time", 2999)], "two micro-batches: the control row, the watermark"
        assert step(tick=1) == []
        assert step(tick=2) == [("rows 2", 2999), ("event time", 9000)]
        assert job.pending() == [0]
        assert step(row(0, 3, 8 * SECOND)) == [("rows 3", 9000)]
        assert step(tick=3) == []
        assert step(watermark=9001) == [("event time", 9001)]


def test_what_is_held_stays_so_over_a_restart_and_the_end_of_the_input(streams):
    job = Job(streams)
    with job.running() as step:
        step(row(0, 1, 2 * SECOND), row(1, 2, 3 * SECOND, batches=5))
    with job.running() as step:
        assert step(watermark=END_OF_INPUT_MS) == [("event time", 2999)]
    with job.running() as step:
        assert step(tick=1) == []
        assert step(tick=2) == []
        assert step(tick=3) == [("rows 2", 2999), ("event time", -1)]


@pytest.mark.long
def test_operators_between_pass_on_what_is_held(streams):
    job = Job(streams, keepers=2)
    with job.running() as step:
        assert step(row(0, 1, 2 * SECOND), row(1, 2, 3 * SECOND, batches=3)) == [("rows 1", None)]
        assert step(watermark=9000) == [("event time", 2999)]
        assert step(tick=1) == [("rows 2", 2999), ("event time", 9000)]
        assert job.pending() == [0, 0]


def test_rows_that_no_watermark_waits_for_are_kept_too(streams):
    job = Job(streams, Watermark.NONE)
    with job.running() as step:
        assert step(row(0, 1, 2 * SECOND), row(1, 2, 3 * SECOND, batches=2)) == [("rows 1", None)]
        assert step(tick=1) == []
        assert step(tick=2) == [("rows 2", None)]
        assert job.pending() == [0]
