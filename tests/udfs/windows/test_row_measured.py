from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Hop
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, Domain
from sqlstream.udfs.triggers import AtWatermark
from sqlstream.udfs.windows.emission import Lateness, LateRows
from sqlstream.udfs.windows.operator import WindowKernel
from sqlstream.udfs.windows.ranges import AllRows
from sqlstream.udfs.windows.row_measured import EveryRows, LastRows, Measure, RowMeasuredKernel

MS = 1000
SCHEMA = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
AGGREGATES = Aggregates(
    (
        AggregateCall("vs", "collect_list", ("v",), pa.list_(pa.int64())),
        AggregateCall("s", "sum", ("v",), pa.int64()),
    ),
    SCHEMA,
)


def kernel_of(measure: Measure, domain: Domain = Domain.EVENT, late: bool = False) -> RowMeasuredKernel:
    time = "ts" if domain is Domain.EVENT else None
    lateness = Lateness(0, LateRows.EMIT, ("k", "v")) if late else Lateness()
    return RowMeasuredKernel(SCHEMA, ("k",), time, measure, AGGREGATES, domain, lateness)


def rows(*values: tuple[int, int], key: str | None = "a") -> list[dict]:
    """Rows of (v, milliseconds)."""
    return [{"k": key, "ts": ms * MS, "v": v} for v, ms in values]


def lists(harness: KernelHarness) -> list[list[int]]:
    return [row["vs"] for row in harness.output()]


# --- Storm's own examples: e1 to e6, then e7 to e10, with a lag of 5 ---------------------------------------------

EARLIER = rows((1, 603), (2, 605), (3, 607), (4, 618), (5, 626), (6, 636))
LATER = rows((7, 665), (8, 666), (9, 667), (10, 679))


@pytest.mark.parametrize("restarts", [False, True])
def test_the_last_rows_at_each_multiple_of_the_slide(restarts):
    harness = KernelHarness(kernel_of(LastRows(3, 10 * MS)), SCHEMA, ["k"], restarts=restarts)
    harness.rows(EARLIER)
    harness.watermark(631 * MS)
    assert lists(harness) == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]
    harness.rows(LATER)
    harness.watermark(674 * MS)
    assert lists(harness) == [[4, 5, 6], [4, 5, 6], [4, 5, 6], [7, 8, 9]]
    harness.finish()
    assert lists(harness) == [[8, 9, 10]]


SECOND = 1000 * MS
SIX, EIGHT = 6 * 3600, 8 * 3600


@pytest.mark.parametrize("restarts", [False, True])
def test_windows_of_twenty_seconds_every_ten(restarts):
    """Storm's windows ``(end - size, end]`` are those of whole milliseconds that begin 1 ms later."""
    hop = Hop("ts", 10 * SECOND, 20 * SECOND, offset=MS)
    kernel = WindowKernel(SCHEMA, ("k",), hop, AtWatermark(), AGGREGATES)
    harness = KernelHarness(kernel, SCHEMA, ["k"], restarts=restarts)
    harness.rows(rows(*((v, (SIX + s) * 1000) for v, s in enumerate((3, 5, 7, 18, 26, 36), 1))))
    harness.watermark((SIX + 31) * SECOND)
    assert ends_and_lists(harness) == [(SIX + 10, [1, 2, 3]), (SIX + 20, [1, 2, 3, 4]), (SIX + 30, [4, 5])]
    harness.rows(rows(*((v, (EIGHT + s) * 1000) for v, s in enumerate((25, 26, 27, 39), 7))))
    harness.watermark((EIGHT + 34) * SECOND)
    assert ends_and_lists(harness) == [(SIX + 40, [5, 6]), (SIX + 50, [6]), (EIGHT + 30, [7, 8, 9])]


def ends_and_lists(harness: KernelHarness) -> list[tuple[int, list[int]]]:
    return [((row["window_end"] - MS) // SECOND, row["vs"]) for row in harness.output()]


@pytest.mark.parametrize("restarts", [False, True])
def test_every_third_row_looks_back_over_the_size(restarts):
    harness = KernelHarness(kernel_of(EveryRows(3, 20 * MS)), SCHEMA, ["k"], restarts=restarts)
    harness.rows(rows((1, 603), (2, 605), (3, 607), (4, 618), (5, 625), (6, 626), (7, 629), (8, 636)))
    harness.watermark(631 * MS)
    assert lists(harness) == [[1, 2, 3], [3, 4, 5, 6]]
    harness.rows(rows((9, 665), (10, 666), (11, 667), (12, 669), (13, 679)))
    harness.watermark(674 * MS)
    assert lists(harness) == [[9], [9, 10, 11, 12]]
    harness.finish()
    assert lists(harness) == []


def test_bounds_are_the_oldest_row_and_a_millisecond_after_the_newest():
    harness = KernelHarness(kernel_of(LastRows(2, 10 * MS)), SCHEMA, ["k"])
    harness.rows(rows((1, -25), (2, -24), (3, -22)))
    harness.finish()
    assert harness.output() == [{"k": "a", "window_start": -24 * MS, "window_end": -21 * MS, "vs": [2, 3], "s": 5}]


def test_firings_come_in_order_of_time_then_of_keys():
    harness = KernelHarness(kernel_of(LastRows(1, 10 * MS)), SCHEMA, ["k"])
    harness.rows(rows((1, 5), (2, 25)) + rows((3, 6), key="b"))
    harness.watermark(29 * MS)
    keys = [row["k"] for row in harness.output()]
    assert sorted(keys[:2]) == ["a", "b"]
    assert keys == keys[:2] * 3


def test_without_aggregates_the_rows_themselves_come_out():
    kernel = RowMeasuredKernel(SCHEMA, ("k",), "ts", LastRows(2, 10 * MS), AllRows(("k", "ts", "v")))
    harness = KernelHarness(kernel, SCHEMA, ["k"])
    harness.rows(rows((1, 5), (2, 25)))
    harness.watermark(29 * MS)
    bounds = [(5, 6), (5, 6), (5, 26), (5, 26)]
    assert harness.output() == [
        {"window_start": start * MS, "window_end": end * MS, "k": "a", "ts": ts * MS, "v": v}
        for (start, end), (v, ts) in zip(bounds, [(1, 5), (1, 5), (1, 5), (2, 25)], strict=True)
    ]


# --- late rows ---------------------------------------------------------------------------------------------------


def test_a_row_is_late_when_the_first_multiple_after_it_has_fired():
    harness = KernelHarness(kernel_of(LastRows(9, 10 * MS), late=True), SCHEMA, ["k"])
    harness.batch(rows((1, 15)), watermark=12 * MS)
    harness.rows(rows((2, 9), (3, 10)))
    harness.watermark(19 * MS)
    assert lists(harness) == [[3, 1]]
    assert harness.late() == [{"k": "a", "v": 2, "window_start": 9 * MS, "window_end": 10 * MS}]
    assert harness.counters["late_rows"] == 1


def test_a_row_is_late_for_a_slide_in_rows_when_the_watermark_has_reached_it():
    harness = KernelHarness(kernel_of(EveryRows(1, 10 * MS)), SCHEMA, ["k"])
    harness.batch(rows((1, 15)), watermark=12 * MS)
    harness.rows(rows((2, 12), (3, 13)))
    harness.watermark(15 * MS)
    assert lists(harness) == [[3], [3, 1]]
    assert harness.late() == []
    assert harness.counters["late_rows"] == 1


def test_rows_of_one_time_are_in_each_others_windows():
    harness = KernelHarness(kernel_of(EveryRows(2, 10 * MS)), SCHEMA, ["k"])
    harness.rows(rows((1, 5), (2, 5), (3, 5)))
    harness.watermark(5 * MS)
    assert lists(harness) == [[1, 2, 3]]


@pytest.mark.parametrize("measure", [LastRows(9, 10 * MS), EveryRows(1, 10 * MS)])
def test_rows_that_come_when_processing_time_has_ended_come_out(measure):
    harness = KernelHarness(kernel_of(measure, Domain.PROCESSING), SCHEMA, ["k"])
    harness.finish()
    harness.rows(rows((1, 0)))
    assert lists(harness) == [[1]]


# --- processing time ---------------------------------------------------------------------------------------------


def test_in_processing_time_every_second_row_fires_at_once():
    harness = KernelHarness(kernel_of(EveryRows(2, 10 * MS), Domain.PROCESSING), SCHEMA, ["k"])
    harness.batch(rows((1, 0), (2, 0), (3, 0)), processing_time=5 * MS)
    assert lists(harness) == [[1, 2]]
    harness.batch(rows((4, 0)), processing_time=14 * MS)
    assert lists(harness) == [[1, 2, 3, 4]]
    harness.batch(rows((5, 0), (6, 0)), processing_time=15 * MS)
    assert lists(harness) == [[4, 5, 6]]


def test_in_processing_time_a_clock_that_goes_back_changes_no_count():
    kernel = RowMeasuredKernel(SCHEMA, ("k",), "ts", EveryRows(2, 10 * MS), AGGREGATES, Domain.PROCESSING)
    harness = KernelHarness(kernel, SCHEMA, ["k"], processing_time=9 * MS)
    harness.rows(rows((1, 7), (2, 8), (3, 9)))
    harness.rows(rows((4, 2), (5, 12)))
    harness.rows(rows((6, 1)))
    assert lists(harness) == [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]


def test_in_processing_time_the_clock_fires_without_rows():
    harness = KernelHarness(kernel_of(LastRows(2, 10 * MS), Domain.PROCESSING), SCHEMA, ["k"])
    harness.batch(rows((1, 0)), processing_time=5 * MS)
    harness.processing_time(8 * MS)
    assert lists(harness) == []
    harness.processing_time(9 * MS)
    assert lists(harness) == [[1]]
    harness.batch(rows((2, 0), (3, 0)), processing_time=19 * MS)
    assert lists(harness) == [[1]]
    harness.processing_time(29 * MS)
    assert lists(harness) == [[2, 3]]
    harness.finish()
    assert lists(harness) == []


# --- against one row after another -------------------------------------------------------------------------------

Sorted = dict[str | None, list[tuple[int, int]]]
"""Per key (time, v) in order of time; v counts up with arrival."""


def last_rows(measure: LastRows, seen: Sorted, before: int | None, now: int | None) -> Iterator[tuple]:
    """(boundary, key, values) of the firings while the watermark goes from ``before`` to ``now``, in ms."""
    slide, offset = measure.slide // MS, measure.offset // MS
    for key, item in seen.items():
        first = (item[0][0] - offset) // slide * slide + offset + slide
        newest = (item[-1][0] - offset) // slide * slide + offset + slide
        for boundary in range(first, (newest if now is None else now + 1) + 1, slide):
            if before is None or boundary - 1 > before:
                yield boundary, key, [v for time, v in item if time < boundary][-measure.size :]


def every_rows(measure: EveryRows, seen: Sorted, before: int | None, now: int | None) -> Iterator[tuple]:
    size = measure.size // MS
    for key, item in seen.items():
        for number, (last, _) in enumerate(item, 1):
            if number % measure.slide == 0 and (before is None or last > before) and (now is None or last <= now):
                yield last, key, [v for time, v in item if last - size < time <= last]


def is_late(measure: Measure, time: int, watermark: int | None) -> bool:
    if watermark is None:
        return False
    if isinstance(measure, EveryRows):
        return time <= watermark
    assert isinstance(measure, LastRows)
    slide, offset = measure.slide // MS, measure.offset // MS
    return (time - offset) // slide * slide + offset + slide - 1 <= watermark


measures = st.one_of(
    st.builds(lambda n, ms: EveryRows(n, ms * MS), st.integers(1, 4), st.integers(1, 30)),
    st.builds(
        lambda n, ms, offset: LastRows(n, ms * MS, offset * MS),
        st.integers(1, 4),
        st.integers(1, 15),
        st.integers(-9, 9),
    ),
)
batches = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-20, 30)), max_size=8), st.integers(0, 15)
    ),
    min_size=1,
    max_size=5,
)


@given(measures, batches, st.booleans(), st.integers(1, 3))
def test_firings_are_those_of_one_row_after_another(measure, batches, restarts, groups):
    harness = KernelHarness(kernel_of(measure), SCHEMA, ["k"], groups=groups, arrow_rows=3, restarts=restarts)
    model = every_rows if isinstance(measure, EveryRows) else last_rows
    seen: Sorted = defaultdict(list)
    watermark, before, v, late = -30, None, 0, 0
    for new, step in [*batches, ([], None)]:
        arriving = []
        for key, time in new:
            v += 1
            arriving += rows((v, time), key=key)
            if is_late(measure, time, before):
                late += 1
            else:
                seen[key].append((time, v))
                seen[key].sort()
        harness.rows(arriving)
        assert harness.output() == []
        now = None if step is None else watermark + step
        expected = sorted(model(measure, seen, before, now), key=repr)
        harness.finish() if now is None else harness.watermark(now * MS)
        output = harness.output()
        assert sorted(((row["k"], row["vs"], row["s"]) for row in output), key=repr) == sorted(
            ((key, values, sum(values)) for _, key, values in expected), key=repr
        )
        watermark = before = now if now is not None else watermark
    assert harness.counters["late_rows"] == late
    assert not any(store.entries for store in harness.stores) or isinstance(measure, EveryRows)
