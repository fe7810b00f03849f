"""TRIGGER ON BARRIER: windows fire where barriers stand among the rows."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.assigners import Global, Session, Tumble
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import BARRIER, Domain
from sqlstream.udfs.triggers import AfterWatermark, And, EveryRows, OnBarrier, Or, Purging, Then
from sqlstream.udfs.triggers.user import TriggerResult, User
from sqlstream.udfs.windows.operator import WindowKernel
from tests.udfs.windows.window_harness import MS, SCHEMA, SUM

ROWS = SCHEMA.append(pa.field(BARRIER, pa.int64()))
TUMBLE = Tumble("ts", 1000 * MS)
BAR = None


class Fired:
    """Rows are (k, v, ts), BAR is a barrier. Restarts before each micro-batch."""

    def __init__(self, assigner, trigger, *, restarts=True, **options):
        kernel = WindowKernel(SCHEMA, ("k",), assigner, trigger, SUM, **options)
        self.columns = ("__row_kind", "k", "s") if kernel.row_kinds else ("k", "s")
        self.harness = KernelHarness(kernel, ROWS, ["k"], restarts=restarts)

    def rows(self, *items):
        nothing = {"k": None, "v": None, "ts": None, BARRIER: 1}
        self.harness.rows([
            nothing if item is BAR else {"k": item[0], "v": item[1], "ts": item[2] * MS, BARRIER: None}
            for item in items
        ])  # fmt: skip
        return self.output()

    def watermark(self, time):
        self.harness.watermark(time * MS)
        return self.output()

    def output(self):
        return [tuple(row[name] for name in self.columns) for row in self.harness.output()]


def test_a_barrier_fires_the_windows_of_all_keys_with_the_rows_before_it():
    fired = Fired(TUMBLE, OnBarrier())
    assert fired.rows(("a", 1, 0), ("b", 2, 0), BAR, ("a", 4, 0)) == [("a", 1), ("b", 2)]
    assert fired.rows(BAR, BAR) == [("a", 5), ("b", 2)] * 2
    assert fired.rows(("c", 8, 1500), BAR) == [("a", 5), ("b", 2), ("c", 8)]


def test_the_end_of_a_window_fires_nothing_and_ends_it():
    fired = Fired(TUMBLE, OnBarrier())
    assert fired.rows(("a", 1, 0)) == []
    assert fired.watermark(999) == []
    assert fired.rows(BAR) == []


def test_purged_windows_fire_when_they_have_rows_again():
    fired = Fired(Global(), Purging(OnBarrier()), time="ts")
    assert fired.rows(("a", 1, 0), ("b", 2, 0), BAR, ("a", 4, 0), BAR, BAR) == [("a", 1), ("b", 2), ("a", 4)]


def test_a_result_that_has_not_changed_is_not_withdrawn():
    fired = Fired(TUMBLE, OnBarrier(), retracting=True, row_kinds=True)
    assert fired.rows(("a", 1, 0), BAR, BAR, ("a", 2, 0), BAR) == [("+I", "a", 1), ("-U", "a", 1), ("+U", "a", 3)]


def test_sessions_merge_between_barriers():
    fired = Fired(Session("ts", 100 * MS), OnBarrier())
    assert fired.rows(("a", 1, 0), ("a", 2, 150), BAR, ("a", 4, 80), BAR) == [("a", 1), ("a", 2), ("a", 7)]


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (Or(OnBarrier(), EveryRows(2)), [1, 6, 14]),  # a firing begins all counts anew
        (And(OnBarrier(), EveryRows(2)), [3, 14]),  # the second row completes both; then two rows and the barrier
        (Then(OnBarrier(), EveryRows(2)), [1, 6]),
        (AfterWatermark(), []),
    ],
)
def test_barriers_and_other_triggers(trigger, expected):
    items = [("a", 1, 0), BAR, ("a", 2, 0), ("a", 3, 0), ("a", 8, 0), BAR]
    assert [s for _, s in Fired(TUMBLE, trigger).rows(*items)] == expected


class Twice:
    def on_element(self, row, time, window, ctx):
        ctx.register_event_time_timer(0)
        return TriggerResult.CONTINUE


def test_triggers_of_users_do_not_see_barriers():
    trigger = Or(User("twice", Twice, (), (), "ts"), OnBarrier())
    assert Fired(TUMBLE, trigger).rows(("a", 1, 0), BAR) == [("a", 1)]


ITEMS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.sampled_from([0, 1500])) | st.none(), max_size=12
)


@settings(max_examples=60)
@given(st.lists(ITEMS, max_size=4), st.booleans())
def test_any_rows_and_barriers_are_those_of_a_model(batches, purges):
    fired = Fired(TUMBLE, Purging(OnBarrier()) if purges else OnBarrier(), restarts=False)
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for batch in batches:
        expected = []
        for item in batch:
            if item is BAR:
                expected += sorted((k, s) for (k, _), s in sums.items())
                sums = defaultdict(int) if purges else sums
            else:
                sums[item[0], item[2] // 1000] += item[1]
        assert sorted(fired.rows(*batch)) == sorted(expected)
        assert fired.harness.next_timer(Domain.PROCESSING) == 2**63 - 1
