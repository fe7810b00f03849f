"""Rows of any time: those of other keys come out as if the wild ones had not been there, and none of these is lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Global, Tumble
from sqlstream.udfs.event_times import EARLIEST, END_OF_INPUT, LATEST
from sqlstream.udfs.harness import KernelHarness, key_hashes
from sqlstream.udfs.kernel import KEY_HASH, Domain
from sqlstream.udfs.triggers import EveryInterval
from sqlstream.udfs.windows.operator import WindowKernel
from sqlstream.udfs.windows.ranges import AllRows
from sqlstream.udfs.windows.row_measured import LastRows, RowMeasuredKernel
from tests.model.kernels import COLUMNS, INPUT, KEYS, MS, TIME, Stretch, kernel, stream

YEAR_ONE = -62_135_596_800_000_000
WILD = "wild"
TIMES = (
    EARLIEST,
    EARLIEST + 1,
    YEAR_ONE - 9 * 3_600_000_000,
    YEAR_ONE - 1,
    YEAR_ONE,
    -1,
    END_OF_INPUT - MS,
    END_OF_INPUT,
    END_OF_INPUT + MS,
    LATEST - 1,
    LATEST,
)


def with_wild_rows(random: Random, stretch: Stretch) -> pa.Table:
    """A row of the key WILD in some places."""
    rows = stretch.rows.to_pylist()
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(rows))
        row: dict[str, Any] = dict.fromkeys(COLUMNS.names)
        row |= {"k": WILD, TIME: random.choice(TIMES), "v": 5, "n": -1, "text": "w", "gap": 3 * MS, "limit": 2}
        row |= {"opens": True, "closes": False, "high": random.random() < 0.5}
        rows.insert(place, row)
    table = pa.Table.from_pylist(rows, stretch.rows.schema).select(COLUMNS.names)
    return table.append_column(KEY_HASH, key_hashes(table, KEYS))


def played(actual, stretches: list[Stretch], tables: list[pa.Table]) -> list[list[str]]:
    harness = KernelHarness(actual)
    harness.processing_time(-1000)
    outputs = []
    for stretch, rows in zip(stretches, tables, strict=True):
        harness.rows(rows)
        clocks = {"watermark": stretch.watermark, "processing_time": stretch.processing_time}
        for name, time in clocks.items():
            if time is not None:
                harness.batch(**{name: time * MS})
        outputs.append(harness.output())
    harness.finish()
    outputs.append(harness.output())
    return [sorted(str(row) for row in rows if row["k"] != WILD) for rows in outputs]


@pytest.mark.parametrize("seed", range(80))
def test_rows_of_any_time_change_nothing_for_other_keys(seed):
    random = Random(seed)
    actual, stretches = kernel(random), stream(random)
    if isinstance(getattr(actual, "measure", None), LastRows) or isinstance(getattr(actual, "assigner", None), Global):
        pytest.skip("may fire again and again since the time of the first row: see below")
    plain = [stretch.rows for stretch in stretches]
    wild = [with_wild_rows(random, stretch) for stretch in stretches]
    assert played(actual, stretches, wild) == played(actual, stretches, plain), actual


def test_last_rows_do_not_fire_for_thousands_of_years():
    actual = RowMeasuredKernel(INPUT, KEYS, TIME, LastRows(2, 1000 * MS), AllRows(("k", "n")))
    harness = KernelHarness(actual, INPUT, KEYS)
    harness.rows([{"k": "a", "n": 1, TIME: YEAR_ONE}, {"k": "b", "n": 2, TIME: 0}])
    with pytest.raises(
        ExecutionError, match=r"SS468: a window would fire 62,\d+,\d+,\d+ times from 0001-01-01 00:00:01"
    ):
        harness.watermark(3000 * MS)


def test_rows_of_keys_thousands_of_years_apart_do_not_make_each_other_fire():
    actual = RowMeasuredKernel(INPUT, KEYS, TIME, LastRows(2, 1000 * MS), AllRows(("k", "n")))
    harness = KernelHarness(actual, INPUT, KEYS)
    harness.rows([{"k": "a", "n": 1, TIME: 0}, {"k": "b", "n": 2, TIME: LATEST}])
    harness.finish()
    assert [row["n"] for row in harness.output()] == [1, 2]


@pytest.mark.parametrize(
    "assigner", [Global(), Tumble(TIME, 300_000_000_000_000_000)], ids=["global", "ten thousand years"]
)
@pytest.mark.parametrize("ends", [False, True])
def test_intervals_of_event_time_do_not_fire_for_thousands_of_years(assigner, ends):
    counted = Aggregates((AggregateCall("c", "count", (), pa.int64()),), INPUT)
    every = EveryInterval(1000 * MS, Domain.EVENT, TIME)
    harness = KernelHarness(WindowKernel(INPUT, KEYS, assigner, every, counted), INPUT, KEYS)
    harness.rows([{"k": "a", "n": 1, TIME: YEAR_ONE}])
    if ends and isinstance(assigner, Global):
        harness.finish()  # fires at the first multiple, and at the end of the input
        assert [row["c"] for row in harness.output()] == [1, 1]
        return
    with pytest.raises(ExecutionError, match=r"SS468: a window would fire [\d,]+ times from 0001-01-01 00:00:01"):
        harness.finish() if ends else harness.watermark(YEAR_ONE + 200_000_000_000_000_000)
