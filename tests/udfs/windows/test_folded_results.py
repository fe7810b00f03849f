"""Results that are many more than what they are made of: they leave folded, and come out in parts, the same ones."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Cumulate, Hop, Tumble
from sqlstream.udfs.driver import Folded, GroupContext, MicroBatch, drive, unfolded
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, MOST_RESULTS, MemoryStore
from sqlstream.udfs.windows import aligned, panes, row_measured
from sqlstream.udfs.windows.aligned import AlignedWindows
from sqlstream.udfs.windows.ranges import AllRows
from sqlstream.udfs.windows.row_measured import LastRows, RowMeasuredKernel

SECOND = 1_000_000
DAY = 86_400 * SECOND
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), (KEY_HASH, pa.int64())])
CALLS = (
    AggregateCall("n", "count", (), pa.int64()),
    AggregateCall("s", "sum", ("v",), pa.int64()),
    AggregateCall("m", "max", ("v",), pa.int64()),
)
FEW = 100


def windows(assigner):
    return AlignedWindows(("k",), assigner, Aggregates(CALLS, SCHEMA))


def fired(kernel, rows, watermark):
    """What the kernel has emitted when the watermark passes."""
    context = GroupContext(MemoryStore())
    drive(kernel, context, MicroBatch(-(2**63), -(2**63), rows={0: [kernel.combine(rows)]}), holds=False)
    drive(kernel, context, MicroBatch(watermark, -(2**63)), holds=False)
    return context.emitted[True] + context.emitted[False]


def rows_of(random, count, span, keys=7):
    columns = {
        "k": [f"k{random.randrange(keys)}" for _ in range(count)],
        "v": [random.randrange(100) for _ in range(count)],
        "ts": [random.randrange(span) * SECOND for _ in range(count)],
        KEY_HASH: [0] * count,
    }
    return pa.table(columns, schema=SCHEMA)


def test_a_day_by_the_second_leaves_folded_and_comes_out_in_parts():
    kernel = windows(Hop("ts", SECOND, DAY))
    (folded,) = fired(kernel, rows_of(Random(1), 20, 1000, keys=20), 3 * DAY)
    assert isinstance(folded, Folded)
    assert folded.num_rows <= 20
    sizes = [part.num_rows for part in unfolded(kernel, [folded])]
    keys = len({row["k"] for row in folded.rows.to_pylist()})
    assert sum(sizes) > 4 * MOST_RESULTS
    assert max(sizes) <= MOST_RESULTS + keys
    assert len(sizes) < 2 * sum(sizes) / MOST_RESULTS + 2


def test_few_results_leave_as_they_are():
    kernel = windows(Hop("ts", 2 * SECOND, 10 * SECOND))
    emitted = fired(kernel, rows_of(Random(1), 1000, 100), DAY)
    assert not any(isinstance(part, Folded) for part in emitted)


ZONE = "Europe/Berlin"
SPRING = 1711843200  # 2024-03-31, when an hour is skipped
ASSIGNERS = (
    Hop("ts", SECOND, 300 * SECOND),
    Hop("ts", 7 * SECOND, 300 * SECOND, 3 * SECOND),
    Cumulate("ts", SECOND, 600 * SECOND),
    Cumulate("ts", 600 * SECOND, DAY, zone=ZONE),
    Hop("ts", 60 * SECOND, 3600 * SECOND, zone=ZONE),
    Tumble("ts", 60 * SECOND),
)


@pytest.mark.parametrize("assigner", ASSIGNERS)
@pytest.mark.parametrize("seed", range(3))
def test_folded_results_are_those_that_are_not_folded(assigner, seed, monkeypatch):
    kernel, random = windows(assigner), Random(seed)
    shifted = rows_of(random, 60, 2000).to_pylist()
    rows = pa.Table.from_pylist([{**row, "ts": row["ts"] + SPRING * SECOND * (seed != 1)} for row in shifted], SCHEMA)
    watermark = random.choice([1500, 2500, 10 * 86_400]) * SECOND + SPRING * SECOND * (seed != 1)
    plain = pa.concat_tables([kernel.output.empty_table(), *fired(kernel, rows, watermark)])
    for module in (aligned, panes):
        monkeypatch.setattr(module, "MOST_RESULTS", FEW)
    emitted = fired(kernel, rows, watermark)
    parts = list(unfolded(kernel, emitted))
    assert pa.concat_tables([kernel.output.empty_table(), *parts]).to_pylist() == plain.to_pylist()
    folds = plain.num_rows > 4 * FEW and not isinstance(assigner, Tumble)
    assert any(isinstance(part, Folded) for part in emitted) == folds or plain.num_rows < 1000
    if folds:
        assert max(part.num_rows for part in parts) <= FEW + 7


def test_holes_between_rows_cost_no_parts(monkeypatch):
    """Two thousand years between two rows are not walked through."""
    for module in (aligned, panes):
        monkeypatch.setattr(module, "MOST_RESULTS", FEW)
    kernel = windows(Hop("ts", SECOND, 300 * SECOND))
    times = [-62_135_596_800 * SECOND, 0, 1_700_000_000 * SECOND]
    rows = pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3], "ts": times, KEY_HASH: [0, 0, 0]}, schema=SCHEMA)
    parts = list(unfolded(kernel, fired(kernel, rows, 2**62)))
    assert sum(part.num_rows for part in parts) == 900
    assert len(parts) <= 3 * (300 // (FEW // 2) + 1)
    ends = [end for part in parts for end in part.column("window_end").cast(pa.int64()).to_pylist()]
    assert all(before <= after for before, after in pairwise(ends))


# --- the last rows at each moment -----------------------------------------------------------------------------

FUNCTIONS: dict[str, Aggregates | AllRows] = {"aggregates": Aggregates(CALLS, SCHEMA), "rows": AllRows(("k", "v"))}


def last_rows(function, size=3):
    return RowMeasuredKernel(SCHEMA, ("k",), "ts", LastRows(size, SECOND), FUNCTIONS[function])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_last_rows_at_each_second_leave_folded_and_come_out_in_parts(function):
    """Three rows, and results for years: a call holds the rows."""
    kernel = last_rows(function)
    rows = pa.table({"k": ["a", "a", "b"], "v": [1, 2, 3], "ts": [0, SECOND, 0], KEY_HASH: [0] * 3}, schema=SCHEMA)
    (folded,) = fired(kernel, rows, 10 * DAY)
    assert isinstance(folded, Folded)
    assert folded.num_rows == 3
    sizes = [part.num_rows for part in unfolded(kernel, [folded])]
    assert sum(sizes) > 4 * MOST_RESULTS
    assert max(sizes) <= MOST_RESULTS + 3


def test_many_rows_in_each_window_come_out_in_parts(monkeypatch):
    monkeypatch.setattr(row_measured, "MOST_RESULTS", FEW)
    kernel = last_rows("rows", size=30)
    rows = rows_of(Random(1), 60, 20, keys=2)
    (folded,) = fired(kernel, rows, 100 * SECOND)
    sizes = [part.num_rows for part in unfolded(kernel, [folded])]
    assert sum(sizes) > 40 * FEW
    assert max(sizes) < FEW + 30


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_folded_last_rows_are_those_that_are_not_folded(function, seed, monkeypatch):
    random, kernel = Random(seed), last_rows(function)
    rows = rows_of(random, 50, 2000)
    watermark = random.choice([1500, 2500, 9000]) * SECOND if seed else END_OF_TIME
    plain = pa.concat_tables([kernel.output.empty_table(), *fired(kernel, rows, watermark)])
    for most in ("MOST_RESULTS", "MOST_FIRINGS"):
        monkeypatch.setattr(row_measured, most, FEW)
    emitted = fired(kernel, rows, watermark)
    assert any(isinstance(part, Folded) for part in emitted)
    parts = list(unfolded(kernel, emitted))
    assert len(parts) > 1
    assert pa.concat_tables([kernel.output.empty_table(), *parts]).to_pylist() == plain.to_pylist()
