"""Rows with times of microseconds, in order, in micro-batches that end anywhere: none is late, and no result is early.

Spark's watermark has milliseconds: after each micro-batch it is the greatest time of the rows, rounded down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.rules import optimize
from sqlstream.udfs.kernel import END_OF_TIME
from tests.depth import depth
from tests.differential.without_spark import PlanHarness
from tests.planner.plans import physical, plan

MS = 1_000
SIZE = 3 * MS
SLIDE = MS
TABLES = "".join(
    f"CREATE TABLE {name} (k INT, ts TIMESTAMP({precision}), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');\n"
    for name, precision in (("t", 6), ("u", 6), ("whole", 3))
)
SECONDS = "INTERVAL '0.003' SECOND"

Row = tuple[int, int]
"""The key and the time of a row, in microseconds."""


def micros(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def windowed(call: str, keys: str = "") -> str:
    return f"SELECT window_start, window_end, k, COUNT(*) FROM {call} GROUP BY {keys}window_start, window_end, k"


def aligned(rows: Sequence[Row], starts: Any) -> Counter[tuple[int, ...]]:
    """Starts and ends of windows, with the number of rows of each key."""
    return Counter((start, end, k) for k, time in rows for start, end in starts(time) if start <= time < end)


def sessions(rows: Sequence[Row], gap: int) -> Counter[tuple[int, ...]]:
    counts: Counter[tuple[int, ...]] = Counter()
    for key in {k for k, _ in rows}:
        of_key = [time for k, time in rows if k == key]
        start, last, count = of_key[0], of_key[0], 0
        for time in of_key:
            if time > last + gap:  # sessions that touch are one, as in Flink
                counts[start, last + gap, key] = count
                start, count = time, 0
            last, count = time, count + 1
        counts[start, last + gap, key] = count
    return counts


def tumbling(time: int) -> list[tuple[int, int]]:
    start = time - time % SIZE
    return [(start, start + SIZE)]


def hopping(time: int) -> list[tuple[int, int]]:
    newest = time - time % SLIDE
    return [(newest - n * SLIDE, newest - n * SLIDE + SIZE) for n in range(3)]


def cumulating(time: int) -> list[tuple[int, int]]:
    start = time - time % SIZE
    return [(start, start + (n + 1) * SLIDE) for n in range(3)]


WINDOWS = {
    f"TUMBLE(TABLE t, DESCRIPTOR(ts), {SECONDS})": lambda rows: aligned(rows, tumbling),
    f"HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.001' SECOND, {SECONDS})": lambda rows: aligned(rows, hopping),
    f"CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.001' SECOND, {SECONDS})": lambda rows: aligned(rows, cumulating),
    f"SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), {SECONDS})": lambda rows: sessions(rows, SIZE),
}

TUMBLE = f"TUMBLE(TABLE t, DESCRIPTOR(ts), {SECONDS})"
QUERIES = [
    *(windowed(call) for call in WINDOWS),
    # windows that close together with others, and above others
    f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY ts DESC) AS n "
    f"FROM {TUMBLE}) WHERE n <= 2",
    f"SELECT window_end, COUNT(*) FROM TUMBLE(TABLE (SELECT window_time AS wt FROM {TUMBLE} GROUP BY window_start, "
    f"window_end, window_time, k), DESCRIPTOR(wt), INTERVAL '0.006' SECOND) GROUP BY window_start, window_end",
    f"SELECT window_end, COUNT(*) FROM TUMBLE(TABLE (SELECT window_time AS wt, k FROM "
    f"SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), {SECONDS}) GROUP BY window_start, window_end, window_time, k), "
    f"DESCRIPTOR(wt), INTERVAL '0.006' SECOND) GROUP BY window_start, window_end",
    f"SELECT window_end, k, COUNT(*) FROM (SELECT window_end, window_start, k, COUNT(*) AS n FROM {TUMBLE} "
    "GROUP BY window_start, window_end, k) GROUP BY window_start, window_end, k",
    f"SELECT l.k, r.k, l.ts, r.ts FROM (SELECT * FROM {TUMBLE}) l JOIN "
    f"(SELECT * FROM TUMBLE(TABLE u, DESCRIPTOR(ts), {SECONDS})) r "
    "ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
    # other operators, and windows above them
    "SELECT l.ts, r.ts FROM t l LEFT JOIN u r ON l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL '0.001' SECOND AND "
    "r.ts + INTERVAL '0.002' SECOND",
    f"SELECT window_end, COUNT(*) FROM TUMBLE(TABLE (SELECT l.ts AS ts FROM t l JOIN u r ON l.k = r.k AND l.ts BETWEEN "
    f"r.ts - INTERVAL '0.001' SECOND AND r.ts + INTERVAL '0.002' SECOND), DESCRIPTOR(ts), {SECONDS}) "
    "GROUP BY window_start, window_end",
    "SELECT k, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) WHERE n = 1",
]


@st.composite
def rows_in_order(draw: st.DrawFn) -> list[Row]:
    steps = draw(st.lists(st.sampled_from((1, 200, 500, 999, 1_000, 1_001, 2_500, 7_000)), min_size=1, max_size=14))
    keys = draw(st.lists(st.integers(0, 1), min_size=len(steps), max_size=len(steps)))
    times = [9 * MS + sum(steps[:end]) for end in range(len(steps))]
    return list(zip(keys, times, strict=True))


def table(rows: Sequence[Row]) -> pa.Table:
    keys, times = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"k": pa.array(keys, pa.int32()), "ts": pa.array(times, pa.timestamp("us", "UTC"))})


@cache
def planned(query: str) -> PhysicalPlan:
    return physical(optimize(plan(query, TABLES)), chains=False)


def batches(
    query: str, rows: Sequence[Row], cuts: Sequence[int], restarts: Random | None
) -> Iterator[tuple[int, pa.Table]]:
    """The results of each micro-batch with the watermark that it has; all rows are in both tables."""
    harness = PlanHarness(planned(query), groups=2, restarts=restarts)
    begin = watermark = 0
    for end in (*(cut for cut in cuts if cut < len(rows)), len(rows)):
        part = table(rows[begin:end])
        yield watermark, harness.batch({"t": part, "u": part})
        begin, watermark = end, rows[end - 1][1] // MS * MS
        yield watermark, harness.batch({}, watermark)
    yield END_OF_TIME, harness.batch({}, END_OF_TIME)


def results(query: str, rows: Sequence[Row], cuts: Sequence[int] = (), restarts: Random | None = None) -> Counter[Any]:
    outputs = (output.to_pylist() for _, output in batches(query, rows, cuts, restarts))
    return Counter(tuple(row.values()) for output in outputs for row in output)


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=depth(15, 1000), derandomize=True)
@given(rows_in_order(), st.sets(st.integers(1, 13)), st.randoms(use_true_random=False))
def test_no_row_in_order_is_late(query, rows, cuts, choice):
    assert results(query, rows, sorted(cuts), choice) == results(query, rows)


@pytest.mark.parametrize("call", WINDOWS)
@settings(max_examples=depth(15, 1000), derandomize=True)
@given(rows_in_order(), st.sets(st.integers(1, 13)))
def test_windows_close_once_the_watermark_is_at_their_end(call, rows, cuts):
    found: Counter[tuple[int, ...]] = Counter()
    for watermark, output in batches(windowed(call), rows, sorted(cuts), None):
        for start, end, key, count in (tuple(row.values())[:4] for row in output.to_pylist()):
            assert micros(end) <= watermark, "a row of the window may still come"
            found[micros(start), micros(end), key] += count
    assert found == WINDOWS[call](rows)


def test_whole_milliseconds_close_a_window_a_millisecond_before_its_end_as_in_flink():
    for name, closed in (("whole", 1), ("t", 0)):
        query = windowed(TUMBLE.replace("TABLE t", f"TABLE {name}"))
        harness = PlanHarness(planned(query))
        harness.batch({name: table([(1, SIZE - MS)])})
        assert harness.batch({}, SIZE - MS).num_rows == closed
        assert harness.batch({}, SIZE).num_rows == 1 - closed
