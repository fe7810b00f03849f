"""Two operators in one call do what they do in two calls, one behind an exchange of the other's results."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Hop, Session, Tumble
from sqlstream.udfs.exchange import Blob, Content, Handed, Handover, to_bytes
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import EMITTED_AHEAD, END_OF_TIME, KEY_HASH, MemoryStore
from sqlstream.udfs.keys import hash_of_values
from sqlstream.udfs.spark import Watermark
from sqlstream.udfs.spark.adapter import KernelProcessor, Stage, StageStore
from sqlstream.udfs.spark.call import KEY, Clocks
from sqlstream.udfs.triggers import AtWatermark
from sqlstream.udfs.windows.aligned import AlignedWindows
from sqlstream.udfs.windows.counted import CountWindows
from sqlstream.udfs.windows.emission import Lateness, LateRows
from sqlstream.udfs.windows.operator import WindowKernel
from sqlstream.udfs.windows.sessions import SessionKernel
from tests.udfs.spark.one_key_group import OneKeyGroup

SECOND, MS = 1_000_000, 1000
SHIFT, END = 10_000_000, 90_000_000
BELOW = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
ABOVE = pa.schema([(KEY_HASH, pa.int64()), ("key", pa.string()), ("at", pa.int64()), ("n", pa.int64()),
                   ("start", pa.timestamp("us", "UTC"))])  # fmt: skip
SUM_BELOW = Aggregates((AggregateCall("s", "sum", ("v",), pa.int64()),), BELOW)
SUM_ABOVE = Aggregates((AggregateCall("t", "sum", ("n",), pa.int64()),), ABOVE)
HANDOVER = Handover(
    (
        ("key", Handed("k")),
        ("at", Handed("window_end", earlier=MS, micros=True)),
        ("n", Handed("s")),
        ("start", Handed("window_start")),
    ),
    ("key",),
    ABOVE,
)

allowing = Lateness(20 * SECOND, LateRows.DROP)
lower = {
    "panes": AlignedWindows(("k",), Tumble("ts", 10 * SECOND), SUM_BELOW, late_columns=("v",)),
    "fires again": WindowKernel(
        BELOW, ("k",), Hop("ts", 10 * SECOND, 20 * SECOND), AtWatermark(), SUM_BELOW, lateness=allowing
    ),
}
upper = {
    "panes": AlignedWindows(("key",), Tumble("at", 30 * SECOND), SUM_ABOVE, late_columns=("n", "start")),
    "counted": CountWindows(ABOVE, ("key",), "at", 2, 2, SUM_ABOVE),
    "sessions": SessionKernel(ABOVE, ("key",), Session("at", 15 * SECOND), SUM_ABOVE),
}
pairs = pytest.mark.parametrize(("below", "above"), [(b, a) for b in lower for a in upper])


class Chained:
    """Both operators in one call."""

    def __init__(self, below, above):
        stage = Stage(upper[above], "above", HANDOVER)
        clocks = Clocks(Watermark.EVENT_TIME, SHIFT, END)
        self.group = OneKeyGroup(lambda: KernelProcessor(lower[below], clocks, "below", [stage]))
        self.kernel = lower[below]

    def batch(self, rows, watermark_ms):
        return self.group.batch([blob(self.kernel, rows)] if rows else [], watermark_ms + SHIFT)


class Apart:
    """Each in a harness of its own, which restarts with every batch; the rows of one are given to the other."""

    def __init__(self, below, above):
        self.below = KernelHarness(lower[below], BELOW, ["k"], restarts=True)
        self.above = KernelHarness(upper[above], ABOVE, ["key"], restarts=True)

    def batch(self, rows, watermark_ms):
        watermark = END_OF_TIME if watermark_ms == END else watermark_ms * MS
        self.below.watermark(watermark)
        ahead = self.below.output()
        self.below.rows([{"k": k, "ts": t * MS, "v": v} for k, t, v in rows])
        given = [handed(r, True) for r in ahead] + [handed(r, False) for r in self.below.output()]
        self.above.batch(
            pa.Table.from_pylist(given, ABOVE.append(pa.field(EMITTED_AHEAD, pa.bool_()))), watermark=watermark
        )
        return self.above.output()


def handed(row, ahead):
    return {"key": row["k"], "at": row["window_end"] - MS, "n": row["s"], "start": row["window_start"],
            EMITTED_AHEAD: ahead}  # fmt: skip


def blob(kernel, rows):
    table = pa.Table.from_pylist([{"k": k, "ts": t * MS, "v": v} for k, t, v in rows], BELOW)
    hashes = hash_of_values([table.column("k")], len(rows))
    table = kernel.combine(table.set_column(0, KEY_HASH, pa.array(hashes)))
    return Blob(0, 0, 0, Content.ROWS, None, None, to_bytes(table))


def micros(rows):
    """With times as microseconds, as the harness has them."""
    return [{name: round(v.timestamp() * SECOND) if isinstance(v, datetime) else v for name, v in row.items()}
            for row in rows]  # fmt: skip


ROWS = st.tuples(st.sampled_from(["a", "b", None, "ab"]), st.integers(0, 120_000), st.integers(-9, 9))
STEPS = st.lists(st.tuples(st.lists(ROWS, max_size=6), st.integers(0, 40_000)), max_size=6)


@pairs
@settings(max_examples=15)
@given(steps=STEPS)
def test_random_streams_come_out_as_through_two_operators(below, above, steps):
    chained, apart = Chained(below, above), Apart(below, above)
    watermark, counts = 0, [0, 0]
    late: dict[str, list[dict[str, Any]]] = {"below": [], "above": []}
    for given_rows, step in [*steps, ([], END)]:
        watermark = min(watermark + step, END)
        actual = chained.batch(given_rows, watermark)
        assert micros([row for _, row in actual.rows]) == apart.batch(given_rows, watermark)
        counts = [total + actual.counts[stage] for stage, total in enumerate(counts)]
        for name, rows_of in actual.late.items():
            late[name] += micros(rows_of)
    assert counts == [apart.below.counters["late_rows"], apart.above.counters["late_rows"]]
    assert late == {"below": apart.below.late(), "above": apart.above.late()}
    assert not chained.group.timers


# --- facts ----------------------------------------------------------------------------------------------------


def test_what_the_watermark_fires_below_is_there_before_it_passes_above_and_other_rows_are_not():
    chained = Chained("fires again", "panes")
    chained.batch([("a", 25_000, 1)], 0)
    actual = chained.batch([("a", 9_000, 5)], 30_000)
    assert micros([row for _, row in actual.rows]) == [{"key": "a", **window(0, 30), "t": 1}]
    assert micros(actual.late["above"]) == [{"n": 5, "start": 0, **window(0, 30)}], "fires behind the watermark"
    assert (actual.counts[0], actual.counts[1]) == (0, 1)
    assert [(ahead, row["t"]) for ahead, row in chained.batch([], END).rows] == [(True, 1)]


def window(start, end):
    return {"window_start": start * SECOND, "window_end": end * SECOND}


def test_one_timer_of_spark_serves_both():
    chained = Chained("panes", "panes")
    chained.batch([("a", 5_000, 1)], 0)
    assert chained.group.timers == {9_999 + SHIFT}
    assert chained.batch([], 9_999).rows == []
    assert chained.group.timers == {29_999 + SHIFT}
    chained.batch([("a", 12_000, 1)], 10_000)
    assert chained.group.timers == {19_999 + SHIFT}
    chained.batch([], 20_000)
    assert chained.group.timers == {29_999 + SHIFT}
    assert [row["t"] for _, row in chained.batch([], 29_999).rows] == [2]
    assert not chained.group.timers


def test_an_operator_with_nothing_to_do_is_not_called():
    chained = Chained("panes", "panes")
    chained.batch([("a", 5_000, 1)], 0)
    assert not any(name.startswith("1/") for asked in chained.group.asked for name, _ in asked)
    chained.batch([], 10_000)
    chained.group.asked.clear()
    before = dict(chained.group.entries)
    assert chained.batch([], 30_000).rows
    assert all(name.startswith("1/") for asked in chained.group.asked[1:] for name, _ in asked)
    assert chained.group.entries[KEY] == before[KEY]


def test_the_parts_of_a_store_are_apart_and_know_what_they_began_with():
    store = MemoryStore()
    lower_part, upper_part = StageStore(store, 0), StageStore(store, 1)
    lower_part.put({("a", 1): b"x"})
    assert upper_part.get([("a", 1), ("a", 2)]) == [None, None]
    upper_part.put({("a", 1): b"y"})
    assert (lower_part.get([("a", 1)]), upper_part.get([("a", 1)])) == ([b"x"], [b"y"])
    assert (lower_part.began_with, upper_part.began_with) == ((("a", 1),), (("1/a", 1), ("1/a", 2)))
    assert StageStore(store, 1).began_with == (), "nothing was asked"
    upper_part = StageStore(store, 1)
    upper_part.get([("b", number) for number in range(13)])
    assert upper_part.began_with == (), "too many to be a guess"
