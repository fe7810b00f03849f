"""Count windows over slices, against loops over rows."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import END_OF_TIME, Domain
from sqlstream.udfs.windows.counted import CountWindows
from sqlstream.udfs.windows.ranges import AllRows

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
SUM = Aggregates(
    (AggregateCall("n", "count", (), pa.int64()), AggregateCall("total", "sum", ("v",), pa.int64())), SCHEMA
)


def harness(size, slide, function=SUM, keys=("k",), time="ts", full_only=False, **options):
    return KernelHarness(CountWindows(SCHEMA, keys, time, size, slide, function, full_only), SCHEMA, keys, **options)


def row(key, value, time=0):
    return {"k": key, "ts": time, "v": value}


def totals(output):
    return [(r["k"], r["n"], r["total"]) for r in output]


# --- facts ----------------------------------------------------------------------------------------------------


def test_a_tumbling_window_fires_with_the_row_that_fills_it():
    h = harness(3, 3)
    h.rows([row("a", 1), row("b", 10), row("a", 2)])
    assert h.output() == []
    h.rows([row("b", 20), row("b", 30), row("a", 3), row("a", 4)])
    assert totals(h.output()) == [("b", 3, 60), ("a", 3, 6)]
    h.finish()
    assert h.output() == []
    assert h.next_timer(Domain.EVENT) == END_OF_TIME


def test_a_key_whose_windows_are_all_full_leaves_nothing_behind():
    h = harness(2, 2)
    h.rows([row("a", 1), row(None, 2), row("a", 3), row(None, 4)])
    assert totals(h.output()) == [("a", 2, 4), (None, 2, 6)]
    assert h.stores[0].size == 0


def test_a_sliding_window_first_fires_after_slide_rows():
    h = harness(5, 2)
    h.rows([row("a", value) for value in range(8)])
    assert totals(h.output()) == [("a", 2, 1), ("a", 4, 6), ("a", 5, 15), ("a", 5, 25)]


def test_a_full_only_window_first_fires_after_size_rows():
    h = harness(5, 3, full_only=True)
    h.rows([row("a", value) for value in range(12)])
    assert totals(h.output()) == [("a", 5, 10), ("a", 5, 25), ("a", 5, 40)]


@pytest.mark.parametrize(("full_only", "sums"), [(False, [1 + 2, 4 + 5]), (True, [0 + 1, 3 + 4, 6 + 7])])
def test_a_slide_above_the_size_leaves_rows_out(full_only, sums):
    h = harness(2, 3, full_only=full_only, restarts=True)
    for value in range(8):
        h.rows([row("a", value)])
    assert [r["total"] for r in h.output()] == sums


def test_bounds_are_the_oldest_row_and_a_millisecond_after_the_newest():
    h = harness(3, 3)
    h.rows([row("a", 1, 5_000_000), row("a", 1, 2_000_000), row("a", 1, 3_000_000)])
    (output,) = h.output()
    assert (output["window_start"], output["window_end"]) == (2_000_000, 5_001_000)


def test_without_a_time_bounds_are_the_times_at_which_the_rows_came():
    h = harness(2, 2, time=None, processing_time=7_000_000)
    h.rows([row("a", 1)])
    h.processing_time(9_000_000)
    h.rows([row("a", 1)])
    (output,) = h.output()
    assert (output["window_start"], output["window_end"]) == (7_000_000, 9_001_000)


def test_without_keys_all_rows_count_together():
    h = harness(4, 2, keys=())
    h.rows([row("a", 1), row("b", 2), row("c", 3), row("a", 4)])
    assert [(r["n"], r["total"]) for r in h.output()] == [(2, 3), (4, 10)]


def test_rows_themselves_come_out_in_order_of_arrival():
    h = harness(3, 2, AllRows(("v", "k")), restarts=True)
    for value in range(4):
        h.rows([row("a", value, value * 1_000), row("b", -value)])
    assert h.kernel.output.names == ["window_start", "window_end", "v", "k"]
    assert [(r["k"], r["v"]) for r in h.output()] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", -1), ("a", 1), ("a", 2), ("a", 3), ("b", -1), ("b", -2), ("b", -3)
    ]  # fmt: skip


def test_keys_come_out_beside_rows_that_do_not_have_them():
    h = harness(2, 2, AllRows(("v",)))
    h.rows([row("a", 1), row("b", 2), row("a", 3)])
    assert [(r["k"], r["v"], r["window_end"]) for r in h.output()] == [("a", 1, 1_000), ("a", 3, 1_000)]


def test_a_kernel_pickles():
    kernel = CountWindows(SCHEMA, ("k",), "ts", 6, 4, SUM)
    assert pickle.loads(pickle.dumps(kernel)) == kernel


def test_a_batch_reads_and_writes_the_buckets_of_its_keys(monkeypatch):
    monkeypatch.setattr("sqlstream.udfs.state.keyed.LARGER", 1)
    h = harness(4, 2)
    h.rows([row(f"k{i}", i) for i in range(20_000)])
    before = h.traffic.bytes_read + h.traffic.bytes_written
    h.rows([row("k7", 1)])
    assert h.traffic.bytes_read + h.traffic.bytes_written - before < 150_000
    assert totals(h.output()) == [("k7", 2, 8)]


# --- properties -----------------------------------------------------------------------------------------------


class Loop:
    """The last rows of each key, row by row."""

    def __init__(self, size, slide, full_only):
        self.size, self.slide, self.full_only, self.seen = size, slide, full_only, {}

    def row(self, row):
        rows = self.seen.setdefault(row["k"], [])
        rows.append(row)
        beyond = len(rows) - (self.size if self.full_only else self.slide)
        return [rows[-self.size :]] if beyond >= 0 and beyond % self.slide == 0 else []


rows = st.builds(row, st.sampled_from(["a", "b", "c", None]), st.integers(-9, 9), st.integers(-5000, 5000))


@settings(max_examples=150)
@given(
    st.integers(1, 12), st.integers(1, 12), st.booleans(), st.lists(st.lists(rows, max_size=25), max_size=6),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_what_comes_out_is_what_loops_over_rows_find(size, slide, full_only, batches, restarts, whole):
    function = AllRows(("k", "v", "ts")) if whole else SUM
    h, loop = harness(size, slide, function, full_only=full_only, restarts=restarts), Loop(size, slide, full_only)
    for batch in batches:
        h.rows(batch)
        windows = [window for each in batch for window in loop.row(each)]
        expected = [
            (min(r["ts"] for r in window), max(r["ts"] for r in window) + 1_000, shown)
            for window in windows
            for shown in ([(r["k"], r["v"], r["ts"]) for r in window] if whole else [_sum(window)])
        ]
        names = ("k", "v", "ts") if whole else ("k", "n", "total")
        assert [(r["window_start"], r["window_end"], tuple(r[n] for n in names)) for r in h.output()] == expected


def _sum(window):
    return window[0]["k"], len(window), sum(r["v"] for r in window)


@pytest.mark.parametrize(("size", "slide"), [(100, 1), (100, 10), (64, 48), (257, 3)])
def test_long_windows_are_put_together_from_stretches_of_slices(size, slide):
    random = np.random.default_rng(size)
    h, loop = harness(size, slide, groups=2), Loop(size, slide, False)
    for count in (50, 3000, 400, 1):
        batch = [row(f"k{random.integers(0, 5)}", int(random.integers(-99, 99))) for _ in range(count)]
        h.rows(batch)
        expected = [_sum(window) for each in batch for window in loop.row(each)]
        assert sorted(totals(h.output())) == sorted(expected)


def test_many_keys_keep_their_counts_through_splits_and_restarts():
    h, loop = harness(3, 2, groups=3, restarts=True), Loop(3, 2, False)
    random = np.random.default_rng(3)
    for _ in range(5):
        batch = [row(f"k{key}", int(key)) for key in random.integers(0, 4000, 4000)]
        h.rows(batch)
        expected = [_sum(window) for each in batch for window in loop.row(each)]
        assert sorted(totals(h.output())) == sorted(expected)
