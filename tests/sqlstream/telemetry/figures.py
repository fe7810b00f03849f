"""Figures and reports of jobs, as if they ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlstream.jobs.reports.counts import LookupTotals
from sqlstream.jobs.reports.progress import Progress
from sqlstream.sources.kafka.offsets import Partition
from sqlstream.telemetry.epochs import EpochTotals, with_epoch
from sqlstream.telemetry.figures import JobFigures, PlanNames
from sqlstream.telemetry.partitions import PartitionTotals
from sqlstream.udfs.lookup.metrics import ANSWERS, HITS, LATENCIES, MAX_IN_FLIGHT, MISSES, REQUESTS, TIMEOUTS

NOW = 1_700_000_100.0
STARTED = 1_700_000_000.0

LOOKUPS = {
    ANSWERS: 9,
    REQUESTS: 4,
    HITS: 5,
    MISSES: 4,
    TIMEOUTS: 1,
    MAX_IN_FLIGHT: 3,
    LATENCIES[1]: 3,
    LATENCIES[-1]: 1,
}


def report(epoch: int = 0, ms: int = 500, **more: Any) -> dict[str, Any]:
    """Spark's report of a micro-batch with one operator with state."""
    return {
        "batchId": epoch,
        "batchDuration": ms,
        "timestamp": "2023-11-14T22:13:20.000Z",
        "durationMs": {
            "latestOffset": 20, "getBatch": 5, "queryPlanning": 30, "addBatch": 400, "walCommit": 15,
            "commitOffsets": 10, "triggerExecution": ms,
        },
        "stateOperators": [
            {"numRowsTotal": 7, "allUpdatesTimeMs": 90, "allRemovalsTimeMs": 10, "commitTimeMs": 40,
             "numRowsDroppedByWatermark": 0},
        ],
        "observedMetrics": {
            "operator/0": {"late_rows": 1, "pending": 0, "rows_taken": 5, "rows_given": 2},
            "missing/0/my%20bids": {"files": 0, "sizes": '{"/a": 100, "/b": 20}'},
            "watermark/0/bids": {"watermark_ms": 1_699_999_990_000},
        },
        "eventTime": {"max": "3892-11-14T22:13:18.000Z"},
        "sources": [
            {"startOffset": {"t": {"0": 5 * epoch}}, "endOffset": {"t": {"0": 5 * epoch + 5}}},
        ],
        **more,
    }  # fmt: skip


def figures(name: str = "totals", state: str = "RUNNING", **more: Any) -> JobFigures:
    """Those of a job in which every instrument has a sample."""
    progress = Progress(
        rows_in=30, rows_out=4, batches=2, watermark_ms=1_700_000_040_000, late_rows=3, late_by_operator={0: 3},
        lookups={0: LookupTotals(LOOKUPS)}, pending=2, pending_by_operator={0: 2}, bad_rows={"bids": 1},
        missing_files={"bids": 1}, restarts=1, last_batch=1, rows_by_table={"other": 6}, state_bytes=4096,
        read_by_table={"bids": 30}, taken_by_operator={0: 28}, given_by_operator={0: 4},
        state_by_operator={0: (7, 4096)},
    )  # fmt: skip
    epochs = with_epoch(
        with_epoch(EpochTotals(), report(0), {"bids": 100}, {}), report(1, 7000), {"bids": 20}, {"totals": 64}
    )
    given: dict[str, Any] = {"progress": progress, "epochs": epochs, "failures": 2, "reported_bytes": {"topic": 8}}
    given |= {"fetched_bytes": {"clicks": {("t", 0): 30, ("t", 1): 2}}}
    given |= more
    names = PlanNames({0: "0: WindowAggregate"}, {0: "0: planes"}, "totals")
    return JobFigures(name, "id-1", state, STARTED, names=names, **given)


def with_pending_rows() -> JobFigures:
    """The figures of a job whose source reports what it has."""
    partitions = {Partition("t", 0): PartitionTotals(10, 10, 12)}
    return figures(epochs=replace(figures().epochs, rows_waiting={0: 12}, partitions=partitions))
