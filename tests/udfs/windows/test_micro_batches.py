"""Every window comes out the same row by row, in micro-batches that end anywhere, and with restarts between them.

A case is a window over a dozen streams, one for each key. ``SQLSTREAM_EXAMPLES`` is the number of cases,
``SQLSTREAM_SEED`` the seed of the first one.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import Kernel
from tests.depth import depth
from tests.model.kernels import INPUT, KEYS, MS, Stretch, kernel, stream

EXAMPLES = int(os.environ.get("SQLSTREAM_EXAMPLES") or depth(64, 200))
FIRST_SEED = int(os.environ.get("SQLSTREAM_SEED", "0"))
PARTS = 8

Told = tuple[dict[Any, list[tuple[Any, ...]]], list[Any], int]
"""What came out, in order by key; late rows; how many were counted."""

Cuts = Callable[[Stretch], Iterator[int]]
"""How many rows each micro-batch of a stretch has."""


def told(kernel: Kernel, stretches: list[Stretch], cuts: Cuts, groups: int, restarts: Random | None = None) -> Told:
    harness = KernelHarness(kernel, INPUT, KEYS, groups=groups, processing_time=-MS)
    for stretch in stretches:
        start = 0
        for size in cuts(stretch):
            _maybe_restart(harness, restarts)
            harness.rows(stretch.rows.slice(start, size))
            start += size
        _maybe_restart(harness, restarts)
        if stretch.watermark is not None:
            harness.watermark(stretch.watermark * MS)
        if stretch.processing_time is not None:
            harness.processing_time((stretch.processing_time - 1) * MS)
    harness.finish()
    by_key = defaultdict(list)
    for row in harness.output():
        by_key[row["k"]].append(tuple(row.values()))
    late = sorted((tuple(row.values()) for row in harness.late()), key=lambda row: row[1])
    return dict(by_key), late, harness.counters["late_rows"]


def _maybe_restart(harness: KernelHarness, restarts: Random | None) -> None:
    if restarts is not None and restarts.random() < 0.4:
        harness.restart()


def one_by_one(stretch: Stretch) -> Iterator[int]:
    """No key has two rows in a micro-batch."""
    return iter(stretch.turns)


def anywhere(random: Random) -> Cuts:
    def cuts(stretch: Stretch) -> Iterator[int]:
        left = stretch.rows.num_rows
        while left:
            size = min(left, random.choice([3, 10, 20, 100, 100]))
            yield size
            left -= size

    return cuts


def check(seed: int) -> None:
    random = Random(seed)
    window, stretches, groups = kernel(random), stream(random), random.choice([1, 1, 3])
    expected = told(window, stretches, one_by_one, groups)
    assert told(window, stretches, anywhere(random), groups) == expected, f"seed {seed}: {window}"
    actual = told(window, stretches, anywhere(random), groups, random)
    assert actual == expected, f"seed {seed}, with restarts: {window}"


@pytest.mark.parametrize("part", range(PARTS))
def test_micro_batches_may_end_anywhere(part):
    for seed in range(FIRST_SEED + part, FIRST_SEED + EXAMPLES, PARTS):
        check(seed)
