"""Windows of fixed size against a model that tries every window."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.windows import windows_of
from sqlstream.planner.nodes import Cumulate, Hop, Tumble

pytestmark = pytest.mark.spark

WINDOWS = (
    Tumble(1000),
    Tumble(1000, 300),
    Tumble(7, -3),
    Hop(1000, 3000),
    Hop(2000, 3000),
    Hop(700, 3000, 100),
    Hop(3000, 3000),
    Hop(7, 20, -3),
    Cumulate(1000, 3000),
    Cumulate(1000, 3000, -500),
    Cumulate(3000, 3000),
)
INSTANTS = [*range(-7_000_000, 7_000_000, 499_999), -1, 0, 1, 999_999, 1_000_000, -62_135_596_800_000_000]


def expected(window: Tumble | Hop | Cumulate, ts: int) -> set[tuple[int, int]]:
    """All windows whose [start, end) holds ``ts``, in microseconds, found by enumeration."""
    offset = window.offset_ms * 1000
    match window:
        case Tumble(size):
            period, lengths = size, [size]
        case Hop(slide, size):
            period, lengths = slide, [size]
        case Cumulate(step, size):
            period, lengths = size, list(range(step, size + 1, step))
    first = (Fraction(ts - offset, period * 1000)).__floor__()
    starts = [(first - i) * period * 1000 + offset for i in range(max(lengths) // period + 1)]
    return {(s, s + length * 1000) for s in starts for length in lengths if s <= ts < s + length * 1000}


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_each_instant_is_in_exactly_the_windows_that_hold_it(spark, window):
    rows = spark.createDataFrame([(i,) for i in INSTANTS], "ts BIGINT")
    found = rows.select("ts", F.expr(windows_of(window, "ts")).alias("windows")).collect()
    assert {row.ts: {(w.start, w.end) for w in row.windows} for row in found} == {
        ts: expected(window, ts) for ts in INSTANTS
    }
    assert all(len(row.windows) == len(set(row.windows)) for row in found)
