"""OVER against a plain model: a loop over the rows of a key in order of time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, LATE_ROWS, ROW_KIND, Domain
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Nth, Number, Numbered, OverFunction, Shifted
from sqlstream.udfs.over.kernel import OverKernel
from sqlstream.udfs.over.line import Tie

MS = 1000
SCHEMA = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
NUMBERS = tuple(Numbered(n.value, n, pa.int32()) for n in Number)

Row = tuple[str, int, int | None]
"""Key, milliseconds, value."""


def aggregated(name: str, frame: Frame, function: str = "sum", kind: pa.DataType | None = None) -> Aggregated:
    return Aggregated(AggregateCall(name, function, ("v",), kind or pa.int64()), frame)


def over(*functions: OverFunction, domain: Domain = Domain.EVENT) -> OverKernel:
    time = "ts" if domain is Domain.EVENT else None
    return OverKernel(SCHEMA, ("k",), time, ("k", "v"), functions, domain)


def dicts(rows: list[Row]) -> list[dict[str, Any]]:
    return [{"k": k, "ts": ms * MS, "v": v} for k, ms, v in rows]


def values(harness: KernelHarness) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in harness.output()]


LAST_TWO = Frame(rows=True, start=-1)
SECOND = Frame(rows=False, start=-1000 * MS)
ALL = Frame(rows=False, start=None)
ALL_ROWS = Frame(rows=True, start=None)


@pytest.mark.parametrize("restarts", [False, True])
def test_rows_come_out_in_order_of_time_when_the_watermark_reaches_them(restarts):
    harness = KernelHarness(over(aggregated("s", LAST_TWO)), SCHEMA, ["k"], restarts=restarts)
    harness.rows(dicts([("a", 2000, 2), ("a", 1000, 1), ("b", 1500, 10)]))
    assert values(harness) == []
    harness.watermark(1500 * MS)
    assert values(harness) == [("a", 1, 1), ("b", 10, 10)]
    harness.rows(dicts([("a", 3000, 4), ("a", 1400, 99)]))
    assert harness.counters["late_rows"] == 1
    harness.finish()
    assert values(harness) == [("a", 2, 3), ("a", 4, 6)]


def test_peers_see_each_other_in_range_and_not_in_rows():
    harness = KernelHarness(over(aggregated("r", ALL), aggregated("s", ALL_ROWS), *NUMBERS), SCHEMA, ["k"])
    harness.rows(dicts([("a", 1, 1), ("a", 2, 2), ("a", 2, 3), ("a", 3, 4)]))
    harness.finish()
    assert values(harness) == [
        ("a", 1, 1, 1, 1, 1, 1),
        ("a", 2, 6, 3, 2, 2, 2),
        ("a", 3, 6, 6, 3, 2, 2),
        ("a", 4, 10, 10, 4, 4, 3),
    ]


def test_rows_before_a_restart_stand_in_totals():
    harness = KernelHarness(over(aggregated("s", ALL), *NUMBERS), SCHEMA, ["k"], restarts=True)
    for second in range(5):
        harness.batch(dicts([("a", second * 1000 + 1, 1), ("b", second * 1000 + 1, 2)]), watermark=second * 1000 * MS)
    assert [row[2] for row in values(harness) if row[0] == "b"] == [2, 4, 6, 8]
    assert all(len(store.snapshot()) <= 6 for store in harness.stores)
    harness.finish()
    assert values(harness) == [("a", 1, 5, 5, 5, 5), ("b", 2, 10, 5, 5, 5)]


def test_times_come_out_as_microseconds_and_are_kept_once():
    micros = SCHEMA.set(2, pa.field("ts", pa.int64()))
    kernel = OverKernel(micros, ("k",), "ts", ("ts", "v"), (aggregated("s", LAST_TWO),))
    harness = KernelHarness(kernel, micros, ["k"], restarts=True)
    harness.rows(dicts([("a", 2, 2), ("a", 1, 1)]))
    harness.finish()
    assert values(harness) == [(1 * MS, 1, 1), (2 * MS, 2, 3)]
    assert "ts" not in kernel._stored.names


def test_without_keys_all_rows_are_of_one():
    kernel = OverKernel(SCHEMA, (), "ts", ("v",), (aggregated("s", ALL), *NUMBERS))
    harness = KernelHarness(kernel, SCHEMA, [], restarts=True)
    for ms in range(3):
        harness.batch(dicts([("a", ms + 1, 1), ("b", ms + 1, 2)]), watermark=ms * MS)
    harness.finish()
    assert values(harness) == [
        (1, 3, 1, 1, 1),
        (2, 3, 2, 1, 1),
        (1, 6, 3, 3, 2),
        (2, 6, 4, 3, 2),
        (1, 9, 5, 5, 3),
        (2, 9, 6, 5, 3),
    ]


@pytest.mark.parametrize("ties", [(), (Tie("v"),)])
def test_without_keys_rows_come_out_while_later_ones_wait(ties):
    kernel = OverKernel(SCHEMA, (), "ts", ("v",), (aggregated("s", LAST_TWO),), ties=ties)
    harness = KernelHarness(kernel, SCHEMA, [])
    harness.rows(dicts([("a", 3, 4), ("a", 1, 1), ("b", 2, 2)]))
    harness.watermark(2 * MS)
    assert values(harness) == [(1, 1), (2, 3)]
    harness.finish()
    assert values(harness) == [(4, 6)]


def test_ties_order_rows_of_one_time():
    kernel = OverKernel(SCHEMA, ("k",), "ts", ("v",), NUMBERS, ties=(Tie("v", descending=True, nulls_first=False),))
    harness = KernelHarness(kernel, SCHEMA, ["k"])
    harness.rows(dicts([("a", 1, 1), ("a", 1, None), ("a", 1, 3), ("a", 1, 3), ("a", 2, 9)]))
    harness.finish()
    assert values(harness) == [(3, 1, 1, 1), (3, 2, 1, 1), (1, 3, 3, 2), (None, 4, 4, 3), (9, 5, 5, 4)]


def test_ties_need_not_come_out():
    kernel = OverKernel(SCHEMA, ("k",), "ts", ("k",), NUMBERS, ties=(Tie("v", descending=True),))
    harness = KernelHarness(kernel, SCHEMA, ["k"], restarts=True)
    harness.rows(dicts([("a", 1, 1), ("a", 1, 3)]))
    harness.rows(dicts([("a", 1, 2), ("a", 1, 3)]))
    harness.finish()
    assert values(harness) == [("a", 1, 1, 1), ("a", 2, 1, 1), ("a", 3, 3, 2), ("a", 4, 4, 3)]


def test_following_rows_are_waited_for():
    ahead = Frame(rows=True, start=0, end=1)
    soon = Frame(rows=False, start=0, end=1000 * MS)
    harness = KernelHarness(over(aggregated("s", ahead), aggregated("t", soon)), SCHEMA, ["k"])
    harness.rows(dicts([("a", 1000, 1), ("a", 1500, 2), ("a", 2500, 4)]))
    harness.watermark(1999 * MS)
    assert values(harness) == []
    harness.watermark(2000 * MS)
    assert values(harness) == [("a", 1, 3, 3)]
    harness.watermark(3000 * MS)
    assert values(harness) == [("a", 2, 6, 6)]
    harness.finish()
    assert values(harness) == [("a", 4, 4, 4)]


def test_values_of_other_rows():
    lag = Shifted("lag", "v", -1, pa.int64())
    lead = Shifted("lead", "v", 1, pa.int64(), default="v")
    second = Nth("second", "v", 2, Frame(rows=True, start=-2), pa.int64())
    harness = KernelHarness(over(lag, lead, second), SCHEMA, ["k"], restarts=True)
    harness.rows(dicts([("a", 1, 1), ("a", 2, 2), ("b", 1, 7)]))
    harness.watermark(2 * MS)
    assert values(harness) == [("a", 1, None, 2, None)]
    harness.rows(dicts([("a", 3, 3)]))
    harness.finish()
    assert sorted(values(harness)) == [("a", 2, 1, 3, 2), ("a", 3, 2, 3, 2), ("b", 7, None, 7, None)]


def test_processing_time_answers_at_once():
    functions: tuple[OverFunction, ...] = (aggregated("s", ALL), aggregated("r", SECOND), *NUMBERS)
    harness = KernelHarness(over(*functions, domain=Domain.PROCESSING), SCHEMA, ["k"], restarts=True)
    harness.rows(dicts([("a", 0, 1), ("a", 0, 2)]))
    assert values(harness) == [("a", 1, 1, 1, 1, 1, 1), ("a", 2, 3, 3, 2, 2, 2)]
    harness.batch(dicts([("a", 0, 4)]), processing_time=1000 * MS)
    harness.batch(dicts([("a", 0, 8)]), processing_time=1001 * MS)
    assert values(harness) == [("a", 4, 7, 7, 3, 3, 3), ("a", 8, 15, 12, 4, 4, 4)]


def test_what_frames_in_time_no_longer_hold_goes_without_new_rows():
    harness = KernelHarness(over(aggregated("s", SECOND)), SCHEMA, ["k"])
    harness.rows(dicts([("a", 0, 1), ("b", 500, 2)]))
    harness.watermark(500 * MS)
    harness.watermark(1500 * MS)
    assert all(store.snapshot() == {} for store in harness.stores)


# --- a model --------------------------------------------------------------------------------------------------


def model(rows: list[Row], frame: Frame) -> dict[int, Any]:
    """By the row's number: the values of its frame, and its three numbers."""
    assert frame.end is not None
    by_key: dict[str, list[tuple[int, int, int | None]]] = defaultdict(list)
    for number, (k, ms, v) in enumerate(rows):
        by_key[k].append((ms * MS, number, v))
    collected: dict[Any, Any] = {}
    for line in by_key.values():
        line.sort(key=lambda row: row[:2])
        times = [time for time, *_ in line]
        for i, (time, number, _) in enumerate(line):
            if frame.rows:
                low = 0 if frame.start is None else max(0, i + frame.start)
                inside = line[low : max(0, i + frame.end + 1)]
            else:
                inside = [
                    r for r in line if (frame.start is None or r[0] >= time + frame.start) and r[0] <= time + frame.end
                ]
            rank = times.index(time) + 1
            collected[number] = ([v for *_, v in inside], i + 1, rank, len(set(times[:rank])))
    return collected


offsets = st.integers(-4, 4)
frames = st.builds(
    lambda rows, ends: Frame(rows, ends[0], ends[1]) if rows else Frame(rows, _ms(ends[0]), ends[1] * MS),
    st.booleans(),
    st.tuples(st.none() | offsets, offsets).filter(lambda e: e[0] is None or e[0] <= e[1]),
)


def _ms(offset: int | None) -> int | None:
    return None if offset is None else offset * MS


streams = st.lists(
    st.tuples(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12)), max_size=6), st.integers(0, 5)), max_size=5
)


@settings(max_examples=300)
@given(streams, st.lists(frames, min_size=1, max_size=3), st.booleans())
def test_any_frame_is_that_of_the_model(stream, frames, restarts):
    lists = tuple(aggregated(f"l{i}", f, "collect_list", pa.list_(pa.int64())) for i, f in enumerate(frames))
    harness = KernelHarness(over(*lists, *NUMBERS), SCHEMA, ["k"], restarts=restarts)
    taken: list[Row] = []
    watermark = 0
    for rows, further in stream:
        numbered = [(k, watermark + ms, 0) for k, ms in rows]
        in_time = [row for row in numbered if row[1] > watermark or watermark == 0]
        batch: list[Row] = []
        for k, ms, _ in in_time:
            batch.append((k, ms, len(taken)))
            taken.append(batch[-1])
        harness.rows(dicts([*batch, *((k, ms, -1) for k, ms, _ in numbered if (k, ms, 0) not in in_time)]))
        watermark += further
        if further:
            harness.watermark(watermark * MS)
    harness.finish()
    collected = {row[1]: row[2:] for row in values(harness)}
    expected = [model(taken, frame) for frame in frames]
    assert collected == {
        number: (*(e[number][0] for e in expected), *expected[0][number][1:]) for number in range(len(taken))
    }
    assert all(store.snapshot() == {} for store in harness.stores) or harness.stores


# --- functions that skip NULLs, and NTH_VALUE of all rows before --------------------------------------------

NUMBERED = pa.schema([*SCHEMA, ("n", pa.int64())])


def other_row(name: str, offset: int, *, ignore: bool = True) -> Shifted:
    return Shifted(name, "v", offset, pa.int64(), "n", ignore_nulls=ignore)


def looked_up(line: list[tuple[int, int, int | None]], i: int, function: OverFunction) -> Any:
    """The result of LAG, LEAD or NTH_VALUE for the ``i``-th of the rows ``(time, number, value)`` of a key."""
    if isinstance(function, Shifted):
        others = line[i + 1 :] if function.offset > 0 else line[:i][::-1]
        found = [v for *_, v in others if v is not None or not function.ignore_nulls]
        return found[abs(function.offset) - 1] if len(found) >= abs(function.offset) else line[i][1]
    assert isinstance(function, Nth)
    frame = function.frame
    assert frame.end is not None
    low = 0 if frame.start is None else max(0, i + frame.start)
    inside = line[low : max(0, i + frame.end + 1)]
    if not frame.rows:
        inside = [row for row in line if row[0] <= line[i][0]]
    found = [v for *_, v in inside if v is not None or not function.ignore_nulls]
    return found[function.n - 1] if len(found) >= function.n else None


LOOKING: tuple[OverFunction, ...] = (
    other_row("lag", -1), other_row("lag_3", -3), other_row("lag_plain", -2, ignore=False),
    other_row("lead", 1), other_row("lead_2", 2),
    *(Nth(f"nth_{i}", "v", n, frame, pa.int64(), ignore)
      for i, (n, frame, ignore) in enumerate([
          (1, ALL, True), (2, ALL, False), (3, ALL_ROWS, True), (2, ALL_ROWS, False), (1, LAST_TWO, True),
          (2, Frame(rows=True, start=-2, end=1), True), (2, Frame(rows=True, start=None, end=-1), True)])),
)  # fmt: skip

maybe = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.none() | st.integers(0, 9)), max_size=6),
        st.integers(0, 5),
    ),
    max_size=5,
)


@settings(max_examples=150)
@given(
    maybe,
    st.lists(st.sampled_from(LOOKING), min_size=1, max_size=4, unique=True),
    st.sampled_from([1, 3]),
    st.booleans(),
)
def test_what_skips_nulls_is_that_of_the_model(stream, functions, groups, restarts):
    functions = [function for function in LOOKING if function in functions]
    kernel = OverKernel(NUMBERED, ("k",), "ts", ("k", "n"), tuple(functions))
    harness = KernelHarness(kernel, NUMBERED, ["k"], groups=groups, restarts=restarts)
    by_key: dict[str, list[tuple[int, int, int | None]]] = defaultdict(list)
    watermark, number = 0, 0
    for rows, further in stream:
        batch = []
        for k, ms, v in rows:
            by_key[k].append(((watermark + ms) * MS, number, v))
            batch.append({"k": k, "ts": (watermark + ms) * MS, "v": v, "n": number})
            number += 1
        harness.rows(batch)
        watermark += further
        harness.watermark(watermark * MS)
    harness.finish()
    found = {row[1]: row[2:] for row in values(harness)}
    lines = [sorted(line, key=lambda row: row[:2]) for line in by_key.values()]
    assert found == {
        line[i][1]: tuple(looked_up(line, i, f) for f in functions) for line in lines for i in range(len(line))
    }


def test_lead_waits_for_a_value():
    kernel = OverKernel(NUMBERED, ("k",), "ts", ("n",), (other_row("lead", 1),))
    harness = KernelHarness(kernel, NUMBERED, ["k"], restarts=True)

    def row(n: int, v: int | None) -> dict[str, Any]:
        return {"k": "a", "ts": n * MS, "v": v, "n": n}

    harness.rows([row(1, 5), row(2, None)])
    harness.watermark(5 * MS)
    harness.rows([row(6, None)])
    harness.watermark(9 * MS)
    assert values(harness) == []
    harness.rows([row(10, 7)])
    harness.watermark(10 * MS)
    assert values(harness) == [(1, 7), (2, 7), (6, 7)]
    harness.finish()
    assert values(harness) == [(10, 10)]


WILD = (-11_676_803 * 86_400_000, -62_135_629_200_000, -1, 253_402_300_799_999, 10_237_747 * 86_400_000 - 1)
"""Milliseconds: the edges of what rows may have, the year 1 in Tokyo, before 1970, the last one of the year 9999."""


@pytest.mark.parametrize("frame", [LAST_TWO, SECOND, ALL, ALL_ROWS, Frame(False, -(3 * 10**17), 3 * 10**17)])
def test_rows_of_any_time_change_nothing_for_other_keys_and_come_out(frame):
    plain: list[Row] = [(k, step * n, n) for k, step in (("a", 1000), ("b", 700)) for n in range(5)]
    collected = {}
    for wild in ((), WILD):
        harness = KernelHarness(over(aggregated("s", frame)), SCHEMA, ["k"], restarts=True)
        harness.rows(dicts([*(("wild", ms, 7) for ms in wild), *plain]))
        harness.watermark(2500 * MS)
        harness.rows(dicts([("a", 9000, 9), *(("wild", ms, 7) for ms in wild)]))
        late = harness.counters["late_rows"]
        harness.finish()
        collected[wild] = values(harness)
    assert sorted(row for row in collected[WILD] if row[0] != "wild") == sorted(collected[()])
    assert sum(row[0] == "wild" for row in collected[WILD]) == 2 * len(WILD) - late
    assert late == 3


# --- rows that come and go ------------------------------------------------------------------------------------

UPDATING = SCHEMA.append(pa.field(ROW_KIND, pa.string()))


@st.composite
def changing(draw: Any) -> list[tuple[list[tuple[str, Row]], int]]:
    """Micro-batches of rows that come, and go until the watermark has passed them, with the watermark behind each."""
    held: list[Row] = []
    batches, watermark = [], 0
    for _ in range(draw(st.integers(1, 5))):
        changes = []
        for _ in range(draw(st.integers(0, 6))):
            if held and draw(st.booleans()):
                changes.append((draw(st.sampled_from(["-U", "-D"])), held.pop(draw(st.integers(0, len(held) - 1)))))
            else:
                time = st.integers(watermark - 2, watermark + 9)
                held.append(draw(st.tuples(st.sampled_from("ab"), time, st.sampled_from([1, 2, None]))))
                changes.append((draw(st.sampled_from(["+I", "+U"])), held[-1]))
        watermark += draw(st.integers(0, 5))
        held = [row for row in held if row[1] > watermark]
        batches.append((changes, watermark))
    return batches


@settings(max_examples=100)
@given(script=changing(), groups=st.sampled_from([1, 3]), restarts=st.booleans())
def test_rows_that_go_before_the_watermark_were_never_there(script, groups, restarts):
    frames: tuple[OverFunction, ...] = (
        aggregated("s", ALL),
        aggregated("w", Frame(rows=True, start=-1, end=1)),
        *NUMBERS,
    )
    kernel = OverKernel(UPDATING, ("k",), "ts", ("k", "v"), frames)
    harness = KernelHarness(kernel, UPDATING, ["k"], groups=groups, restarts=restarts)
    left: list[Row] = []
    watermark, late = -(10**6), 0
    for changes, reached in script:
        kinds = ({ROW_KIND: kind} for kind, _ in changes)
        rows = [row | kind for row, kind in zip(dicts([row for _, row in changes]), kinds, strict=True)]
        late += sum(row[1] <= watermark for _, row in changes)
        for kind, row in changes:
            if row[1] > watermark and kind[0] == "+":
                left.append(row)
            elif row[1] > watermark:
                del left[max(i for i, other in enumerate(left) if other == row)]
        harness.rows(rows)
        harness.watermark(reached * MS)
        watermark = reached
    harness.finish()
    plain = KernelHarness(over(*frames), SCHEMA, ["k"])
    plain.rows(dicts(left))
    plain.finish()
    assert Counter(values(harness)) == Counter(values(plain))
    assert (harness.counters[LATE_ROWS], harness.counters[IGNORED]) == (late, 0)


def test_a_row_that_goes_and_never_came_is_counted():
    kernel = OverKernel(UPDATING, ("k",), "ts", ("k", "v"), ())
    harness = KernelHarness(kernel, UPDATING, ["k"], restarts=True)
    harness.rows([dicts([("a", 5, 1)])[0] | {ROW_KIND: "-D"}])
    harness.finish()
    assert values(harness) == []
    assert harness.counters[IGNORED] == 1
