"""The general window operator, fact by fact. Flink's own tests and the random ones are elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.udfs.assigners import Cumulate, Global, Hop, Session, Tumble
from sqlstream.udfs.evictors import EvictDelta, KeepInterval, KeepRows
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.triggers import (
    AfterDelay,
    AfterProcessingTime,
    AfterWatermark,
    AtWatermark,
    Delta,
    EachBatch,
    EveryInterval,
    EveryRows,
    Or,
    Purging,
    TriggerResult,
    User,
    When,
)
from sqlstream.udfs.windows.emission import Lateness, LateRows
from sqlstream.udfs.windows.ranges import AllRows
from tests.udfs.windows.window_harness import MS, SCHEMA, Windowed


def session(gap: int) -> Session:
    return Session("ts", gap * MS)


def tumble(size: int) -> Tumble:
    return Tumble("ts", size * MS)


CHANGES = {"retracting": True, "row_kinds": True}


# --- lateness -------------------------------------------------------------------------------------------------


def test_late_rows_within_what_is_allowed_fire_at_once_and_others_go_to_the_table():
    lateness = Lateness(500 * MS, LateRows.EMIT, ("k", "v", "ts"))
    windowed = Windowed(tumble(2000), Purging(AtWatermark()), lateness=lateness)
    assert windowed.rows(("a", 1, 500)) == []
    assert windowed.watermark(1999) == [("a", 0, 2000, 1)]
    assert windowed.rows(("a", 2, 1997), ("a", 3, 1998)) == [("a", 0, 2000, 2), ("a", 0, 2000, 3)]
    assert windowed.watermark(2499) == []
    assert windowed.rows(("a", 4, 1998), ("a", 5, 3000)) == []
    assert windowed.late == [("a", 4, 1998, 0, 2000)]
    assert windowed.late_rows == 1


def test_a_row_counts_in_those_of_its_windows_that_are_open():
    windowed = Windowed(Hop("ts", 1000 * MS, 3000 * MS), AtWatermark(), lateness=Lateness(0, LateRows.EMIT, ("v",)))
    windowed.watermark(3999)
    assert windowed.rows(("a", 1, 3500), ("a", 2, 500)) == []
    assert windowed.late == [(2, 0, 3000)]
    assert windowed.finish() == [("a", 2000, 5000, 1), ("a", 3000, 6000, 1)]


def test_rows_without_windows_are_counted_and_go_nowhere():
    windowed = Windowed(Hop("ts", 10 * MS, 4 * MS), AtWatermark(), lateness=Lateness(0, LateRows.EMIT, ("v",)))
    windowed.rows(("a", 1, 3), ("a", 2, 7))
    assert windowed.finish() == [("a", 0, 4, 1)]
    assert windowed.late == []
    assert windowed.late_rows == 1


def test_late_data_fail_names_the_row():
    windowed = Windowed(tumble(10), AtWatermark(), lateness=Lateness(0, LateRows.FAIL))
    windowed.watermark(9)
    with pytest.raises(ExecutionError, match="a row is late for its window, which is from 1970-01-01") as caught:
        windowed.rows(("a", 17, 5))
    assert caught.value.code == "SS406"
    assert "'v': 17" in str(caught.value)


def test_a_late_row_bridges_sessions_that_have_fired():
    windowed = Windowed(session(3000), AtWatermark(), lateness=Lateness(10_000 * MS))
    windowed.rows(("a", 5, 8500))
    assert windowed.watermark(11_501) == [("a", 8500, 11_500, 5)]
    windowed.rows(("a", 1, 11_600))
    assert windowed.watermark(14_600) == [("a", 11_600, 14_600, 1)]
    assert windowed.rows(("a", 1, 10_000), ("a", 1, 14_500)) == [("a", 8500, 14_600, 7)]
    assert windowed.watermark(20_000) == [("a", 8500, 17_500, 8)]
    assert windowed.watermark(100_000) == []
    assert windowed.late_rows == 0


# --- panes and retractions ------------------------------------------------------------------------------------


def test_early_late_and_on_time_panes_withdraw_the_one_before():
    trigger = AfterWatermark(AfterDelay(1000 * MS), EveryRows(1))
    windowed = Windowed(tumble(3000), trigger, lateness=Lateness(3000 * MS), panes=True, **CHANGES)
    windowed.rows(("b", 1, 1998), ("a", 1, 20))
    assert windowed.processing_time(999) == []
    early = [("b", 0, 3000, 1, "EARLY", 0, "+I"), ("a", 0, 3000, 1, "EARLY", 0, "+I")]
    assert windowed.processing_time(1000) == early
    windowed.rows(("b", 1, 1))
    assert windowed.watermark(2999) == [
        ("b", 0, 3000, 1, "EARLY", 0, "-U"),
        ("b", 0, 3000, 2, "ON_TIME", 1, "+U"),
    ]
    assert windowed.rows(("a", 5, 30)) == [
        ("a", 0, 3000, 1, "EARLY", 0, "-U"),
        ("a", 0, 3000, 6, "LATE", 1, "+U"),
    ]
    assert windowed.processing_time(5000) == []


def test_several_firings_of_one_batch_withdraw_each_other():
    windowed = Windowed(Global(), EveryRows(1), panes=True, time="ts", **CHANGES)
    assert windowed.rows(("a", 1, 1), ("a", 0, 1), ("a", 2, 2)) == [
        ("a", 1, 2, 1, "EARLY", 0, "+I"),
        ("a", 1, 2, 1, "EARLY", 0, "-U"),
        ("a", 1, 3, 3, "EARLY", 1, "+U"),
    ]


def test_sessions_that_merge_withdraw_their_early_results():
    windowed = Windowed(session(10), AfterWatermark(EveryRows(1)), **CHANGES)
    assert windowed.rows(("a", 1, 0), ("a", 2, 15)) == [("a", 0, 10, 1, "+I"), ("a", 15, 25, 2, "+I")]
    assert windowed.rows(("a", 4, 7)) == [
        ("a", 0, 10, 1, "-D"),
        ("a", 15, 25, 2, "-D"),
        ("a", 0, 25, 7, "+I"),
    ]


def test_a_session_that_grows_withdraws_its_early_result_with_its_old_bounds():
    windowed = Windowed(session(10), AfterWatermark(EveryRows(1)), **CHANGES)
    windowed.rows(("a", 1, 0))
    assert windowed.rows(("a", 4, 7)) == [("a", 0, 10, 1, "-U"), ("a", 0, 17, 5, "+U")]


def test_each_batch_shows_what_it_touched_once():
    windowed = Windowed(tumble(10), EachBatch(), **CHANGES)
    assert windowed.rows(("a", 1, 1), ("b", 1, 2), ("a", 1, 3)) == [("a", 0, 10, 2, "+I"), ("b", 0, 10, 1, "+I")]
    assert windowed.rows(("a", 0, 4), ("b", 5, 2)) == [("b", 0, 10, 1, "-U"), ("b", 0, 10, 6, "+U")]
    assert windowed.finish() == []


def test_discarding_panes_that_are_empty_do_not_fire():
    windowed = Windowed(tumble(10), Purging(AfterWatermark(EveryRows(2))))
    assert windowed.rows(("a", 1, 1), ("a", 1, 2)) == [("a", 0, 10, 2)]
    assert windowed.finish() == []


# --- triggers -------------------------------------------------------------------------------------------------


def test_global_windows_are_bounded_by_the_rows_they_hold():
    windowed = Windowed(Global(), Purging(EveryRows(2)), time="ts")
    assert windowed.rows(("a", 1, 30), ("a", 1, 20), ("a", 1, 5)) == [("a", 20, 31, 2)]
    assert windowed.rows(("a", 1, 4)) == [("a", 4, 6, 2)]


def test_sums_add_up_over_many_firings_of_one_batch():
    windowed = Windowed(Global(), EveryRows(3), time="ts")
    values = np.arange(1, 1001)
    actual = windowed.rows(*(("a", int(v), int(v)) for v in values))
    assert [row[3] for row in actual] == np.cumsum(values)[2::3].tolist()
    assert [row[3] for row in windowed.rows(("a", 0, 1), ("a", 7, 1))] == [int(values.sum()) + 7]


def test_a_firing_of_either_side_of_or_begins_both_anew():
    windowed = Windowed(Global(), Or(EveryRows(3), AfterDelay(50 * MS, renewed=True)), time="ts")
    windowed.rows(("a", 1, 0), ("a", 1, 0))
    assert windowed.processing_time(50) == [("a", 0, 1, 2)]
    assert windowed.rows(("a", 1, 0), ("a", 1, 0)) == []
    assert windowed.rows(("a", 1, 0)) == [("a", 0, 1, 5)]
    assert windowed.processing_time(500) == []


def test_the_first_row_only_sets_the_reference_of_delta_and_null_fires_nothing():
    windowed = Windowed(Global(), Purging(Delta("v", "v")), time="ts")
    assert windowed.rows(("a", None, 1), ("a", -5, 2), ("a", None, 3), ("a", -6, 4)) == [("a", 1, 5, -11)]


def test_when_fires_at_rows_and_keeps_its_place_among_windows():
    import pyarrow as pa

    from sqlstream.udfs.harness import KernelHarness
    from sqlstream.udfs.windows.operator import WindowKernel
    from tests.udfs.windows.window_harness import SCHEMA, SUM

    schema = SCHEMA.append(pa.field("now", pa.bool_()))
    kernel = WindowKernel(schema, ("k",), Cumulate("ts", 5 * MS, 10 * MS), When("now"), SUM)
    harness = KernelHarness(kernel, schema, ["k"])
    rows = [("b", 1, 1, None), ("a", 2, 1, True), ("b", 3, 6, True)]
    harness.rows([dict(zip(("k", "v", "ts", "now"), (k, v, t * MS, n), strict=True)) for k, v, t, n in rows])
    output = [(r["k"], r["window_end"] // MS, r["s"]) for r in harness.output()]
    assert output == [("a", 5, 2), ("a", 10, 2), ("b", 10, 4)]


def test_multiples_of_processing_time_follow_the_clock_to_the_window_s_end():
    """Flink's ContinuousProcessingTimeTrigger; a kernel is told which milliseconds have passed."""
    windowed = Windowed(Tumble(None, 10 * MS, domain=Domain.PROCESSING), EveryInterval(5 * MS, Domain.PROCESSING))
    windowed.processing_time(0)
    windowed.rows(("a", 1, 0))
    windowed.processing_time(1)
    windowed.rows(("a", 2, 0))
    assert windowed.processing_time(3) == []
    assert windowed.processing_time(4) == [("a", 0, 10, 3)]
    windowed.processing_time(6)
    windowed.rows(("a", 3, 0))
    assert windowed.processing_time(8) == [("a", 0, 10, 6)]
    assert windowed.processing_time(9) == []
    windowed.processing_time(17)
    windowed.rows(("a", 4, 0))
    assert windowed.finish() == [("a", 10, 20, 4)]


def test_multiples_of_processing_time_end_with_windows_on_event_time_too():
    windowed = Windowed(Tumble("ts", 10 * MS), EveryInterval(5 * MS, Domain.PROCESSING))
    windowed.processing_time(-1)
    windowed.rows(("a", 1, 1), ("a", 2, 3))
    assert windowed.processing_time(4) == [("a", 0, 10, 3)]
    windowed.rows(("a", 3, 8))
    assert windowed.processing_time(9) == [("a", 0, 10, 6)]
    windowed.rows(("a", 4, 12))
    assert windowed.processing_time(14) == [("a", 10, 20, 4)]


def test_windows_on_processing_time_fire_at_the_end_of_the_input():
    windowed = Windowed(Session(None, 10 * MS, domain=Domain.PROCESSING), AfterProcessingTime())
    windowed.rows(("a", 1, 0))
    windowed.processing_time(7)
    windowed.rows(("a", 2, 0))
    assert windowed.processing_time(16) == [("a", 0, 17, 3)]
    windowed.rows(("a", 3, 0))
    assert windowed.finish() == [("a", 16, 26, 3)]


def test_counts_of_sessions_add_up_when_they_merge():
    windowed = Windowed(session(10), EveryRows(3))
    assert windowed.rows(("a", 1, 0), ("a", 1, 15), ("a", 1, 40)) == []
    assert windowed.rows(("a", 1, 8), ("a", 1, 41)) == [("a", 0, 25, 3)]


def test_a_trigger_sees_sessions_as_they_were_when_its_rows_came():
    windowed = Windowed(session(10), Purging(EveryRows(2)))
    actual = windowed.rows(("a", 1, 0), ("a", 2, 5), ("a", 4, 30), ("a", 8, 12), ("a", 16, 21), ("a", 32, 33))
    assert actual == [("a", 0, 15, 3), ("a", 0, 40, 28)]


def test_global_windows_fire_at_the_end_of_the_input():
    windowed = Windowed(Global(), AtWatermark(), time="ts")
    windowed.rows(("a", 1, 3), ("b", 2, 4), ("a", 4, 5))
    assert windowed.watermark(10**9) == []
    assert windowed.finish() == [("a", 3, 6, 5), ("b", 4, 5, 2)]


# --- evictors and rows ----------------------------------------------------------------------------------------


def test_rows_that_were_evicted_are_gone():
    windowed = Windowed(Global(), EveryRows(2), evictor=KeepRows(3), time="ts")
    assert windowed.rows(*(("a", 1, t) for t in range(4))) == [("a", 0, 2, 2), ("a", 1, 4, 3)]
    assert windowed.rows(("a", 1, 9), ("a", 1, 8)) == [("a", 3, 10, 3)]


def test_evicting_after_the_function_shows_it_all_rows():
    windowed = Windowed(Global(), EveryRows(2), evictor=KeepRows(1, evicts_after=True), time="ts")
    assert windowed.rows(*(("a", 1, t) for t in range(4))) == [("a", 0, 2, 2), ("a", 1, 4, 3)]
    assert windowed.rows(("b", 1, 9), ("a", 1, 8), ("a", 1, 8)) == [("a", 3, 9, 3)]


def test_rows_as_old_as_the_interval_leave_wherever_they_stand():
    windowed = Windowed(Global(), EveryRows(4), evictor=KeepInterval(10 * MS, "ts"), time="ts")
    assert windowed.rows(("a", 1, 10), ("a", 2, 20), ("a", 4, 11), ("a", 8, 5)) == [("a", 11, 21, 6)]


def test_delta_evicts_by_the_last_row():
    windowed = Windowed(Global(), EveryRows(2), evictor=EvictDelta("v", "v", evicts_after=True), time="ts")
    # 4 - 2 >= 2: the row of 2 leaves; 4 - 4 < 4 stays.
    assert windowed.rows(("a", 2, 1), ("a", 4, 2)) == [("a", 1, 3, 6)]
    assert windowed.rows(("a", 1, 3), ("a", 1, 4)) == [("a", 2, 5, 6)]


def test_windows_that_are_evicted_to_nothing_do_not_fire():
    windowed = Windowed(tumble(10), EveryRows(1), evictor=EvictDelta("v", "v"))
    assert windowed.rows(("a", 0, 1)) == []
    assert windowed.rows(("a", 1, 2)) == [("a", 0, 10, 1)]


def test_rows_of_a_window_come_out_as_they_are():
    windowed = Windowed(session(10), Purging(EveryRows(2)), AllRows(("v", "ts")))
    windowed.rows(("a", 1, 0), ("b", 9, 0))
    assert windowed.rows(("a", 2, 15), ("a", 3, 9), ("b", 8, 1)) == [
        ("a", 0, 25, 1, 0),
        ("a", 0, 25, 2, 15),
        ("a", 0, 25, 3, 9),
        ("b", 0, 11, 9, 0),
        ("b", 0, 11, 8, 1),
    ]
    assert windowed.finish() == []


def test_what_is_over_leaves_nothing_behind():
    for options in ({}, {"evictor": KeepRows(2)}, {"lateness": Lateness(5 * MS)}):
        windowed = Windowed(session(10), AfterWatermark(EveryRows(2)), **options)
        windowed.rows(("a", 1, 0), ("b", 1, 15), ("a", 1, 40), ("a", 1, 8), ("b", 1, 41))
        windowed.watermark(1000)
        assert [store.entries for store in windowed.harness.stores] == [{}], options


@pytest.mark.parametrize("batches", [[(1, 2)], [(1,), (2,)]])
def test_multiples_behind_the_watermark_fire_when_it_advances_as_in_flink(batches):
    """The multiples of 3 up to the watermark, once each, as Flink's timers do that are registered behind it."""
    every = EveryInterval(3 * MS, Domain.EVENT, "ts")
    for trigger, expected in ((every, [3] * 5), (Purging(every), [3])):
        operator = Windowed(Tumble("ts", 20 * MS), trigger)
        operator.watermark(15)
        assert [operator.rows(*(("a", v, 1) for v in batch)) for batch in batches] == [[] for _ in batches]
        assert [total for *_, total in operator.watermark(16)] == expected
        assert operator.watermark(17) == []
        assert len(operator.watermark(18)) == (trigger is every)


def test_a_timer_of_a_class_behind_the_watermark_fires_when_it_advances():
    class Past:
        def on_element(self, row, time, window, ctx):
            ctx.register_event_time_timer(time)
            return TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            return TriggerResult.FIRE

    operator = Windowed(Tumble("ts", 20 * MS), User("past", Past, (), ("v",), "ts"))
    operator.harness = KernelHarness(operator.harness.kernel, SCHEMA, ["k"])
    operator.watermark(15)
    assert operator.rows(("a", 1, 1)) == []
    assert operator.watermark(16) == [("a", 0, 20, 1)]
