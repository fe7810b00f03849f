"""Sessions in both kernels that run them, the general operator and the one for the default trigger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Session, User
from sqlstream.udfs.evictors import KeepRows
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, Domain, Kernel
from sqlstream.udfs.triggers import (
    AfterDelay,
    AfterProcessingTime,
    AfterWatermark,
    And,
    AtWatermark,
    EveryInterval,
    EveryRows,
    Purging,
    When,
)
from sqlstream.udfs.windows.emission import Lateness, LateRows
from sqlstream.udfs.windows.operator import WindowKernel
from sqlstream.udfs.windows.ranges import AllRows
from sqlstream.udfs.windows.sessions import SessionKernel

MS = 1000
SCHEMA = pa.schema(
    [
        (KEY_HASH, pa.int64()),
        ("k", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("gap", pa.int64()),
        ("v", pa.int64()),
    ]
)
AGGREGATES = Aggregates(
    (
        AggregateCall("vs", "collect_list", ("v",), pa.list_(pa.int64())),
        AggregateCall("c", "count", ("v",), pa.int64()),
    ),
    SCHEMA,
)
Output = tuple[str | None, int, int, list[int]]
"""Key, start and end in milliseconds, values."""


def fast(assigner: Session, lateness: Lateness) -> Kernel:
    return SessionKernel(SCHEMA, ("k",), assigner, AGGREGATES, lateness)


def general(assigner: Session, lateness: Lateness) -> Kernel:
    trigger = AtWatermark() if assigner.domain is Domain.EVENT else AfterProcessingTime()
    return WindowKernel(SCHEMA, ("k",), assigner, trigger, AGGREGATES, lateness=lateness)


kernels = pytest.mark.parametrize("kernel", [fast, general])
restarting = pytest.mark.parametrize("restarts", [False, True])


def row(key: str | None, v: int, time: int, gap: int = 3000) -> dict[str, Any]:
    return {"k": key, "ts": time * MS, "gap": gap * MS, "v": v}


def outputs(harness: KernelHarness) -> list[Output]:
    output = harness.output()
    assert all(len(row["vs"]) == row["c"] for row in output)
    return [(row["k"], row["window_start"] // MS, row["window_end"] // MS, row["vs"]) for row in output]


def harness_of(
    kernel: Any, gap: int | str = 3000 * MS, lateness: Lateness | None = None, **options: Any
) -> KernelHarness:
    return KernelHarness(kernel(Session("ts", gap), lateness or Lateness()), SCHEMA, ["k"], **options)


# --- cases of Flink's operator tests -----------------------------------------------------------------------------


@kernels
@restarting
def test_rows_out_of_order_bridge_sessions(kernel, restarts):
    harness = harness_of(kernel, restarts=restarts)
    harness.rows([row("b", 1, 0), row("b", 2, 1000), row("b", 3, 2500), row("a", 1, 10), row("a", 2, 1000)])
    harness.rows([row("a", 3, 2500), row("b", 4, 5501), row("b", 5, 6000), row("b", 5, 6000), row("b", 6, 6050)])
    harness.watermark(12_000 * MS)
    assert (
        outputs(harness)
        == [
            ("b", 0, 5500, [1, 2, 3]),
            ("a", 10, 5500, [1, 2, 3]),
            ("b", 5501, 9050, [4, 5, 5, 6]),
        ]
        or restarts
    )
    harness.rows([row("b", 10, 15_000), row("b", 20, 15_000)])
    harness.watermark(17_999 * MS)
    assert outputs(harness)[-1] == ("b", 15_000, 18_000, [10, 20])


@restarting
def test_late_rows_within_what_is_allowed_merge_sessions_that_have_fired(restarts):
    lateness = Lateness(10_000 * MS, LateRows.EMIT, ("k", "v"))
    harness = harness_of(general, lateness=lateness, restarts=restarts)
    for rows, watermark, expected in [
        ([1000], 1999, []),
        ([2000], 4998, []),
        ([4500, 8500], 7400, []),
        ([7000], 11_501, [(1000, 11_500, 5)]),
        ([11_600], 14_600, [(11_600, 14_600, 1)]),
        ([10_000], 14_600, [(1000, 14_600, 7)]),
        ([14_500], 20_000, [(1000, 17_500, 8)]),
        ([], 100_000, []),
    ]:
        harness.rows([row("a", 1, time) for time in rows])
        harness.watermark(watermark * MS)
        assert [(start, end, len(vs)) for _, start, end, vs in outputs(harness)] == expected
    assert harness.late() == []
    assert not any(store.entries for store in harness.stores)


def test_each_late_row_fires_once():
    harness = harness_of(general, lateness=Lateness(10_000 * MS))
    harness.rows([row("a", 1, 0), row("b", 2, 0)])
    harness.watermark(5000 * MS)
    outputs(harness)
    harness.rows([row("a", 3, 1000), row("c", 4, 5000), row("b", 5, 10), row("a", 6, 2000)])
    assert outputs(harness) == [
        ("a", 0, 4000, [1, 3]),
        ("b", 0, 3010, [2, 5]),
        ("a", 0, 5000, [1, 3, 6]),
    ]


@kernels
def test_a_row_that_meets_no_live_session_is_late(kernel):
    harness = harness_of(kernel, lateness=Lateness(0, LateRows.EMIT, ("v",)))
    harness.rows([row("b", 1, 3999), row("a", 2, 20)])
    harness.watermark(4999 * MS)
    assert outputs(harness) == [("a", 20, 3020, [2])]
    harness.rows([row("a", 3, 999), row("b", 4, 1500)])
    assert harness.late() == [{"v": 3, "window_start": 999 * MS, "window_end": 3999 * MS}]
    harness.finish()
    assert outputs(harness) == [("b", 1500, 6999, [1, 4])]
    assert harness.counters["late_rows"] == 1


@kernels
@restarting
def test_sessions_of_processing_time_close_with_the_clock(kernel, restarts):
    assigner = Session(None, 3000 * MS, Domain.PROCESSING)
    harness = KernelHarness(kernel(assigner, Lateness()), SCHEMA, ["k"], restarts=restarts, processing_time=3000 * MS)
    harness.rows([row("b", 1, 0), row("b", 2, 0), row("a", 1, 0)])
    harness.processing_time(6000 * MS)
    assert sorted(outputs(harness)) == [("a", 3000, 6000, [1]), ("b", 3000, 6000, [1, 2])]
    harness.batch([row("a", 1, 0)], processing_time=7000 * MS)
    harness.batch([row("a", 2, 0)], processing_time=8000 * MS)
    assert outputs(harness) == []
    harness.processing_time(12_000 * MS)
    assert outputs(harness) == [("a", 7000, 11_000, [1, 2])]


@kernels
def test_rows_that_come_when_processing_time_has_ended_come_out(kernel):
    assigner = Session(None, 3000 * MS, Domain.PROCESSING)
    harness = KernelHarness(kernel(assigner, Lateness()), SCHEMA, ["k"])
    harness.finish()
    harness.rows([row("a", 1, 0)])
    assert [vs for _, _, _, vs in outputs(harness)] == [[1]]


class UserSession:
    """What SESSION does, in Python."""

    merging = True

    def __init__(self, gap: int) -> None:
        self.gap = gap

    def assign(self, row: Any, time: int, context: Any) -> list[tuple[int, int]]:
        return [(time, time + self.gap)] if row.v > 0 else []


def test_a_merging_assigner_of_a_user_makes_sessions():
    assigner = User("f", UserSession, (3000,), ("v",), "ts")
    harness = KernelHarness(
        WindowKernel(SCHEMA, ("k",), assigner, AtWatermark(), AGGREGATES), SCHEMA, ["k"], restarts=True
    )
    harness.rows([row("a", 1, 0), row("a", 2, 6000), row("a", -3, 20_000)])
    harness.rows([row("a", 4, 3000)])
    harness.watermark(8999 * MS)
    assert [(start, end, sorted(vs)) for _, start, end, vs in outputs(harness)] == [(0, 9000, [1, 2, 4])]


# --- against one row after another -------------------------------------------------------------------------------


class OneAfterAnother:
    """Sessions as lists [key, start, end, values, has fired]. Times in milliseconds."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.watermark = -(10**9)
        self.live: list[list[Any]] = []
        self.late = 0

    def on_row(self, key: str | None, v: int, time: int, gap: int) -> list[Output]:
        met = [s for s in self.live if s[0] == key and s[1] <= time + gap and time <= s[2]]
        start, end = min([time, *(s[1] for s in met)]), max([time + gap, *(s[2] for s in met)])
        if self.watermark >= end - 1 + self.allowed:
            self.late += 1
            return []
        self.live = [s for s in self.live if s not in met]
        closed = self.watermark >= end - 1
        values = [*(value for s in met for value in s[3]), v]
        self.live.append([key, start, end, values, closed])
        return [(key, start, end, sorted(values))] if closed else []

    def on_watermark(self, watermark: int) -> list[Output]:
        self.watermark = watermark
        fired = [s for s in self.live if watermark >= s[2] - 1 and not s[4]]
        for session in fired:
            session[4] = True
        self.live = [s for s in self.live if watermark < s[2] - 1 + self.allowed]
        return [(key, start, end, sorted(values)) for key, start, end, values, _ in fired]


def in_any_order(items: list[Output]) -> list[str]:
    """Sessions come in any order, their values in that of arrival."""
    return sorted(map(repr, items))


streams = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-20, 30), st.integers(1, 8)), max_size=10),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=5,
)


def play(harness: KernelHarness, batches: list[Any], allowed: int) -> None:
    model = OneAfterAnother(allowed)
    watermark, v = -20, 0
    for arriving, advance in batches:
        batch, expected = [], []
        for key, time, gap in arriving:
            v += 1
            batch.append(row(key, v, time, gap))
            expected += model.on_row(key, v, time, gap)
        harness.rows(batch)
        assert in_any_order(outputs(harness)) == in_any_order(expected)
        watermark += advance
        harness.watermark(watermark * MS)
        assert in_any_order(outputs(harness)) == in_any_order(model.on_watermark(watermark))
    harness.finish()
    assert in_any_order(outputs(harness)) == in_any_order(model.on_watermark(10**9))
    assert harness.counters["late_rows"] == model.late
    assert not any(store.entries for store in harness.stores)


@settings(max_examples=50)
@given(streams, st.booleans(), st.integers(1, 2))
def test_sessions_are_those_of_one_row_after_another(batches, restarts, groups):
    for kernel in (fast, general):
        play(harness_of(kernel, "gap", groups=groups, arrow_rows=3, restarts=restarts), batches, 0)


@settings(max_examples=50)
@given(streams, st.integers(1, 8), st.integers(1, 2))
def test_with_lateness_too_sessions_are_those_of_one_row_after_another(batches, allowed, groups):
    play(harness_of(general, "gap", Lateness(allowed * MS), groups=groups), batches, allowed)


def test_a_late_row_that_a_later_one_would_join_to_a_session_stays_late():
    harness = harness_of(fast, "gap")
    harness.watermark(5500 * MS)
    harness.rows([row("a", 1, 1000), row("a", 2, 3000, gap=2000), row("a", 3, 5000)])
    assert harness.counters["late_rows"] == 2


# --- order of arrival --------------------------------------------------------------------------------------------

ORDERED = Aggregates(
    (
        AggregateCall("f", "first_value", ("v",), pa.int64()),
        AggregateCall("l", "last_value", ("v",), pa.int64()),
        AggregateCall("vs", "collect_list", ("v",), pa.list_(pa.int64())),
        AggregateCall("agg", "listagg", ("k",), pa.string(), constants=(",",)),
    ),
    SCHEMA,
)
MERGING = [row("a", 0, 120, 10), row("a", 1, 100, 10), row("a", 2, 110, 10)]


def ordered(trigger: Any = None, evictor: Any = None, allowed: int = 0, function: Any = ORDERED) -> WindowKernel:
    kernel = WindowKernel(SCHEMA, ("k",), Session("ts", "gap"), trigger or AtWatermark(), function, evictor)
    return replace(kernel, lateness=Lateness(allowed * MS))


cuts = pytest.mark.parametrize("cut", [(3,), (2, 1), (1, 2), (1, 1, 1)])


@cuts
@pytest.mark.parametrize(
    "kernel",
    [
        SessionKernel(SCHEMA, ("k",), Session("ts", "gap"), ORDERED),
        ordered(),
        ordered(evictor=KeepRows(5)),
        ordered(allowed=50),
        ordered(function=AllRows(("v",))),
    ],
)
def test_a_merged_session_keeps_its_rows_in_order_of_arrival(kernel, cut):
    harness, start = KernelHarness(kernel, SCHEMA, ["k"], restarts=True), 0
    for size in cut:
        harness.rows(MERGING[start : start + size])
        start += size
    harness.finish()
    output = harness.output()
    if isinstance(kernel.function, AllRows):
        assert [r["v"] for r in output] == [0, 1, 2]
    else:
        assert [(r["f"], r["l"], r["vs"], r["agg"]) for r in output] == [(0, 2, [0, 1, 2], "a,a,a")]


@cuts
def test_a_merged_session_evicts_all_but_the_last_to_arrive(cut):
    harness, start = KernelHarness(ordered(evictor=KeepRows(2)), SCHEMA, ["k"], restarts=True), 0
    for size in cut:
        harness.rows(MERGING[start : start + size])
        start += size
    harness.finish()
    assert [r["vs"] for r in harness.output()] == [[1, 2]]


def test_counting_triggers_see_a_merged_session_in_order_of_arrival():
    """Rows 0 and 1 have sessions of their own until row 3, whose gap is longer, joins them."""
    rows = [row("a", 0, 120, 5), row("a", 1, 100, 5), row("a", 2, 121, 5), row("a", 3, 104, 20)]
    for size in (1, 2, 4):
        harness = KernelHarness(ordered(Purging(EveryRows(4))), SCHEMA, ["k"])
        for start in range(0, 4, size):
            harness.rows(rows[start : start + size])
        assert [r["vs"] for r in harness.output()] == [[0, 1, 2, 3]]


def test_sums_over_sessions_keep_no_numbers_of_rows():
    counted = Aggregates((AggregateCall("c", "count", (), pa.int64()),), SCHEMA)
    assert counted.for_merging_windows() is counted
    kernel = SessionKernel(SCHEMA, ("k",), Session("ts", "gap"), counted)
    assert [name for name in kernel._schema.names if name.startswith("__accumulator")] == ["__accumulator_0"]


class Texts:
    def create(self) -> str:
        return ""

    def accumulate(self, state: str, value: int) -> str:
        return f"{state}/{value}"

    def merge(self, state: str, other: str) -> str:
        return state + other

    def finish(self, state: str) -> str:
        return state


class AnyOrder(Texts):
    any_order = True


@cuts
def test_a_class_sees_the_rows_of_a_merged_session_in_order_of_arrival(cut):
    called = Aggregates((AggregateCall("u", "texts", ("v",), pa.string(), implementation=Texts),), SCHEMA)
    harness, start = KernelHarness(ordered(function=called), SCHEMA, ["k"], restarts=True), 0
    for size in cut:
        harness.rows(MERGING[start : start + size])
        start += size
    harness.finish()
    assert [r["u"] for r in harness.output()] == ["/0/1/2"]


def test_states_of_a_class_that_takes_any_order_are_merged():
    called = Aggregates((AggregateCall("u", "texts", ("v",), pa.string(), implementation=AnyOrder),), SCHEMA)
    assert called.for_merging_windows() is called
    assert called.accumulators.types == [pa.binary()]


# --- timers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("apart", [False, True])
def test_the_end_of_a_session_that_has_merged_fires_nothing(apart):
    """The row at 105 makes the session of the row at 104 a millisecond longer."""
    every = EveryInterval(13 * MS, Domain.EVENT, "ts")
    harness = KernelHarness(ordered(Purging(every)), SCHEMA, ["k"], restarts=True)
    rows = [row("a", 0, 104, 2), row("a", 1, 105, 2)]
    for batch in [[r] for r in rows] if apart else [rows]:
        harness.rows(batch)
    harness.watermark(105 * MS)
    assert harness.output() == []
    harness.rows([row("a", 2, 106, 2)])
    harness.watermark(107 * MS)
    assert [(r["window_end"] // MS, r["vs"]) for r in harness.output()] == [(108, [0, 1, 2])]


@pytest.mark.parametrize("batches", [(2,), (1, 1)])
def test_a_session_with_a_result_takes_it_over_from_one_that_it_merges_with(batches):
    kernel = replace(ordered(AfterWatermark(AfterDelay(2 * MS))), retracting=True, row_kinds=True)
    harness = KernelHarness(kernel, SCHEMA, ["k"])
    harness.rows([row("a", 0, 0, 5)])
    harness.processing_time(5 * MS)
    assert [r["__row_kind"] for r in harness.output()] == ["+I"]
    rows, start = [row("a", 1, 9, 5), row("a", 2, 4, 5)], 0
    for size in batches:
        harness.rows(rows[start : start + size])
        start += size
    harness.processing_time(20 * MS)
    assert [(r["__row_kind"], r["vs"]) for r in harness.output()] == [("-U", [0]), ("+U", [0, 1, 2])]


@pytest.mark.parametrize("size", [1, 4])
def test_sides_of_an_and_that_fired_in_sessions_that_merge_fire_together(size):
    schema = SCHEMA.append(pa.field("flag", pa.bool_()))
    kernel = ordered(And(EveryRows(2), When("flag")), function=replace(ORDERED, input=schema))
    harness = KernelHarness(replace(kernel, input=schema), schema, ["k"])
    of_left = [row("a", 0, 100, 5) | {"flag": False}, row("a", 1, 101, 5) | {"flag": False}]
    rows = [*of_left, row("a", 2, 120, 5) | {"flag": True}, row("a", 3, 106, 20) | {"flag": False}]
    for start in range(0, 4, size):
        harness.rows(rows[start : start + size])
    assert [r["vs"] for r in harness.output()] == [[0, 1, 2, 3]]
