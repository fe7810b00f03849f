"""The harness calls kernels in the promised order and checks what they owe."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from sqlstream.udfs.harness import KernelHarness, key_hashes
from sqlstream.udfs.kernel import (
    EMITTED_AHEAD,
    END_OF_TIME,
    KEY_HASH,
    NO_WATERMARK,
    Context,
    Domain,
    Kernel,
)
from tests.udfs.spark.keeper import Keeper

INPUT = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
OUTPUT = pa.schema([("what", pa.string()), ("k", pa.string()), ("watermark", pa.int64()), ("clock", pa.int64())])


@dataclass(frozen=True)
class Diary(Kernel):
    """Emits one row per call and row. Times of rows with key "timer" become timers of both domains."""

    keeps_timers: bool = False
    ticks: bool = True
    late: bool = False

    @property
    def output(self) -> pa.Schema:
        return OUTPUT

    @property
    def late_output(self) -> pa.Schema | None:
        return INPUT if self.late else None

    @property
    def uses_processing_time(self) -> bool:
        return self.ticks

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        for row in rows.to_pylist():
            self._note("rows", row["k"], context)
        times = rows["ts"].cast(pa.int64()).to_pylist()
        for key, time in zip(rows["k"].to_pylist(), times, strict=True):
            if key == "timer":
                context.set_timer(Domain.EVENT, time)
                context.set_timer(Domain.PROCESSING, time)
        context.count("rows", rows.num_rows)
        if self.late:
            context.emit_late(rows.select(["k", "ts"]))

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._note("event", "", context)
        if not self.keeps_timers:
            context.set_timer(Domain.EVENT, END_OF_TIME)

    def on_processing_time(self, time: int, context: Context) -> None:
        self._note("processing", "", context)
        context.set_timer(Domain.PROCESSING, END_OF_TIME)

    def _note(self, what: str, key: str, context: Context) -> None:
        context.emit(pa.table([[what], [key], [context.watermark], [context.processing_time]], schema=OUTPUT))


def row(key: str, ts: int = 0, **more: object) -> dict:
    return {"k": key, "ts": ts, **more}


def whats(harness: KernelHarness) -> list:
    return [(r["what"], r["k"], r["watermark"], r["clock"]) for r in harness.output()]


def test_rows_ahead_come_before_the_clocks_and_the_others_after_them():
    schema = INPUT.append(pa.field(EMITTED_AHEAD, pa.bool_()))
    harness = KernelHarness(Diary(), schema, ["k"])
    harness.rows([row("timer", 10)])
    assert whats(harness) == [("rows", "timer", NO_WATERMARK, 0)]
    rows = [row("b"), row("ahead", **{EMITTED_AHEAD: True})]
    harness.batch(rows, watermark=10, processing_time=20)
    assert whats(harness) == [
        ("rows", "ahead", NO_WATERMARK, 0),
        ("event", "", 10, 0),
        ("processing", "", 10, 20),
        ("rows", "b", 10, 20),
    ]


def test_clocks_call_only_when_a_timer_is_due():
    harness = KernelHarness(Diary(), INPUT, ["k"])
    harness.rows([row("timer", 10)])
    harness.output()
    harness.watermark(9)
    harness.processing_time(9)
    assert harness.output() == []
    assert harness.next_timer(Domain.EVENT) == 10
    harness.finish()
    assert [what for what, *_ in whats(harness)] == ["event", "processing"]
    assert harness.next_timer(Domain.EVENT) == END_OF_TIME


def test_a_timer_that_is_left_behind_is_found():
    harness = KernelHarness(Diary(keeps_timers=True), INPUT, ["k"])
    harness.rows([row("timer", 10)])
    with pytest.raises(AssertionError, match="event timer 10 <= 10"):
        harness.watermark(10)
    harness = KernelHarness(Diary(), INPUT, ["k"])
    harness.watermark(10)
    with pytest.raises(AssertionError, match="event timer 5 <= 10"):
        harness.rows([row("timer", 5)])


def test_a_kernel_that_conceals_its_processing_time_is_found():
    harness = KernelHarness(Diary(ticks=False), INPUT, ["k"])
    with pytest.raises(AssertionError, match="no processing time"):
        harness.rows([row("timer", 10)])


def test_rows_of_another_schema_are_found():
    @dataclass(frozen=True)
    class Wrong(Diary):
        @property
        def output(self) -> pa.Schema:
            return INPUT

    with pytest.raises(AssertionError, match="emitted"):
        KernelHarness(Wrong(), INPUT, ["k"]).rows([row("a")])


def test_late_rows_come_out_by_themselves_with_times_in_microseconds():
    harness = KernelHarness(Diary(late=True), INPUT, ["k"])
    harness.rows([row("a", 5)])
    assert harness.late() == [{"k": "a", "ts": 5}]
    assert harness.late() == []


def test_each_key_has_one_group_and_each_group_its_own_timers():
    harness = KernelHarness(Diary(), INPUT, ["k"], groups=4)
    harness.rows([row(key, i) for i, key in enumerate("abcabc")])
    assert sorted(r["k"] for r in harness.output()) == sorted("abcabc")
    assert harness.counters["rows"] == 6
    harness.rows([row("timer", 10), row("a"), row("b"), row("c")])
    harness.output()
    harness.watermark(10)
    assert [what for what, *_ in whats(harness)] == ["event"]


@dataclass(frozen=True)
class Summing(Diary):
    """Combines rows to one per Arrow batch and keeps their sum in the store; forgets what it keeps elsewhere."""

    memory: list = field(default_factory=list)

    def __reduce__(self) -> tuple:
        return Summing, ()

    def combine(self, rows: pa.Table) -> pa.Table:
        return rows.slice(0, 1).set_column(0, "k", [[str(rows.num_rows)]])

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        (stored,) = context.store.get([("sum", 0)])
        total = int(stored or b"0") + sum(map(int, rows["k"].to_pylist()))
        context.store.put({("sum", 0): str(total).encode()})
        self.memory.append(total)
        self._note(str(len(self.memory)), str(total), context)


def test_arrow_batches_are_combined_one_by_one():
    harness = KernelHarness(Summing(), INPUT, ["k"], arrow_rows=2)
    harness.rows([row(key) for key in "aaaaa"])
    harness.rows([row(key) for key in "aaa"])
    assert [(what, key) for what, key, *_ in whats(harness)] == [("1", "5"), ("2", "8")]


def test_a_restart_keeps_the_store_the_timers_and_the_clocks_alone():
    harness = KernelHarness(Summing(), INPUT, ["k"], restarts=True)
    harness.rows([row("a")])
    harness.watermark(5)
    harness.rows([row("a")])
    assert whats(harness) == [("1", "1", NO_WATERMARK, 0), ("1", "2", 5, 0)]


def test_a_snapshot_can_be_gone_back_to():
    harness = KernelHarness(Diary(), INPUT, ["k"])
    harness.rows([row("timer", 10)])
    snapshot = harness.snapshot()
    harness.watermark(10)
    harness.restore(snapshot)
    assert harness.next_timer(Domain.EVENT) == 10
    harness.output()
    harness.watermark(10)
    assert whats(harness) == [("event", "", 10, 0)]


def test_hashes_depend_on_values_alone():
    few = pa.table({"k": ["b", None], "n": [2, None]})
    more = pa.table({"k": ["a", "b", None, "b"], "n": [1, 2, None, 3]})
    assert key_hashes(few, ["k", "n"]).to_pylist() == key_hashes(more, ["k", "n"]).to_pylist()[1:3]
    assert len(set(key_hashes(more, ["k", "n"]).to_pylist())) == 4
    assert key_hashes(few, []).to_pylist()[0] == key_hashes(few, []).to_pylist()[1]


def test_given_hashes_are_kept():
    rows = pa.table({"k": ["a"], "ts": pa.array([0], INPUT.field("ts").type), KEY_HASH: [7]})
    seen = []

    @dataclass(frozen=True)
    class Seeing(Diary):
        def on_rows(self, rows: pa.Table, context: Context) -> None:
            seen.extend(rows[KEY_HASH].to_pylist())

    KernelHarness(Seeing(), INPUT, ["k"]).rows(rows)
    assert seen == [7]


KEPT = pa.schema(
    [("v", pa.int32()), ("event_timer", pa.int64()), ("processing_timer", pa.int64()), ("batches", pa.int64())]
)


def kept(value: int, time: int, batches: int | None) -> dict:
    return {"v": value, "event_timer": time, "processing_timer": None, "batches": batches}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_watermark_that_a_kernel_holds_is_seen_above_later(restarts):
    harness = KernelHarness(Keeper(), KEPT, ["v"], groups=4, restarts=restarts)
    harness.batch([kept(1, 5, None), kept(2, 7, 2), kept(3, 3, 3)], watermark=4)
    assert (harness.watermark_above, harness.held_rows) == (4, 2), "the watermark does not go back for a late row"
    harness.watermark(9)
    assert harness.watermark_above == 4
    assert [row["v"] for row in harness.output()] == [1]
    harness.batch()
    assert (harness.watermark_above, harness.held_rows) == (4, 1)
    harness.batch()
    assert (harness.watermark_above, harness.held_rows) == (9, 0)
    assert [row["v"] for row in harness.output()] == [2, 3]


def test_a_kernel_that_conceals_that_it_holds_is_found():
    harness = KernelHarness(Concealing(), KEPT, ["v"])
    with pytest.raises(AssertionError, match="holds no watermark"):
        harness.rows([kept(1, 5, 1)])


class Concealing(Keeper):
    @property
    def deferring(self) -> bool:
        return False
