"""Kernels, exchange and adapter work on columns: more rows of the same keys execute hardly more lines of Python (a loop
over rows would be a line for each at least), and the state server is asked as often for many keys as for few."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import pytest
from pyspark.sql import Row

from examples.throughput.kernels import KERNELS, SECOND, bids, measured
from sqlstream.udfs.exchange import Exchange
from sqlstream.udfs.spark import Watermark
from sqlstream.udfs.spark.adapter import KernelProcessor
from sqlstream.udfs.spark.call import Clocks
from sqlstream.udfs.windows.sessions import SessionKernel
from tests.udfs.spark.one_key_group import Now, OneKeyGroup


def lines_of(work: Callable[[], object]) -> int:
    """The calls, lines and returns that Python executes."""
    count = 0
    before = sys.gettrace()

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return traced

    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_a_loop_is_seen():
    assert lines_of(lambda: [row + 1 for row in range(1000)]) > 1000


@pytest.mark.parametrize("name", KERNELS)
def test_the_rows_of_a_batch_cost_no_line_of_python(name):
    kernel = KERNELS[name]
    measured(kernel, 1000, 100, 1)  # imports
    few, many = (lines_of(partial(measured, kernel, rows, 100, 2)) for rows in (10_000, 100_000))
    # Late rows of sessions are looked up in tables with one level more for twice the rows.
    assert many < (1.2 if isinstance(kernel, SessionKernel) else 1.1) * few, (few, many)


@pytest.mark.parametrize("name", KERNELS)
def test_the_rows_of_a_batch_cost_the_exchange_and_the_adapter_no_line_of_python(name):
    run_through(name, 1000, 100)  # imports
    few, many = (lines_of(partial(run_through, name, rows, 100)) for rows in (10_000, 100_000))
    assert many - few < 90_000 / 4, (few, many)


@pytest.mark.parametrize("name", KERNELS)
def test_the_state_server_is_asked_as_often_for_many_keys_as_for_few(name):
    few, many = (run_through(name, 20_000, keys) for keys in (10, 10_000))
    assert len(many.asked) == len(few.asked) <= 8, (few.asked, many.asked)


def run_through(name: str, rows: int, keys: int) -> OneKeyGroup:
    """Two micro-batches through the exchange and the adapter of one key group."""
    kernel = KERNELS[name]
    clocks = Clocks(Watermark.EVENT_TIME, 0, 2**62)
    group = OneKeyGroup(lambda: KernelProcessor(kernel, clocks))
    for batch in range(2):
        processor = group.processor()
        processor.begin(group)
        blobs = Exchange(kernel, 1).blobs(bids(rows, keys, batch).to_batches(), 0)
        arrived = (Row(**blob) for emitted_rows in blobs for blob in emitted_rows.to_pylist())
        watermark_ms = (batch * 10 * SECOND - SECOND) // 1000
        list(processor.rows(arrived, cast(Any, Now(max(watermark_ms, 0)))))
    return group
