"""OVER in any order against a plain model: all rows of a key in a list, sorted and looked through after each batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Nth, Number, Numbered, OverFunction, Place, Placed, Shifted
from sqlstream.udfs.over.updating import UpdatingOverKernel
from sqlstream.udfs.top_n.order import Order
from tests.udfs.top_n.model import place

SCHEMA = pa.schema(
    [(KEY_HASH, pa.int64()), ("k", pa.string()), ("o", pa.int64()), ("v", pa.int64()), (ROW_KIND, pa.string())]
)
SCHEMAS = {"int": SCHEMA, "float": SCHEMA.set(2, pa.field("o", pa.float64()))}
Row = tuple[str, int | None, int | None]
NUMBERS = tuple(Numbered(n.value, n, pa.int32()) for n in Number)
PLACES = (Placed("tile", Place.NTILE, 3), Placed("rank_of_one", Place.PERCENT_RANK), Placed("share", Place.CUME_DIST))


def summed(name: str, frame: Frame) -> Aggregated:
    return Aggregated(AggregateCall(name, "sum", ("v",), pa.int64()), frame)


def over(*functions: OverFunction, order: tuple[Order, ...] = (Order("o"),), ttl: int = 0, kind: str = "int"):
    return UpdatingOverKernel(SCHEMAS[kind], ("k",), order, ("k", "o", "v"), functions, ttl)


def dicts(kind: str, *rows: Row) -> list[dict[str, Any]]:
    return [{"k": k, "o": o, "v": v, ROW_KIND: kind} for k, o, v in rows]


def came(harness: KernelHarness) -> list[tuple[Any, ...]]:
    return [(row.pop(ROW_KIND), *row.values()) for row in harness.output()]


RUNNING = Frame(rows=False, start=None)
WHOLE = Frame(rows=False, start=None, end=None)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_row_updates_the_results_of_those_behind_it(restarts):
    harness = KernelHarness(over(summed("s", RUNNING)), SCHEMA, ["k"], restarts=restarts)
    harness.rows(dicts("+I", ("a", 1, 10), ("a", 3, 30), ("b", 1, 5)))
    assert sorted(came(harness)) == [("+I", "a", 1, 10, 10), ("+I", "a", 3, 30, 40), ("+I", "b", 1, 5, 5)]
    harness.rows(dicts("+I", ("a", 2, 20)))
    assert came(harness) == [("-U", "a", 3, 30, 40), ("+U", "a", 3, 30, 60), ("+I", "a", 2, 20, 30)]
    harness.rows(dicts("-D", ("a", 1, 10)))
    assert came(harness) == [
        ("-D", "a", 1, 10, 10), ("-U", "a", 2, 20, 30), ("+U", "a", 2, 20, 20), ("-U", "a", 3, 30, 60),
        ("+U", "a", 3, 30, 50),
    ]  # fmt: skip


def test_a_row_that_is_retracted_and_added_again_changes_nothing():
    harness = KernelHarness(over(summed("s", WHOLE), order=()), SCHEMA, ["k"])
    harness.rows(dicts("+I", ("a", 1, 10)))
    came(harness)
    harness.rows([*dicts("-U", ("a", 1, 10)), *dicts("+U", ("a", 1, 10))])
    harness.rows(dicts("-D", ("a", 7, 7)))
    assert came(harness) == []
    assert harness.counters[IGNORED] == 1


def test_a_key_is_forgotten_after_its_time_to_live_and_begins_anew():
    harness = KernelHarness(over(summed("s", WHOLE), order=(), ttl=10_000), SCHEMA, ["k"], restarts=True)
    harness.rows(dicts("+I", ("a", 1, 1), ("b", 1, 1)))
    harness.processing_time(6_000)
    harness.rows(dicts("+I", ("a", 1, 2)))
    came(harness)
    harness.processing_time(12_000)
    harness.rows(dicts("+I", ("a", 1, 4), ("b", 1, 4)))
    assert [row for row in came(harness) if row[0] == "+I"] == [("+I", "a", 1, 4, 7), ("+I", "b", 1, 4, 4)]


# --- against the model ------------------------------------------------------------------------------------------

FRAMES = st.one_of(
    st.just(RUNNING), st.just(WHOLE), st.just(Frame(rows=True, start=0, end=None)),
    st.tuples(st.booleans(), st.integers(-3, 2), st.integers(0, 3)).map(lambda f: Frame(f[0], f[1], f[1] + f[2])),
)  # fmt: skip
VALUES = st.one_of(st.none(), st.integers(-3, 3))
ROWS = st.tuples(st.sampled_from("ab"), VALUES, VALUES)
BATCHES = st.lists(st.lists(st.tuples(st.booleans(), ROWS), min_size=1, max_size=6), min_size=1, max_size=5)


def in_frame(frame: Frame, ordered: list[Row], at: int, order: Order) -> list[Row]:
    """The rows of a frame, one by one."""
    if frame.rows:
        start = 0 if frame.start is None else max(0, at + frame.start)
        return ordered[start : len(ordered) if frame.end is None else max(0, at + frame.end + 1)]
    own = ordered[at][1]

    def inside(position: int, other: int | None) -> bool:
        if own is None or other is None:
            peers = own is None and other is None
            after = (frame.start is None and position <= at) or (frame.end is None and position >= at)
            return peers or after
        distance = (own - other) if order.descending else (other - own)
        return (frame.start is None or distance >= frame.start) and (frame.end is None or distance <= frame.end)

    return [row for position, row in enumerate(ordered) if inside(position, row[1])]


def tile(at: int, count: int, buckets: int) -> int:
    """The bucket of a row, by dealing out rows: the first buckets are one longer where they are not equal."""
    sizes = [count // buckets + (bucket < count % buckets) for bucket in range(buckets)]
    return next(bucket + 1 for bucket in range(buckets) if at < sum(sizes[: bucket + 1]))


def nth(values: list[Any], n: int, default: Any = None) -> Any:
    """The ``n``-th value that is not NULL."""
    there = [value for value in values if value is not None]
    return there[n - 1] if len(there) >= n else default


def table(rows: dict[str, list[Row]], frame: Frame, order: Order) -> Counter:
    """Every row with the sum over its frame, its neighbours, the second of its frame, its numbers and places, and the
    values that are not NULL around it."""
    results: Counter = Counter()
    for of_key in rows.values():
        as_dict: list[dict[str, Any]] = [{"o": row[1], "row": row} for row in of_key]
        ordered = [row["row"] for row in sorted(as_dict, key=lambda row: place(row, [order]))]
        places = [place({"o": row[1]}, [order]) for row in ordered]
        for at, row in enumerate(ordered):
            framed = in_frame(frame, ordered, at, order)
            values = [v for _, _, v in framed if v is not None]
            rank = places.index(places[at]) + 1
            dense = 1 + sum(places[i] != places[i + 1] for i in range(rank - 1))
            results[(
                *row, sum(values) if values else None, ordered[at - 1][2] if at else None,
                ordered[at + 1][2] if at + 1 < len(ordered) else None, framed[1][2] if len(framed) > 1 else None,
                at + 1, rank, dense,
                tile(at, len(ordered), 3),
                0.0 if len(ordered) == 1 else (rank - 1) / (len(ordered) - 1),
                (len(places) - places[::-1].index(places[at])) / len(places),
                nth([v for _, _, v in ordered[:at][::-1]], 1, row[1]),
                nth([v for _, _, v in ordered[at + 1 :]], 2),
                nth([v for _, _, v in framed], 2),
            )] += 1  # fmt: skip
    return results


def changed(rows: dict[str, list[Row]], batch: list[tuple[bool, Row]]) -> dict[str, list[Row]]:
    """The rows behind a batch: those that were there keep their places, the others come behind in order of arrival.
    What a batch adds and takes back was never there."""
    weight = Counter(row for adds, row in batch if adds)
    weight.subtract(row for adds, row in batch if not adds)
    behind: dict[str, list[Row]] = defaultdict(list)
    for key, of_key in rows.items():
        for row in of_key:
            behind[key] += [] if weight[row] < 0 else [row]
            weight[row] += 1 if weight[row] < 0 else 0
    for adds, row in batch:
        if adds and weight[row] > 0:
            behind[row[0]].append(row)
            weight[row] -= 1
    return behind


@given(BATCHES, FRAMES, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(list(SCHEMAS)))
def test_what_is_left_is_what_the_model_has(batches, frame, descending, nulls_first, restarts, kind):
    order = Order("o", descending, nulls_first)
    functions: tuple[OverFunction, ...] = (
        summed("s", frame),
        Shifted("before", "v", -1, pa.int64()),
        Shifted("after", "v", 1, pa.int64()),
        Nth("second", "v", 2, frame, pa.int64()),
        *NUMBERS,
        *PLACES,
        Shifted("lag_value", "v", -1, pa.int64(), "o", ignore_nulls=True),
        Shifted("lead_value", "v", 2, pa.int64(), ignore_nulls=True),
        Nth("second_value", "v", 2, frame, pa.int64(), ignore_nulls=True),
    )
    harness = KernelHarness(over(*functions, order=(order,), kind=kind), SCHEMAS[kind], ["k"], restarts=restarts)
    rows: dict[str, list[Row]] = defaultdict(list)
    left: Counter = Counter()
    for batch in batches:
        there = Counter(row for of_key in rows.values() for row in of_key)
        possible = []
        for adds, row in batch:
            if adds or there[row]:
                possible.append((adds, row))
                there[row] += 1 if adds else -1
        rows = changed(rows, possible)
        given_rows = [change for adds, row in possible for change in dicts("+I" if adds else "-D", row)]
        harness.rows(given_rows)
        for change, *values in came(harness):
            left[tuple(values)] += 1 if change in ("+I", "+U") else -1
            assert left[tuple(values)] >= 0 or change == "-U"
        expected = table(rows, frame, order)
        assert +left == expected
