"""Each query of a golden file that runs is compared with what its physical plan says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from sqlstream.testing.collected import GoldenItem
from sqlstream.testing.stepped_job import Flush, SteppedJob
from tests.depth import ALL
from tests.planner.physical.spark_plans import expected, seen

_RESTARTED = {
    "barriers", "changes", "count_windows", "emit_on_close", "evictors", "group_by", "hop", "interval_join",
    "late_data", "lookup", "match_recognize", "over", "process_functions", "processing_time", "regular_join",
    "select_lists", "session", "statement_sets", "storm", "subqueries", "temporal_join", "top_n", "triggers", "tumble",
    "user_windows", "window_changes", "window_join",
}  # fmt: skip
"""Files of which ``make test`` restarts a block, at least one for each operator that has state."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A block that runs with restarts is a streaming query there; straight through, bounded jobs must give the same.

    ``make test`` runs each file's every third block, and one as a streaming query: with restarts, or its first. All
    others are ``long``.
    """
    streams: dict[Path, list[GoldenItem]] = {}
    for item in items:
        if isinstance(item, GoldenItem) and item.block.kind == "stream":
            streams.setdefault(item.path, []).append(item)
    for path, blocks in streams.items():
        restarted = [item for item in blocks if item.restart]
        usual = restarted[:1] if path.stem in _RESTARTED else []
        of_restarts = {item.index for item in restarted}
        straight = [item for item in blocks if not item.restart and item.index not in {other.index for other in usual}]
        for number, item in enumerate(straight):
            item.streaming &= item.index not in of_restarts if ALL else number == 0 and not usual
        for item in blocks:
            if item not in usual and item not in straight[::3]:
                item.add_marker(pytest.mark.long)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    compared: set[int] = set()
    process = SteppedJob.process

    def processed(job: SteppedJob, flush: Flush) -> None:
        process(job, flush)
        if id(job) not in compared:
            compared.add(id(job))
            assert seen(job._query) == expected(job._traits.plan)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SteppedJob, "process", processed)
        if isinstance(item, GoldenItem) and "CACHE" in item.block.sql:
            _with_workers_of_its_own(patched)
        return (yield)


def _with_workers_of_its_own(patched: pytest.MonkeyPatch) -> None:
    """Caches are those of a worker. Spark takes those with the same environment in turns, and earlier tests have left
    some."""
    context = SparkContext._active_spark_context
    if context is not None:
        patched.setitem(context.environment, "SQLSTREAM_TEST_OF_CACHES", str(time.monotonic_ns()))
