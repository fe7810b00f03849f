"""The exchange: what arrives, in which order, and what goes to every key group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs import exchange as exchange_module
from sqlstream.udfs.exchange import (
    BLOBS,
    CLOCK,
    FIRED,
    HOLD,
    LATE,
    LATE_TABLE,
    PARTS,
    TICK,
    Blob,
    Content,
    Exchange,
    cut,
    from_bytes,
    gathered,
    key_groups,
    pieces,
    rows_in_order,
)
from sqlstream.udfs.kernel import BARRIER, EMITTED_AHEAD, KEY_HASH
from sqlstream.udfs.keys import key_hash
from tests.udfs.spark.recorder import Recorder

HASHES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50)


def rows(hashes, **columns):
    values = pa.array(range(len(hashes)), pa.int64())
    return pa.table({KEY_HASH: pa.array(hashes, pa.int64()), "v": values, **columns})


def blobs(tables, groups, partition=0, kernel=None):
    batches = [batch for table in tables for batch in table.to_batches()]
    collected = list(Exchange(kernel or Recorder(), groups).blobs(batches, partition))
    assert all(batch.schema == BLOBS for batch in collected)
    return [Blob(**row) for batch in collected for row in batch.to_pylist()]


@given(HASHES, st.integers(1, 200))
def test_cutting_keeps_every_row_once_and_in_order(hashes, groups):
    table = rows(hashes)
    parts = dict(cut(table, groups))
    assert list(parts) == sorted({h % groups for h in hashes})
    for group, part in parts.items():
        assert part.column("v").to_pylist() == [i for i, h in enumerate(hashes) if h % groups == group]
    assert key_groups(table, groups).tolist() == [h % groups for h in hashes]


@settings(max_examples=25)
@given(st.lists(HASHES, max_size=4))
def test_blobs_of_a_partition_are_numbered_in_order_of_arrival(parts):
    exchange_module.ROWS_PER_CUT = 20
    try:
        cut_blobs = blobs([rows(hashes) for hashes in parts], groups=4, partition=3)
    finally:
        exchange_module.ROWS_PER_CUT = 1 << 19
    assert [b.number for b in cut_blobs] == list(range(len(cut_blobs)))
    assert {b.partition for b in cut_blobs} <= {3}
    for group in range(4):
        arrived = [(h, i) for hashes in parts for i, h in enumerate(hashes) if h % 4 == group]
        tables = [from_bytes(b.bytes) for b in cut_blobs if b.key_group == group]
        assert [(r[KEY_HASH], r["v"]) for t in tables for r in t.to_pylist()] == arrived


def test_batches_are_gathered_until_there_are_enough():
    batches = [pa.record_batch({"v": np.arange(200_000)}) for _ in range(6)]
    assert [table.num_rows for table in gathered(batches)] == [600_000, 600_000]
    assert all(column.num_chunks == 1 for table in gathered(batches) for column in table.columns)
    assert list(gathered([])) == []


def test_blobs_are_small_and_together_hold_all_rows_in_order():
    table = rows([4] * 60_000)
    cut_blobs = blobs([table], groups=2)
    assert len(cut_blobs) == 5
    assert all(len(b.bytes) < 1.1 * exchange_module.BYTES_PER_BLOB for b in cut_blobs)
    assert [b.number for b in cut_blobs] == [0, 1, 2, 3, 4]
    assert pa.concat_tables(from_bytes(b.bytes) for b in cut_blobs).equals(table)
    wide = pa.table({KEY_HASH: [0, 0], "v": ["x" * 300_000, "y" * 300_000]})
    assert [t.num_rows for t in pieces(wide)] == [1, 1]
    assert list(pieces(wide.slice(0, 0))) == []


def test_rows_sent_ahead_of_the_watermark_stay_apart():
    table = rows([0, 4, 8, 1], **{EMITTED_AHEAD: pa.array([False, True, None, True])})
    cut_blobs = blobs([table], groups=4)
    assert [(b.key_group, b.content) for b in cut_blobs] == [(0, Content.AHEAD), (1, Content.AHEAD), (0, Content.ROWS)]
    assert [from_bytes(b.bytes).column("v").to_pylist() for b in cut_blobs] == [[1], [3], [0, 2]]
    assert EMITTED_AHEAD not in from_bytes(cut_blobs[0].bytes).column_names


def test_rows_that_the_clock_fired_below_go_apart_by_when():
    ahead, fired = pa.array([True, True, False, True]), pa.array([9, 4, None, 9], pa.int64())
    table = rows([0, 0, 0, 0], **{EMITTED_AHEAD: ahead, FIRED: fired, CLOCK: pa.array([70, 70, 80, 70])})
    collected = [(b.content, b.clock, from_bytes(b.bytes)) for b in blobs([table], 1)]
    assert [(content, clock, part.column("v").to_pylist()) for content, clock, part in collected] == [
        (Content.AHEAD, 4, [1]),
        (Content.AHEAD, 9, [0, 3]),
        (Content.ROWS, 80, [2]),
    ]
    assert not any(FIRED in part.column_names for _, _, part in collected)


def test_a_tick_reaches_every_key_group_and_no_kernel_as_a_row():
    table = rows([5, 6, 7], **{TICK: pa.array([None, 10, 30], pa.int64())})
    cut_blobs = blobs([table], groups=3)
    assert [(b.key_group, b.clock) for b in cut_blobs if b.content == Content.TICK] == [(0, 30), (1, 30), (2, 30)]
    (data,) = (b for b in cut_blobs if b.content == Content.ROWS)
    assert from_bytes(data.bytes).to_pylist() == [{KEY_HASH: 5, "v": 0}]


def test_what_is_held_reaches_every_key_group_and_no_kernel_as_a_row():
    held = {HOLD: pa.array([None, 30, 20], pa.int64()), LATE_TABLE: pa.nulls(3, pa.string()), LATE: pa.nulls(3)}
    cut_blobs = blobs([rows([5, 6, 7], **held)], groups=2)
    assert [(b.key_group, b.clock) for b in cut_blobs if b.content == Content.HOLD] == [(0, 20), (1, 20)]
    (data,) = (b for b in cut_blobs if b.content == Content.ROWS)
    assert from_bytes(data.bytes).to_pylist() == [{KEY_HASH: 5, "v": 0}]
    assert [b.content for b in blobs([rows([5], **{HOLD: pa.nulls(1, pa.int64())})], groups=2)] == [Content.ROWS]


@pytest.mark.parametrize(("ticks", "newest"), [([], None), ([[None]], None), ([[10, None], [30], [20]], 30)])
def test_every_key_group_is_called_with_or_without_a_tick(ticks, newest):
    batches = [pa.record_batch({TICK: pa.array(times, pa.int64())}) for times in ticks]
    (called,) = Exchange(Recorder(), 3).calls(batches)
    cut_blobs = [Blob(**row) for row in called.to_pylist()]
    assert cut_blobs == [Blob(group, 0, 0, Content.TICK, newest) for group in range(3)]


def test_blobs_know_when_their_first_row_came():
    cut_blobs = blobs([rows([0, 0, 0], **{CLOCK: pa.array([20, 10, None], pa.int64())})], groups=1)
    assert [b.clock for b in cut_blobs] == [10]
    assert [b.clock for b in blobs([rows([0])], groups=1)] == [None]


def test_late_rows_of_an_operator_below_pass_by():
    late = {LATE_TABLE: pa.array([None, "0/late"]), LATE: pa.array([None, b"rows"], pa.binary())}
    passing, data = blobs([rows([1, 1], **late)], groups=2)
    assert (passing.content, passing.late_table, passing.bytes) == (Content.LATE, "0/late", b"rows")
    assert from_bytes(data.bytes).to_pylist() == [{KEY_HASH: 1, "v": 0}]


class Halving(Recorder):
    """Keeps every other row."""

    def combine(self, rows):
        return rows.take(list(range(0, rows.num_rows, 2)))


def test_rows_are_combined_before_they_are_cut():
    cut_blobs = blobs([rows([0, 0, 1, 1])], groups=2, kernel=Halving())
    assert [from_bytes(b.bytes).column("v").to_pylist() for b in cut_blobs] == [[0], [2]]


TIME, NAME, START = PARTS


def of_files(*files):
    """Rows of (time, name, start, hashes) in turn; each row's value is (time, name, start, number of the row)."""
    listed = [(*file, h, i) for *file, hashes in files for i, h in enumerate(hashes)]
    times, names, starts, hashes, numbers = zip(*listed, strict=True)
    values = [f"{t} {n} {s} {i:03}" for t, n, s, i in zip(times, names, starts, numbers, strict=True)]
    parts = {TIME: pa.array(times, pa.int64()), NAME: pa.array(names, pa.string()), START: pa.array(starts, pa.int64())}
    return pa.table({KEY_HASH: pa.array(hashes, pa.int64()), "v": values, **parts})


@pytest.mark.parametrize("most", [1 << 19, 3])
def test_rows_arrive_in_the_order_of_files_whatever_partition_reads_them(monkeypatch, most):
    monkeypatch.setattr(exchange_module, "ROWS_PER_CUT", most)
    large = [of_files((7, "c", 0, range(9)), (7, "b", 4, range(6)))]
    small = [of_files((7, "b", 0, range(4)), (9, "a", 0, range(1))), of_files((9, "a", 0, [5]), (1, "z", 0, range(5)))]
    collected = [*blobs(large, groups=2, partition=0), *blobs(small, groups=2, partition=1)]
    for group in range(2):
        tables = rows_in_order(blob for blob in collected if blob.key_group == group)
        assert all(table.column_names == [KEY_HASH, "v"] for table in tables)
        rows = [row for table in tables for row in table.to_pylist()]
        assert [row["v"].split()[:3] for row in rows] == sorted(row["v"].split()[:3] for row in rows)
        expected = {(7, "c", 0): range(9), (7, "b", 4): range(6), (7, "b", 0): range(4), (1, "z", 0): range(5)}
        for (time, name, start), hashes in expected.items():
            mine = [row["v"] for row in rows if row["v"].startswith(f"{time} {name} {start} ")]
            assert mine == [f"{time} {name} {start} {h:03}" for h in hashes if h % 2 == group]
        assert [r[KEY_HASH] for r in rows if r["v"].startswith("9")] == [[0], [5]][group]


def test_rows_without_a_place_come_first_in_the_order_of_partitions():
    placed = blobs([of_files((7, "a", 0, [0, 0]))], groups=1, partition=0)
    others = blobs([rows([0, 0, 0])], groups=1, partition=1)
    assert [t.num_rows for t in rows_in_order([*placed, *others])] == [3, 2]
    assert [b.parts for b in others] == [None]


def test_times_alone_may_tell_the_order_of_parts():
    table = of_files((7, "b", 0, [0]), (3, "a", 0, [0])).drop_columns([NAME])
    assert [t.column("v").to_pylist() for t in rows_in_order(blobs([table], groups=1))] == [
        ["3 a 0 000"],
        ["7 b 0 000"],
    ]


def test_parts_are_combined_each_on_its_own():
    table = of_files((7, "b", 0, [0, 0, 0]), (3, "a", 0, [0, 0]))
    ordered = rows_in_order(blobs([table], groups=1, kernel=Halving()))
    assert [t.column("v").to_pylist() for t in ordered] == [["3 a 0 000"], ["7 b 0 000", "7 b 0 002"]]


def lifts(tables, time):
    batches = [batch for table in tables for batch in table.to_batches()]
    cut_blobs = [Blob(**row) for batch in Exchange(Recorder(), 2, time).blobs(batches, 0) for row in batch.to_pylist()]
    return [blob.clock for blob in cut_blobs if blob.content == Content.LIFT], len(cut_blobs)


def test_the_newest_time_of_rows_is_told_once():
    times = pa.array([5, 9, None, 7], pa.int64())
    assert lifts([rows([0, 1, 2, 3], at=times)], "at")[0] == [9]


def test_times_from_the_end_of_the_input_on_lift_nothing():
    end = 253_402_300_799_999_000
    assert lifts([rows([0, 1, 2], at=pa.array([5, end, 2**60], pa.int64()))], "at")[0] == [5]
    assert lifts([rows([0, 1], at=pa.array([end - 1, None], pa.int64()))], "at")[0] == [end - 1]
    assert lifts([rows([0], at=pa.array([end], pa.int64()))], "at")[0] == []


@pytest.mark.parametrize("at_once", [False, True])
def test_every_key_group_hears_how_new_the_rows_are_where_windows_fire_at_once(at_once):
    exchange = Exchange(Recorder(), 3, "at", at_once=at_once)
    batches = rows([0, 1], at=pa.array([7, 9], pa.int64())).to_batches()
    told = [(blob["key_group"], blob["content"], blob["clock"]) for batch in exchange.blobs(batches, 0)
            for blob in batch.to_pylist() if blob["content"] != Content.ROWS]  # fmt: skip
    reached = [(group, Content.REACHED, 9) for group in range(3)] if at_once else []
    assert told == [(0, Content.LIFT, 9), *reached]
    assert [blob["content"] for blob in exchange.lift(9).to_pylist()] == [content for _, content, _ in told]


def test_rows_without_a_time_to_tell_lift_nothing():
    assert lifts([rows([0, 1], at=pa.nulls(2, pa.int64()))], "at")[0] == []
    assert lifts([rows([0, 1])], None)[0] == []


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=30), st.integers(1, 9))
def test_barriers_go_to_every_key_group_and_keep_their_places(items, groups):
    barriers = pa.array([i if item is None else None for i, item in enumerate(items)], pa.int64())
    actual = dict(cut(rows([item or 0 for item in items], **{BARRIER: barriers}), groups))
    for group in range(groups):
        expected = [i for i, item in enumerate(items) if item is None or item % groups == group]
        assert (actual[group].column("v").to_pylist() if group in actual else []) == expected


def test_keys_are_hashed_by_the_exchange_where_rows_have_no_hash():
    table = pa.table({"k": pa.array([3, 4, 3, None], pa.int64())})
    (only,) = Exchange(Recorder(), 1, None, ("k",)).blobs(table.to_batches(), 0)
    (cut_out,) = (from_bytes(row["bytes"]) for row in only.to_pylist())
    assert cut_out.column_names == [KEY_HASH, "k"]
    assert cut_out.column(KEY_HASH).to_pylist() == key_hash([table.column("k")]).tolist()
