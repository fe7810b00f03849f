"""OVER in windows: results come once, when the watermark has passed the window, and are those of all its rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, LATE_ROWS
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Number, Numbered, OverFunction, Shifted
from sqlstream.udfs.over.windowed import WindowOverKernel
from sqlstream.udfs.top_n.order import Order
from tests.udfs.over.test_updating import PLACES, tile

SCHEMA = pa.schema(
    [(KEY_HASH, pa.int64()), ("w", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("closes", pa.int64())]
)
FUNCTIONS: tuple[OverFunction, ...] = (
    *PLACES,
    Numbered("rank", Number.RANK, pa.int32()),
    Shifted("before", "v", -1, pa.int64(), ignore_nulls=True),
    Aggregated(AggregateCall("s", "sum", ("v",), pa.int64()), Frame(rows=False, start=None)),
)
SIZE = 10


def kernel(descending: bool = False) -> WindowOverKernel:
    order = (Order("v", descending, nulls_first=not descending),)
    return WindowOverKernel(SCHEMA, ("k", "w"), order, ("w", "k", "v"), FUNCTIONS, "closes")


def row(k: str, time: int, v: int | None) -> dict[str, Any]:
    start = time // SIZE * SIZE
    return {"w": start, "k": k, "v": v, "closes": start + SIZE - 1}


def values(harness: KernelHarness) -> list[tuple[Any, ...]]:
    return [tuple(result.values()) for result in harness.output()]


@pytest.mark.parametrize("restarts", [False, True])
def test_results_are_final_when_the_window_closes(restarts):
    harness = KernelHarness(kernel(), SCHEMA, ["k", "w"], restarts=restarts)
    harness.rows([row("a", 1, 5), row("a", 12, 7), row("a", 3, 2), row("b", 4, 1)])
    harness.watermark(8)
    assert values(harness) == []
    harness.rows([row("a", 9, 5)])
    harness.watermark(9)
    third = pytest.approx(1 / 3)
    assert sorted(values(harness)) == [
        (0, "a", 2, 1, 0.0, third, 1, None, 2),
        (0, "a", 5, 2, 0.5, 1.0, 2, 2, 12),
        (0, "a", 5, 3, 0.5, 1.0, 2, 5, 12),
        (0, "b", 1, 1, 0.0, 1.0, 1, None, 1),
    ]
    harness.rows([row("a", 8, 9)])
    assert harness.counters[LATE_ROWS] == 1
    harness.finish()
    assert values(harness) == [(10, "a", 7, 1, 0.0, 1.0, 1, None, 7)]


ROWS = st.tuples(st.sampled_from("ab"), st.integers(0, 39), st.none() | st.integers(-2, 2))
STREAM = st.lists(st.tuples(st.lists(ROWS, max_size=8), st.integers(0, 15)), max_size=5)


def expected(rows: list[tuple[str, int, int | None]], descending: bool) -> Counter:
    """Every row with its places, its rank, the last value before it, and the sum of all rows up to its peers."""
    results: Counter = Counter()
    by_window: dict[tuple[str, int], list[int | None]] = defaultdict(list)
    for k, time, v in rows:
        by_window[k, time // SIZE * SIZE].append(v)
    for (k, start), unsorted in by_window.items():
        of_key = sorted(unsorted, key=lambda v: (v is not None, v or 0), reverse=descending)
        for at, v in enumerate(of_key):
            rank, peers = of_key.index(v), len(of_key) - of_key[::-1].index(v)
            before = [value for value in of_key[:at] if value is not None]
            summed = [value for value in of_key[:peers] if value is not None]
            results[
                start, k, v, tile(at, len(of_key), 3), rank / max(len(of_key) - 1, 1), peers / len(of_key), rank + 1,
                before[-1] if before else None, sum(summed) if summed else None,
            ] += 1  # fmt: skip
    return results


@settings(max_examples=150)
@given(STREAM, st.booleans(), st.sampled_from([1, 3]), st.booleans())
def test_results_are_those_of_the_model(stream, descending, groups, restarts):
    harness = KernelHarness(kernel(descending), SCHEMA, ["k", "w"], groups=groups, restarts=restarts)
    watermark = -1
    there: list[tuple[str, int, int | None]] = []
    late = 0
    for rows, further in stream:
        in_time = [r for r in rows if r[1] // SIZE * SIZE + SIZE - 1 > watermark]
        late += len(rows) - len(in_time)
        there += in_time
        harness.rows([row(*r) for r in rows])
        watermark += further
        harness.watermark(watermark)
    harness.finish()
    assert Counter(values(harness)) == expected(there, descending)
    assert harness.counters[LATE_ROWS] == late
