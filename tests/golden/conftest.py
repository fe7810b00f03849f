"""Each query of a golden file that runs is compared with what its physical plan says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from sqlstream.testing.collected import GoldenItem
from sqlstream.testing.stepped_job import Flush, SteppedJob
from tests.depth import ALL
from tests.planner.physical.spark_plans import expected, seen


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A block that runs with restarts is a streaming query there; straight through, bounded jobs must give the same.

    Of those that run straight through alone, ``make test`` streams each file's every fourth, beginning with the first
    where the file has no restarts, which stream as well.
    """
    blocks = [item for item in items if isinstance(item, GoldenItem)]
    restarted = {(item.path, item.index) for item in blocks if item.restart}
    files_with_restarts = {path for path, _ in restarted}
    alone: Counter[Path] = Counter()
    for item in blocks:
        if item.restart:
            continue
        if (item.path, item.index) in restarted:
            item.streaming = False
        else:
            nth = 3 if item.path in files_with_restarts else 0
            item.streaming = item.streaming and (ALL or alone[item.path] % 4 == nth)
            alone[item.path] += 1


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
