"""One call of a kernel: rows and clocks reach it in their order, and Spark's timer is where the next call is due."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from sqlstream.udfs.driver import unfolded
from sqlstream.udfs.exchange import Blob, Content, to_bytes
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, NO_WATERMARK, MemoryStore
from sqlstream.udfs.spark import Watermark
from sqlstream.udfs.spark.call import AFTER_THE_END, Arrived, Clocks, GroupEntry, held_above, run
from tests.udfs.spark.keeper import Keeper
from tests.udfs.spark.recorder import Recorder

SHIFT, END = 1_000_000, 5_000_000
SECOND = 1_000_000


def rows(*values, event_timer=None, processing_timer=None, content=Content.ROWS, clock=None):
    timers = [pa.array([t] * len(values), pa.int64()) for t in (event_timer, processing_timer)]
    columns = [pa.array([0] * len(values), pa.int64()), pa.array(values, pa.int32()), *timers]
    table = pa.table(columns, [KEY_HASH, "v", "event_timer", "processing_timer"])
    return Blob(0, 0, 0, content, clock, None, to_bytes(table))


def reached(time):
    return Blob(0, 0, 0, Content.REACHED, time)


def tick(time):
    return Blob(0, 0, 0, Content.TICK, time)


class Group:
    """A key group over several micro-batches."""

    def __init__(self, watermark=Watermark.EVENT_TIME, **options):
        self.clocks = Clocks(watermark, SHIFT, END, **options)
        self.store = MemoryStore()
        self.entry = GroupEntry()
        self.watermark = 0

    def batch(self, *blobs, watermark=None):
        """What comes out, ahead and not: calls with both clocks in milliseconds."""
        if watermark is not None:
            self.watermark = watermark + SHIFT
        arrived = Arrived.of_blobs(self.watermark, blobs)
        context, self.entry = run(Recorder(), self.clocks, self.store, self.entry, arrived)
        self.entry = GroupEntry.from_bytes(self.entry.to_bytes())
        collected: dict[bool, list[tuple[object, ...]]] = {True: [], False: []}
        for ahead, tables in context.emitted.items():
            collected[ahead] = [tuple(r.values())[:3] for t in unfolded(Recorder(), tables) for r in t.to_pylist()]
        return collected[True], collected[False]

    def spark_timer(self):
        actual = self.clocks.spark_timer(self.entry.event_timer, self.entry.processing_timer, self.entry.watermark)
        return None if actual is None else actual - SHIFT


def test_event_time_comes_before_the_rows_of_the_batch_and_after_rows_sent_ahead():
    group = Group()
    assert group.batch(rows(1, event_timer=2 * SECOND)) == ([], [("rows 1", None, None)])
    assert group.batch(rows(2), rows(3, content=Content.AHEAD), watermark=2000) == (
        [("rows 3", None, None), ("event time", 2000, None)],
        [("rows 2", 2000, None)],
    )
    assert group.batch(rows(4, content=Content.AHEAD), watermark=2500)[0] == [("rows 4", 2000, None)]


def test_the_watermark_that_follows_from_the_rows_passes_behind_them_where_blobs_tell_it():
    group = Group(delay_ms=500)
    at_2_s = rows(1, event_timer=2 * SECOND)
    assert group.batch(at_2_s, reached(1 * SECOND), reached(2 * SECOND)) == ([], [("rows 1", None, None)])
    assert group.batch(reached(2 * SECOND + 499_999), watermark=1500) == ([], [])
    assert group.batch(rows(2), reached(2 * SECOND + 500_000), watermark=1999) == (
        [],
        [("rows 2", 1999, None), ("event time", 2000, None)],
    )
    assert group.spark_timer() is None
    # Spark's watermark of the next micro-batch is the same, and fires nothing again.
    assert group.batch(rows(3), watermark=2000) == ([], [("rows 3", 2000, None)])


def test_a_watermark_that_rows_reach_is_held_back_as_that_of_spark():
    group = Group(held_back_ms=1000)
    group.batch(rows(1, event_timer=2 * SECOND), reached(3 * SECOND - 1))
    assert group.entry.watermark == 2 * SECOND - 1000
    assert group.batch(reached(3 * SECOND), watermark=2999)[1] == [("event time", 2000, None)]


def test_rows_that_the_clock_fired_below_come_a_millisecond_before_the_time_at_which_it_did():
    group = Group(Watermark.CLOCK)
    fired = [rows(n, processing_timer=12 * SECOND, content=Content.AHEAD, clock=n * SECOND) for n in (20, 4, 12)]
    assert group.batch(*fired, watermark=30_000) == (
        [
            ("rows 4", None, 3999),
            ("rows 12", None, 11_999),
            ("processing time", None, 19_999),
            ("rows 20", None, 19_999),
            ("processing time", None, 30_000),
        ],
        [],
    )


def test_timers_wait_for_their_time_to_the_millisecond():
    group = Group()
    group.batch(rows(1, event_timer=1_999_001))
    assert group.spark_timer() == 2000
    assert group.batch(watermark=1999) == ([], [])
    assert group.batch(watermark=2000) == ([("event time", 2000, None)], [])
    assert group.spark_timer() is None
    group.batch(rows(1, event_timer=SECOND))
    assert group.spark_timer() == 2001, "a timer in the past waits for the next watermark"


def test_a_timer_before_the_clock_of_spark_starts_waits_for_its_first_watermark():
    """Spark has no timer at 0: what waited for one would never be called, nor what waits behind it."""
    group = Group()
    group.batch(rows(1, event_timer=-SHIFT * 1000 - 5 * SECOND))
    assert group.spark_timer() == 1 - SHIFT
    assert group.batch(watermark=2000 - SHIFT)[0] == [("event time", 2000 - SHIFT, None)]
    held = Group()
    held.entry = GroupEntry(watermark=-SHIFT * 1000 - 9 * SECOND, event_timer=-SHIFT * 1000 - 5 * SECOND)
    assert held.spark_timer() == 1 - SHIFT


def test_ticks_move_processing_time_before_rows_and_not_ahead():
    group = Group()
    assert group.batch(rows(1, processing_timer=2 * SECOND)) == ([], [("rows 1", None, None)])
    assert group.spark_timer() == END, "the end of the input ends processing time, too"
    assert group.batch(tick(SECOND), tick(1)) == ([], [])
    assert group.batch(rows(2), tick(3 * SECOND)) == ([], [("processing time", None, 3000), ("rows 2", None, 3000)])
    assert group.batch(rows(3)) == ([], [("rows 3", None, 3000)])


def test_rows_bring_their_own_clock_up_to_the_millisecond_before():
    group = Group()
    group.batch(rows(1, processing_timer=2 * SECOND), tick(SECOND))
    assert group.batch(rows(2, clock=2 * SECOND)) == ([], [("rows 2", None, 1999)])
    assert group.batch(rows(3, clock=2_001_000))[1][0] == ("processing time", None, 2000)


def test_the_end_of_the_input_ends_both_clocks():
    group = Group()
    group.batch(rows(1, event_timer=3 * SECOND, processing_timer=3 * SECOND))
    assert group.batch(watermark=END) == ([("event time", -1, None), ("processing time", -1, -1)], [])
    assert group.spark_timer() is None
    with pytest.raises(RuntimeError, match=AFTER_THE_END):
        group.batch(rows(2, event_timer=7 * SECOND))
    group.clocks = replace(group.clocks, ends=False)  # where rows may wait below
    assert group.batch(rows(2, event_timer=7 * SECOND))[1] == [("rows 2", -1, -1), ("event time", -1, -1)]


def test_a_tick_at_the_end_ends_processing_time():
    group = Group()
    group.batch(rows(1, processing_timer=3 * SECOND))
    assert group.batch(tick(END * 1000)) == ([("processing time", None, -1)], [])


def test_the_watermark_can_be_the_clock():
    group = Group(Watermark.CLOCK)
    group.batch(rows(1, event_timer=9 * SECOND, processing_timer=2 * SECOND))
    assert group.spark_timer() == 2000
    assert group.batch(watermark=2000) == ([("processing time", None, 2000)], [])
    assert group.spark_timer() == END
    assert group.batch(watermark=END) == ([("event time", -1, 2000)], [])


def test_without_a_watermark_nothing_is_registered():
    group = Group(Watermark.NONE)
    group.batch(rows(1, event_timer=SECOND))
    assert group.spark_timer() is None
    assert group.batch(watermark=9000) == ([], [])


@pytest.mark.parametrize("chained", [False, True])
def test_what_the_clock_fires_goes_ahead_where_operators_above_see_the_same_clock(chained):
    group = Group(chained_by_clock=chained)
    group.batch(rows(1, processing_timer=SECOND))
    fired = [("processing time", None, 2000)]
    assert group.batch(tick(2 * SECOND)) == ((fired, []) if chained else ([], fired))


def test_watermarks_do_not_go_back():
    group = Group()
    group.batch(rows(1), watermark=5000)
    assert group.batch(rows(2), watermark=4000)[1] == [("rows 2", 5000, None)]
    assert group.entry.watermark == 5 * SECOND


def test_a_group_begins_without_clocks_or_timers():
    assert GroupEntry.from_bytes(None) == GroupEntry(NO_WATERMARK, NO_WATERMARK, END_OF_TIME, END_OF_TIME, 0)


def hold(time):
    return Blob(0, 0, 0, Content.HOLD, time)


def test_the_watermark_stays_below_what_is_held():
    group = Group()
    group.batch(rows(1, event_timer=2 * SECOND))
    assert group.batch(hold(2 * SECOND), hold(9 * SECOND), watermark=3000) == ([], [])
    assert group.entry.watermark == 2 * SECOND - 1
    assert group.batch(hold(SECOND), hold(END_OF_TIME), rows(2)) == ([], [("rows 2", 1999, None)])
    assert group.batch(hold(END_OF_TIME)) == ([("event time", 3000, None)], [])


def test_what_is_held_holds_the_end_of_both_clocks_but_no_other_processing_time():
    group = Group()
    group.batch(rows(1, event_timer=3 * SECOND, processing_timer=2 * SECOND))
    fired = [("processing time", 1999, 2000)]
    assert group.batch(hold(2 * SECOND), tick(2 * SECOND), watermark=2500) == ([], fired)
    group.batch(hold(2 * SECOND), rows(2, processing_timer=4 * SECOND))
    assert group.batch(hold(2 * SECOND), watermark=END) == ([], [])
    assert group.batch(hold(END_OF_TIME)) == ([("event time", -1, 2000), ("processing time", -1, -1)], [])


def test_what_is_held_is_said_above_in_every_batch_and_once_more_at_the_end():
    entry, told = GroupEntry(), []
    store, clocks = MemoryStore(), Clocks(Watermark.EVENT_TIME, SHIFT, END)
    for blobs in ([], [kept(3 * SECOND, 1)], [hold(2 * SECOND)], [hold(END_OF_TIME)], []):
        arrived = Arrived(SHIFT, blobs)
        context, after = run(Keeper(), clocks, store, entry, arrived)
        told.append((held_above(clocks, context, entry, arrived), context.held_rows))
        entry = GroupEntry.from_bytes(after.to_bytes())
    assert told == [(None, 0), (3 * SECOND, 1), (2 * SECOND, 0), (END_OF_TIME, 0), (None, 0)]


def test_a_time_that_is_held_is_one_of_the_watermark_of_the_query():
    """An operator that holds a time, and one above it, may both be behind that watermark, each as far as its rows."""
    store, entry = MemoryStore(), GroupEntry()
    below = Clocks(Watermark.EVENT_TIME, SHIFT, END, held_back_ms=1000)
    context, _ = run(Keeper(), below, store, entry, Arrived(SHIFT, [kept(3 * SECOND, 1)]))
    held = held_above(below, context, entry, Arrived(SHIFT, []))
    assert held == 4 * SECOND
    for behind_ms, watermark in ((0, 4 * SECOND - 1), (1000, 3 * SECOND - 1), (5000, -SECOND - 1)):
        above = Clocks(Watermark.EVENT_TIME, SHIFT, END, held_back_ms=behind_ms)
        context, _ = run(Keeper(), above, MemoryStore(), GroupEntry(), Arrived(SHIFT + 60_000, [hold(held)]))
        assert context.watermark == watermark


def test_the_millisecond_of_a_time_that_is_held_is_not_reached():
    """Windows close a millisecond before their end, which the row of that time may belong to."""
    clocks = Clocks(Watermark.EVENT_TIME, SHIFT, END)
    context, _ = run(Keeper(), clocks, MemoryStore(), GroupEntry(), Arrived(SHIFT + 60_000, [hold(2 * SECOND + 1)]))
    assert context.watermark == 2 * SECOND - 1


def kept(time, batches):
    row = {KEY_HASH: 0, "v": 1, "event_timer": time, "processing_timer": None, "batches": batches}
    types = [("v", pa.int32()), ("event_timer", pa.int64()), ("processing_timer", pa.int64()), ("batches", pa.int64())]
    return Blob(
        0,
        0,
        0,
        Content.ROWS,
        None,
        None,
        to_bytes(pa.Table.from_pylist([row], pa.schema([(KEY_HASH, pa.int64()), *types]))),
    )
