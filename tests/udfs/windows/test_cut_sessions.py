from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Session
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, Domain
from sqlstream.udfs.windows.cut_sessions import CutSessionKernel, Ordered, cut
from sqlstream.udfs.windows.emission import Lateness, LateRows
from sqlstream.udfs.windows.ranges import AllRows

MS = 1000


class Row(NamedTuple):
    """Times in milliseconds."""

    time: int
    gap: int
    opens: bool = True
    closes: bool = False
    v: int = 0


class Piece(NamedTuple):
    first: int
    stop: int
    start: int
    end: int


def one_after_another(rows: list[Row], longest: int | None) -> list[Piece]:
    """The sessions of the rows of a key, which are in order."""
    collected: list[Piece] = []
    opened: Piece | None = None
    for i, row in enumerate(rows):
        if opened is not None and (row.time > opened.end or _too_long(opened, row.time, longest)):
            collected.append(opened)
            opened = None
        if opened is None and row.opens:
            opened = Piece(i, i, row.time, row.time + row.gap)
        if opened is not None:
            opened = opened._replace(stop=i + 1, end=max(opened.end, row.time + row.gap))
            if row.closes:
                collected.append(opened._replace(end=min(opened.end, row.time + 1)))
                opened = None
    collected += [opened] if opened else []
    return collected if longest is None else [p._replace(end=min(p.end, p.start + longest)) for p in collected]


def _too_long(opened: Piece, time: int, longest: int | None) -> bool:
    return longest is not None and time >= opened.start + longest


# --- cutting -----------------------------------------------------------------------------------------------------


def ordered(rows: list[tuple[int, Row]]) -> Ordered:
    key = np.array([key for key, _ in rows], np.int64)
    time, gap, opens, closes, _ = np.array([row for _, row in rows], np.int64).reshape(-1, 5).T
    return Ordered(key, time * MS, (time + gap) * MS, opens.astype(bool), closes.astype(bool))


some_rows = st.builds(
    Row, st.integers(-20, 40), st.integers(1, 8), st.booleans(), st.integers(0, 3).map(lambda n: n == 0), st.just(0)
)
limits = st.none() | st.integers(1, 20)


@given(st.lists(st.lists(some_rows, min_size=1, max_size=20), max_size=3), limits)
def test_rows_are_cut_one_after_another(keys, longest):
    rows: list[tuple[int, Row]] = []
    expected = []
    for key, item in enumerate(keys):
        item = sorted(item, key=lambda row: row.time)
        for first, stop, start, end in one_after_another(item, longest):
            expected.append((first + len(rows), stop + len(rows), start * MS, end * MS))
        rows += [(key, row) for row in item]
    pieces = cut(ordered(rows), None if longest is None else longest * MS)
    assert list(zip(*(part.tolist() for part in pieces), strict=True)) == expected


# --- the kernel --------------------------------------------------------------------------------------------------

SCHEMA = pa.schema(
    [
        (KEY_HASH, pa.int64()),
        ("k", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("gap", pa.int64()),
        ("opens", pa.bool_()),
        ("closes", pa.bool_()),
        ("v", pa.int64()),
    ]
)
AGGREGATES = Aggregates((AggregateCall("vs", "collect_list", ("v",), pa.list_(pa.int64())),), SCHEMA)


def kernel_of(
    longest: int | None = None, allowed: int = 0, conditions: bool = True, **options: Any
) -> CutSessionKernel:
    return CutSessionKernel(
        SCHEMA,
        ("k",),
        options.pop("assigner", Session("ts", "gap")),
        options.pop("function", AGGREGATES),
        None if longest is None else longest * MS,
        "opens" if conditions else None,
        "closes" if conditions else None,
        options.pop("lateness", Lateness(allowed * MS)),
    )


def as_dict(row: Row, key: str | None = "a") -> dict[str, Any]:
    return {"k": key, "ts": row.time * MS, "gap": row.gap * MS, "opens": row.opens, "closes": row.closes, "v": row.v}


def told(harness: KernelHarness) -> list[tuple]:
    return [(row["window_start"] // MS, row["window_end"] // MS, row["vs"]) for row in harness.output()]


def test_a_session_comes_out_when_its_last_row_is_complete():
    harness = KernelHarness(kernel_of(), SCHEMA, ["k"])
    harness.rows(
        [as_dict(Row(*row)) for row in [(1, 5, False, False, 1), (2, 5, True, False, 2), (4, 5, False, True, 3)]]
    )
    harness.watermark(3 * MS)
    assert told(harness) == []
    harness.watermark(4 * MS)
    assert told(harness) == [(2, 5, [2, 3])]
    harness.watermark(5 * MS)
    assert harness.counters["late_rows"] == 1
    assert not any(store.entries for store in harness.stores)


def test_a_session_never_grows_longer_than_its_limit():
    harness = KernelHarness(kernel_of(longest=10, conditions=False), SCHEMA, ["k"])
    harness.rows([as_dict(Row(time, 5, v=time)) for time in (12, 0, 4, 8, 16)])
    harness.watermark(9 * MS)
    assert told(harness) == [(0, 10, [0, 4, 8])]
    harness.rows([as_dict(Row(20, 5, v=20))])
    harness.finish()
    assert told(harness) == [(12, 22, [12, 16, 20])]


def test_rows_of_a_session_come_out_in_order_of_arrival():
    kernel = kernel_of(longest=10, function=AllRows(("k", "v")))
    harness = KernelHarness(kernel, SCHEMA, ["k"])
    harness.rows([as_dict(Row(4, 5, v=1)), as_dict(Row(2, 5, v=2)), as_dict(Row(12, 5, v=3))])
    harness.finish()
    assert [(row["k"], row["v"], row["window_end"] // MS) for row in harness.output()] == [
        ("a", 1, 9),
        ("a", 2, 9),
        ("a", 3, 17),
    ]


def test_in_processing_time_the_clock_closes_sessions():
    kernel = kernel_of(longest=10, conditions=False, assigner=Session(None, 7 * MS, Domain.PROCESSING))
    harness = KernelHarness(kernel, SCHEMA, ["k"])
    for now in (0, 5, 8):
        harness.batch([as_dict(Row(0, 1, v=now))], processing_time=now * MS)
    assert told(harness) == []
    harness.batch([as_dict(Row(0, 1, v=10))], processing_time=10 * MS)
    assert told(harness) == [(0, 10, [0, 5, 8])]
    harness.processing_time(16 * MS)
    assert told(harness) == [(10, 17, [10])]


def test_late_rows_go_where_they_are_sent():
    kernel = kernel_of(longest=10, lateness=Lateness(0, LateRows.EMIT, ("v",)))
    harness = KernelHarness(kernel, SCHEMA, ["k"])
    harness.watermark(9 * MS)
    harness.rows([as_dict(Row(4, 5, v=1)), as_dict(Row(6, 5, v=2)), as_dict(Row(4, 5, v=3))])
    assert harness.late() == [{"v": 1, "window_start": 4 * MS, "window_end": 9 * MS}]
    harness.finish()
    assert told(harness) == [(4, 11, [2, 3])]


def test_a_late_row_loses_no_rows_of_its_key_where_another_key_fires():
    """The state is read for late rows and for keys that are due, and then replaced; keys lie in several buckets."""
    harness = KernelHarness(kernel_of(), SCHEMA, ["k"])
    harness.rows([as_dict(Row(100, 1_000, v=n), f"k{n}") for n in range(3_000)])
    harness.watermark(50 * MS)
    late = [as_dict(Row(0, 5), f"k{n}") for n in range(0, 3_000, 500)]
    harness.rows([*late, as_dict(Row(45, 10, closes=True, v=-1), "other")])
    assert told(harness) == [(45, 46, [-1])]
    harness.finish()
    assert sorted(vs for *_, vs in told(harness)) == [[n] for n in range(3_000)]


class Model:
    """One row after another, one key after another."""

    def __init__(self, longest: int | None, allowed: int) -> None:
        self.longest, self.allowed = longest, allowed
        self.kept: dict[str | None, list[Row]] = defaultdict(list)
        self.fired: dict[str | None, set[tuple[int, ...]]] = defaultdict(set)
        self.late = 0

    def over(self, end: int, watermark: int | None) -> bool:
        return watermark is not None and watermark >= end - 1 + self.allowed

    def on_row(self, key: str | None, row: Row, watermark: int | None) -> None:
        end = row.time + row.gap
        touches = any(row.time <= k.time + k.gap and k.time <= end for k in self.kept[key])
        if self.over(end, watermark) and not touches:
            self.late += 1
        else:
            self.kept[key].append(row)

    def step(self, watermark: int | None) -> list[tuple]:
        collected = []
        for key in self.kept:
            collected += self.step_of(key, watermark)
        return collected

    def step_of(self, key: str | None, watermark: int | None) -> list[tuple]:
        rows = sorted(self.kept[key], key=lambda row: row.time)
        actual, fired, over = [], set(), set()
        outside = {row.v for row in rows}
        for first, stop, start, end in one_after_another(rows, self.longest):
            members = tuple(sorted(row.v for row in rows[first:stop]))
            outside -= set(members)
            if watermark is not None and watermark >= end - 1:
                fired.add(members)
                if members not in self.fired[key]:
                    actual.append((key, start, end, list(members)))
            if self.over(end, watermark):
                over |= set(members)
        lost = {row.v for row in rows if row.v in outside and self.over(row.time + row.gap, watermark)}
        self.late += len(lost)
        self.fired[key] = fired
        self.kept[key] = [row for row in self.kept[key] if row.v not in over | lost]
        return actual


batches = st.lists(
    st.tuples(st.lists(st.tuples(st.sampled_from(["a", "b", None]), some_rows), max_size=8), st.integers(0, 12)),
    min_size=1,
    max_size=5,
)


@given(batches, limits, st.integers(0, 6), st.booleans(), st.integers(1, 2))
def test_what_comes_out_is_what_comes_out_row_by_row(batches, longest, allowed, restarts, groups):
    harness = KernelHarness(kernel_of(longest, allowed), SCHEMA, ["k"], groups=groups, arrow_rows=3, restarts=restarts)
    model = Model(longest, allowed)
    watermark: int | None = None
    v = 0
    for arriving, advance in batches:
        batch, expected = [], []
        for key, row in arriving:
            v += 1
            batch.append(as_dict(row._replace(v=v), key))
            model.on_row(key, row._replace(v=v), watermark)
            expected += model.step(watermark)
        harness.rows(batch)
        assert_same(harness, expected)
        watermark = (-20 if watermark is None else watermark) + advance
        harness.watermark(watermark * MS)
        assert_same(harness, model.step(watermark))
    harness.finish()
    assert_same(harness, model.step(10**9))
    assert harness.counters["late_rows"] == model.late
    assert not any(store.entries for store in harness.stores)


def assert_same(harness: KernelHarness, expected: list[tuple]) -> None:
    collected = [(row["k"], row["window_start"] // MS, row["window_end"] // MS, row["vs"]) for row in harness.output()]
    assert sorted(collected, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("longest", [None, 7])
def test_nothing_but_the_order_in_time_counts(longest):
    rows = [Row(time, 3, time % 5 != 1, time % 7 == 3, time) for time in range(0, 60, 2)]
    outputs = []
    for order in (rows, rows[::-1], rows[1::2] + rows[::2]):
        harness = KernelHarness(kernel_of(longest), SCHEMA, ["k"])
        harness.rows([as_dict(row) for row in order])
        harness.finish()
        outputs.append([(start, end, sorted(vs)) for start, end, vs in told(harness)])
    assert outputs[0] == outputs[1] == outputs[2]
