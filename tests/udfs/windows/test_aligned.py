"""TUMBLE, HOP and CUMULATE over panes, against loops over rows and windows."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import ExecutionError
from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Cumulate, Hop, Tumble
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, NO_WATERMARK, Domain
from sqlstream.udfs.windows.aligned import AlignedWindows

SECOND = 1_000_000
SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
AGGREGATES = Aggregates(
    (AggregateCall("total", "sum", ("v",), pa.int64()), AggregateCall("most", "max", ("v",), pa.int64())), SCHEMA
)
COUNT = Aggregates((AggregateCall("n", "count", (), pa.int64()),), SCHEMA)


def harness(assigner, aggregates=AGGREGATES, keys=("k",), groups=1, restarts=False, arrow_rows=10_000, **options):
    kernel = AlignedWindows(keys, assigner, aggregates, **options)
    return KernelHarness(kernel, SCHEMA, keys, groups=groups, restarts=restarts, arrow_rows=arrow_rows)


def row(key, seconds, value=1):
    return {"k": key, "ts": round(seconds * SECOND), "v": value}


def counts(output):
    """(key, start, end, count) in seconds, in order."""
    return [(r["k"], r["window_start"] / SECOND, r["window_end"] / SECOND, r["n"]) for r in output]


# --- facts ----------------------------------------------------------------------------------------------------


def test_a_window_closes_one_millisecond_before_its_end():
    h = harness(Tumble("ts", 10 * SECOND), COUNT)
    h.rows([row("a", 1), row("a", 9.999)])
    assert h.next_timer(Domain.EVENT) == 9_999_000
    h.watermark(9_998_999)
    assert h.output() == []
    h.watermark(9_999_000)
    assert counts(h.output()) == [("a", 0, 10, 2)]
    assert h.next_timer(Domain.EVENT) == END_OF_TIME
    assert h.stores[0].size == 0


def test_windows_fire_in_order_of_their_ends_and_keys_by_first_appearance():
    h = harness(Tumble("ts", 10 * SECOND), COUNT)
    h.rows([row("b", 25), row("b", 5), row("a", 2), row(None, 21), row("a", -3)])
    h.rows([row("c", 1), row("b", 2)])
    h.finish()
    assert counts(h.output()) == [
        ("a", -10, 0, 1), ("b", 0, 10, 2), ("a", 0, 10, 1), ("c", 0, 10, 1), ("b", 20, 30, 1), (None, 20, 30, 1)
    ]  # fmt: skip


def test_a_late_row_of_a_hop_counts_in_those_of_its_windows_that_are_open():
    h = harness(Hop("ts", 5 * SECOND, 10 * SECOND), COUNT)
    h.watermark(12 * SECOND)
    h.rows([row("a", 3), row("a", 8), row("a", 11)])
    assert h.counters["late_rows"] == 1
    h.watermark(19_999_000)
    assert counts(h.output()) == [("a", 5, 15, 2), ("a", 10, 20, 1)]


def test_late_rows_are_counted_exactly_although_they_were_combined():
    h = harness(Tumble("ts", 10 * SECOND), COUNT)
    h.watermark(10 * SECOND)
    h.rows([row("a", 1)] * 7 + [row("b", 2), row("b", 12)])
    assert h.counters["late_rows"] == 8


def test_late_rows_go_out_once_with_the_bounds_of_their_last_window():
    h = harness(Hop("ts", 5 * SECOND, 10 * SECOND), COUNT, late_columns=("v", "k"))
    h.watermark(20 * SECOND)
    h.rows([row("a", 3, 7), row("b", 14, 8), row("a", 12, 9)])
    assert h.late() == [
        {"v": 7, "k": "a", "window_start": 0, "window_end": 10 * SECOND},
        {"v": 8, "k": "b", "window_start": 10 * SECOND, "window_end": 20 * SECOND},
        {"v": 9, "k": "a", "window_start": 10 * SECOND, "window_end": 20 * SECOND},
    ]  # fmt: skip
    assert h.counters["late_rows"] == 3


def test_a_late_row_is_an_error_where_late_rows_fail():
    h = harness(Tumble("ts", 10 * SECOND), COUNT, fails_on_late=True)
    h.watermark(10 * SECOND)
    h.rows([row("a", 12)])
    with pytest.raises(ExecutionError, match="SS406"):
        h.rows([row("a", 9)])


def test_a_hop_whose_size_is_no_multiple_of_the_slide_shares_uneven_panes():
    h = harness(Hop("ts", 3 * SECOND, 5 * SECOND), COUNT)
    h.rows([row("a", s) for s in range(7)])
    h.finish()
    assert counts(h.output()) == [("a", -3, 2, 2), ("a", 0, 5, 5), ("a", 3, 8, 4), ("a", 6, 11, 1)]


def test_windows_without_keys_and_without_aggregates_come_out():
    h = harness(Tumble("ts", 10 * SECOND), Aggregates((), SCHEMA), keys=())
    h.rows([row("a", 1), row("b", 2), row("a", 31)])
    h.finish()
    assert h.output() == [
        {"window_start": 0, "window_end": 10 * SECOND}, {"window_start": 30 * SECOND, "window_end": 40 * SECOND}
    ]  # fmt: skip


def test_a_jump_of_the_watermark_over_empty_windows_costs_nothing():
    h = harness(Hop("ts", 1_000, 10_000), COUNT)
    h.rows([row("a", 0), row("a", 10**9)])
    h.finish()
    assert len(h.output()) == 20


def test_processing_time_windows_hold_the_rows_of_their_batches():
    h = harness(Tumble(None, 10 * SECOND, domain=Domain.PROCESSING), COUNT)
    h.rows([row("a", 99), row("b", 99)])
    h.processing_time(9 * SECOND)
    h.rows([row("a", 99)])
    h.processing_time(10 * SECOND)
    h.rows([row("a", 99)])
    assert counts(h.output()) == [("a", 0, 10, 2), ("b", 0, 10, 1)]
    h.finish()
    assert counts(h.output()) == [("a", 10, 20, 1)]


def test_a_row_at_the_closing_of_a_processing_time_window_counts_in_the_next_one():
    h = harness(Hop(None, 5 * SECOND, 10 * SECOND, domain=Domain.PROCESSING), COUNT)
    h.processing_time(9_999_000)
    h.rows([row("a", 99)])
    h.processing_time(20 * SECOND)
    assert counts(h.output()) == [("a", 5, 15, 1), ("a", 10, 20, 1)]


def test_days_of_a_time_zone_close_at_its_midnights():
    day = 86_400 * SECOND
    h = harness(Tumble("ts", day, zone="Europe/Berlin"), COUNT)
    # 2024-03-31, the day of 23 hours, begins at 23:00 UTC.
    start = 1_711_839_600
    h.rows([row("a", start), row("a", start - 1), row("a", start + 23 * 3600 - 1), row("a", start + 23 * 3600)])
    assert h.next_timer(Domain.EVENT) == start * SECOND - 1_000
    h.finish()
    bounds = [(start - 86_400, start), (start, start + 23 * 3600), (start + 23 * 3600, start + 47 * 3600)]
    assert counts(h.output()) == [("a", *bounds[0], 1), ("a", *bounds[1], 2), ("a", *bounds[2], 1)]


def test_panes_that_are_appended_to_for_long_stay_small():
    h = harness(Hop("ts", 500 * SECOND, 1_000 * SECOND), COUNT)
    for second in range(1000):
        h.rows([row("a", second), row("b", second)])
    assert h.stores[0].size < 40_000
    h.finish()
    assert [r["n"] for r in h.output()] == [500, 500, 1000, 1000, 500, 500]


def test_the_panes_behind_a_cumulate_become_one():
    h = harness(Cumulate("ts", SECOND, 100 * SECOND), COUNT)
    for second in range(50):
        h.rows([row("a", second)])
        h.watermark((second + 1) * SECOND)
    assert len(h.stores[0].entries) == 2
    assert [r["n"] for r in h.output()] == list(range(1, 51))


@pytest.mark.parametrize("key_count", [1, 3_000, 1_000_000_000])
def test_keys_that_hardly_repeat_are_counted_as_well_as_others(key_count):
    random = np.random.default_rng(key_count)
    keys, times = random.integers(0, key_count, 40_000), random.integers(0, 4, 40_000)
    table = pa.table({"k": keys.astype(str), "ts": times * SECOND, "v": times}, SCHEMA)
    for by in (("k",), ()):
        h = harness(Hop("ts", SECOND, 2 * SECOND), COUNT, by, groups=4 if by else 1, arrow_rows=40_000)
        h.rows(table)
        h.watermark(2 * SECOND)
        first = int((times == 0).sum())
        assert sum(r["n"] for r in h.output()) == first + int((times < 2).sum())
        cells = len({*zip(keys.tolist(), times.tolist(), strict=True)})
        assert (len(h.kernel.combine(_with_hash(table))) == 40_000) == (by == ("k",) and cells > 35_000)


def _with_hash(table):
    return table.append_column(KEY_HASH, pa.array(np.zeros(table.num_rows, np.int64)))


def test_an_hour_that_the_clock_shows_twice_is_one_window():
    hour = 3600 * SECOND
    h = harness(Tumble("ts", hour, zone="America/New_York"), COUNT)
    # 2024-11-03: 01:00 comes at 05:00 UTC and again at 06:00 UTC.
    one = 1_730_610_000
    h.rows([row("a", one), row("a", one + 3600), row("a", one + 7200)])
    h.watermark((one + 3600) * SECOND)
    assert h.output() == []
    h.watermark((one + 7200) * SECOND)
    assert counts(h.output()) == [("a", one, one + 7200, 2)]


def test_windows_of_a_cumulate_that_end_in_a_skipped_hour_come_out_once():
    # 2024-03-10: New York's clock goes from 02:00 to 03:00 at 07:00 UTC. Windows begin at 01:45 and grow by 15 min.
    skip, quarter = 1_710_054_000, 900
    assigner = Cumulate("ts", quarter * SECOND, 6 * quarter * SECOND, quarter * SECOND, "America/New_York")
    h, loop = harness(assigner), Loop(assigner)
    rows = [row("a", skip - quarter, 5), row("a", skip, 7)]
    h.rows(rows)
    loop.rows(rows)
    h.finish()
    expected = [(skip, skip - quarter, "a", 5, 5), (skip + quarter, skip - quarter, "a", 12, 7)]
    ordered = in_order(h.output())
    assert [(end // SECOND, start // SECOND, *values) for end, start, *values in ordered] == expected
    assert ordered == loop.advance(END_OF_TIME)


def test_a_kernel_pickles():
    kernel = AlignedWindows(("k",), Hop("ts", 5, 10), AGGREGATES)
    assert pickle.loads(pickle.dumps(kernel)) == kernel


# --- properties -----------------------------------------------------------------------------------------------

UNIT = 500_000

CLOCK_CHANGES = (0, 1_710_054_000 * SECOND, 1_730_613_600 * SECOND)
"""Where no clock changes, where New York's skips an hour, where it repeats one."""


@st.composite
def assigners(draw, unit=UNIT):
    slide, times = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    size = slide + draw(st.integers(0, 15))
    offset = draw(st.integers(-9, 9)) * unit
    zone = draw(st.sampled_from([None, None, "UTC", "America/New_York"]))
    kind = draw(st.sampled_from(["tumble", "hop", "cumulate"]))
    if kind == "tumble":
        return Tumble("ts", size * unit, offset, zone)
    if kind == "hop":
        return Hop("ts", slide * unit, size * unit, offset, zone)
    return Cumulate("ts", slide * unit, slide * times * unit, offset, zone)


rows = st.builds(
    lambda k, t, v: {"k": k, "ts": t * UNIT // 2, "v": v},
    st.sampled_from(["a", "b", "c", None]), st.integers(-30, 60), st.one_of(st.none(), st.integers(-9, 9))
)  # fmt: skip
steps = st.lists(st.one_of(st.lists(rows, max_size=12), st.integers(-30, 70).map(lambda t: t * UNIT // 2)), max_size=8)


def moved(step, base, unit):
    """A step around another time, with other units."""
    if isinstance(step, list):
        return [{**row, "ts": base + row["ts"] // UNIT * unit} for row in step]
    return base + step // UNIT * unit


class Loop:
    """Windows row by row: a dict of lists."""

    def __init__(self, assigner):
        self.assigner, self.watermark, self.windows, self.late = assigner, NO_WATERMARK, {}, 0

    def rows(self, rows):
        table = pa.Table.from_pylist(rows, SCHEMA)
        assigned = self.assigner.assign(table, None)
        taken = set()
        for index, start, end in zip(*(side.tolist() for side in assigned), strict=True):
            if end - 1_000 > self.watermark:
                taken.add(index)
                self.windows.setdefault((end, start), {}).setdefault(rows[index]["k"], []).append(rows[index]["v"])
        self.late += len(rows) - len(taken)

    def advance(self, watermark):
        self.watermark = max(self.watermark, watermark)
        collected = []
        for end, start in sorted(w for w in self.windows if w[0] - 1_000 <= self.watermark):
            for key, values in self.windows.pop((end, start)).items():
                known = [v for v in values if v is not None]
                collected.append((end, start, str(key), sum(known) if known else None, max(known, default=None)))
        return collected


def in_order(output):
    return [(r["window_end"], r["window_start"], str(r["k"]), r["total"], r["most"]) for r in output]


@settings(max_examples=150)
@given(assigners(), steps, st.sampled_from([1, 3]), st.booleans(), st.sampled_from([2, 5, 1000]), st.booleans())
def test_what_comes_out_is_what_loops_over_rows_and_windows_find(assigner, steps, groups, restarts, arrow_rows, sends):
    late_columns = ("v",) if sends else None
    h = harness(assigner, groups=groups, restarts=restarts, arrow_rows=arrow_rows, late_columns=late_columns)
    loop = Loop(assigner)
    for step in [*steps, END_OF_TIME]:
        if isinstance(step, list):
            h.rows(step)
            loop.rows(step)
            assert h.counters["late_rows"] == loop.late
            assert len(h.late()) == 0 or sends
        else:
            expected = loop.advance(step)
            h.watermark(loop.watermark)
            ordered = in_order(h.output())
            assert sorted(ordered, key=str) == sorted(expected, key=str)
            if groups == 1:
                assert [f[0] for f in ordered] == sorted(f[0] for f in ordered)
            if groups == 1 and isinstance(assigner, Tumble):
                assert ordered == expected
    assert all(store.size == 0 for store in h.stores)


@settings(max_examples=100)
@given(assigners(900 * SECOND), st.sampled_from(CLOCK_CHANGES), steps)
def test_windows_close_as_loops_find_where_clocks_change(assigner, base, steps):
    h, loop = harness(assigner, groups=2), Loop(assigner)
    for step in [*(moved(step, base, 900 * SECOND) for step in steps), END_OF_TIME]:
        if isinstance(step, list):
            h.rows(step)
            loop.rows(step)
            assert h.counters["late_rows"] == loop.late
        else:
            expected = loop.advance(step)
            h.watermark(loop.watermark)
            assert sorted(in_order(h.output()), key=str) == sorted(expected, key=str)


@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(20, 400), st.lists(rows, min_size=1, max_size=40))
def test_long_windows_are_put_together_from_stretches_of_panes(slide, size, rows):
    for assigner in [Hop("ts", slide * UNIT, size * UNIT), Cumulate("ts", slide * UNIT, slide * size * UNIT)]:
        h, loop = harness(assigner), Loop(assigner)
        h.rows(rows)
        loop.rows(rows)
        h.watermark(END_OF_TIME)
        expected = loop.advance(END_OF_TIME)
        assert sorted(in_order(h.output()), key=str) == sorted(expected, key=str)


def test_random_restarts_change_nothing():
    random = np.random.default_rng(7)
    table = pa.table({
        "k": random.choice(list("abcdefgh"), 3000), "ts": np.arange(3000) * 10_000 + random.integers(0, 900_000, 3000),
        "v": random.integers(-5, 5, 3000),
    }, SCHEMA)  # fmt: skip
    outputs = []
    for restarts in (False, True):
        h = harness(Hop("ts", SECOND, 5 * SECOND), groups=2, restarts=restarts)
        for start in range(0, 3000, 100):
            h.batch(table.slice(start, 100), watermark=max(start * 10_000 - 500_000, 0))
        h.finish()
        outputs.append(h.output())
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 200
