"""Joins work on columns: more rows execute fewer lines of Python than a loop over them would, those for buckets of
state alone; and the store is asked as often for many keys as for few."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.udfs.driver import GroupContext
from sqlstream.udfs.expressions.tree import Column, Compared, Comparison
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.asof import VALUE, AsofJoinKernel
from sqlstream.udfs.joins.interval import TIME
from sqlstream.udfs.joins.pairs import Side
from sqlstream.udfs.joins.regular import RegularJoinKernel
from sqlstream.udfs.joins.temporal import SLACK, ProcessingTimeTemporalJoinKernel, TemporalJoinKernel
from sqlstream.udfs.joins.window import END, WindowJoinKernel
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, MemoryStore
from tests.udfs.joins.test_interval import LEFT, RIGHT, kernel
from tests.udfs.windows.test_no_loops import lines_of

SECOND = 1_000_000


def regular(updates):
    kinds = [pa.field(ROW_KIND, pa.string())] if updates else []
    left, right = (Side(pa.schema([*side.input, *kinds]), side.outputs) for side in (LEFT, RIGHT))
    return RegularJoinKernel(JoinKind.FULL, (left, right), ("key",), (False,))


def asof(conditional):
    """Right rows by their times; of ten rows of a key only those that came with the left one may be its partner."""
    left, right = (
        Side(pa.schema([*side.input, pa.field(VALUE, pa.int64()), pa.field(ROW_KIND, pa.string())]), side.outputs)
        for side in (LEFT, RIGHT)
    )
    condition = Compared(Comparison.EQUAL, Column(TIME, 0), Column(TIME, 1)) if conditional else None
    return AsofJoinKernel((left, right), outer=True, keys=("key",), null_safe=(False,), condition=condition)


KERNELS = {
    "interval": (kernel(JoinKind.FULL, lower=-SECOND, upper=SECOND), False),
    "regular": (regular(False), False),
    "regular, updating": (regular(True), True),
    "asof": (asof(False), True),
    "asof, condition": (asof(True), True),
    "present": (ProcessingTimeTemporalJoinKernel((LEFT, RIGHT), outer=True, keys=("key",), null_safe=(False,)), False),
}


def table(side, name, rows, keys, updating):
    """Of each ten rows the last withdraws the first, where rows update."""
    number = np.arange(rows)
    key, value = number % keys, number % 10 * (not updating) + number // 10 * 10
    columns = {KEY_HASH: key * 7919, VALUE: value, "key": pa.array(key.astype(str)), TIME: number, name: value}
    if updating:
        columns[ROW_KIND] = pa.array(np.where(number % 10 == 9, "-D", "+I"), pa.string())
        columns["key"] = pa.array((number // 10 % keys).astype(str))
        columns[KEY_HASH] = number // 10 % keys * 7919
    return pa.table(columns)


AT_THE_WATERMARK = {
    "temporal": TemporalJoinKernel((LEFT, RIGHT), outer=True, keys=("key",), null_safe=(False,), first_by=("r",)),
    "window": WindowJoinKernel(JoinKind.FULL, (LEFT, RIGHT), ("key",), (False,)),
}


def run_to(watermark, name, rows, keys):
    """A micro-batch, and what comes of it when the watermark passes all its rows."""
    joining = AT_THE_WATERMARK[name]
    parts = {p: table(s, n, rows, keys, False) for p, (s, n) in enumerate(((LEFT, "l"), (RIGHT, "r")))}
    ends = {p: part.append_column(END, part.column(TIME)) for p, part in parts.items()}
    context = GroupContext(MemoryStore())
    joining.on_ports(ends if name == "window" else parts, context)
    joining.on_event_time(watermark, context)
    assert sum(item.num_rows for item in context.emitted[True]) >= rows


@pytest.mark.parametrize("name", AT_THE_WATERMARK)
def test_no_row_that_waits_for_the_watermark_costs_a_line_of_python(name):
    run_to(SLACK, name, 500, 500)  # imports
    few, many = (lines_of(partial(run_to, SLACK, name, rows, rows // 2)) for rows in (800, 8_000))
    assert many - few < 2 * 7_200, (few, many)


def run(name, rows, keys):
    joining, updating = KERNELS[name]
    store = MemoryStore()
    for _ in range(2):
        context = GroupContext(store, watermark=0, processing_time=0)
        parts = {p: table(s, n, rows, keys, updating) for p, (s, n) in enumerate(((LEFT, "l"), (RIGHT, "r")))}
        joining.on_ports(parts, context)
    return store


@pytest.mark.parametrize("name", KERNELS)
def test_no_row_costs_a_line_of_python(name):
    run(name, 500, 500)  # imports
    few, many = (lines_of(partial(run, name, rows, rows // 2)) for rows in (800, 8_000))
    assert many - few < 4 * 7_200, (few, many)  # of two sides, in two batches


@pytest.mark.parametrize(
    "name", [name for name in KERNELS if name != "present"]
)  # it writes what changes, here nothing
def test_the_store_is_asked_as_often_for_many_keys_as_for_few(name):
    few, many = (run(name, 8_000, keys) for keys in (800, 4_000))
    assert many.traffic.gets == few.traffic.gets <= 12
    assert many.traffic.puts == few.traffic.puts <= 4
