"""Kernels work on columns: ten times the rows of the same keys execute as many lines of Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from examples.throughput.kernels import KERNELS, measured


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
    assert many < 1.1 * few, (few, many)
