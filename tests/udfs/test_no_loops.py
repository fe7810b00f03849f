"""GROUP BY, set operations, changes by key and OVER work on columns: more rows execute fewer lines of Python than a
loop over them would; and the store is asked as often for many keys as for few.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.udfs.changes import SetKind
from sqlstream.udfs.changes.kernels import NormalizeKernel, SetOperationKernel
from sqlstream.udfs.driver import GroupContext
from sqlstream.udfs.groups.kernel import GroupAggregateKernel
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, MemoryStore
from sqlstream.udfs.over.functions import Nth, Number, Numbered, Shifted
from sqlstream.udfs.over.kernel import OverKernel
from sqlstream.udfs.state.time_to_live import TimeToLive
from tests.udfs.groups.test_group_aggregate import kernel as groups
from tests.udfs.over.test_over import ALL_ROWS, LAST_TWO, aggregated, over
from tests.udfs.windows.test_no_loops import lines_of

FIELDS = pa.schema([("k", pa.string()), ("n", pa.int64())])
CHANGED = pa.schema([(KEY_HASH, pa.int64()), *FIELDS, (ROW_KIND, pa.string())])

Tried = GroupAggregateKernel | SetOperationKernel | NormalizeKernel | OverKernel

KERNELS: dict[str, Tried] = {
    "sums": groups("count", "sum"),
    "sums of changes": groups("count", "sum", updates=True),
    "distinct": groups("distinct"),
    "distinct of changes": groups("distinct", updates=True),
    "extremes of changes": groups("min", updates=True),
    "lists of changes": groups("sorted", updates=True),
    "EXCEPT": SetOperationKernel(SetKind.EXCEPT, FIELDS, TimeToLive(), updates=True),
    "changes by key": NormalizeKernel(CHANGED, ("k",), ("k", "n")),
    "OVER": over(aggregated("s", LAST_TWO), aggregated("t", ALL_ROWS), Numbered("n", Number.RANK, pa.int32())),
    "OVER that skips NULLs": over(
        Shifted("l", "v", -1, pa.int64(), ignore_nulls=True),
        Nth("s", "v", 2, ALL_ROWS, pa.int64(), ignore_nulls=True),
    ),
}


def table(kernel: Tried, rows: int, keys: int, batch: int) -> pa.Table:
    """Of each ten rows the last withdraws the one before, where rows update."""
    number = np.arange(rows) + batch * rows
    number[9::10] -= 1
    key = number % keys
    columns = {
        KEY_HASH: pa.array(key * 7919),
        "k": pa.array(key.astype(str)),
        "n": pa.array(number),
        "v": pa.array(number),
    }
    columns["ts"] = pa.array(number).cast(pa.timestamp("us", "UTC"))
    columns[ROW_KIND] = pa.array(np.where(np.arange(rows) % 10 == 9, "-D", "+I"), pa.string())
    schema = pa.schema([(KEY_HASH, pa.int64()), *FIELDS]) if isinstance(kernel, SetOperationKernel) else kernel.input
    collected = [columns[f.name] if f.name in columns else pa.nulls(rows, f.type) for f in schema]
    return pa.Table.from_arrays(collected, schema=schema)


def run(name: str, rows: int, keys: int) -> MemoryStore:
    kernel, store = KERNELS[name], MemoryStore()
    for batch in range(2):
        context = GroupContext(store, watermark=-1, processing_time=0)
        arrived = table(kernel, rows, keys, batch)
        if isinstance(kernel, SetOperationKernel):
            kernel.on_ports({0: arrived, 1: arrived.slice(0, rows // 2)}, context)
        else:
            kernel.on_rows(kernel.combine(arrived), context)
        if isinstance(kernel, OverKernel):
            context.watermark = rows * batch + rows // 2
            kernel.on_event_time(context.watermark, context)
    return store


@pytest.mark.parametrize("name", KERNELS)
def test_no_row_costs_a_line_of_python(name: str) -> None:
    run(name, 500, 500)  # imports
    few, many = (lines_of(_running(name, rows)) for rows in (800, 8_000))
    assert many - few < 2 * 7_200, (few, many)  # in two batches


@pytest.mark.parametrize("name", KERNELS)
def test_the_store_is_asked_as_often_for_many_keys_as_for_few(name: str) -> None:
    few, many = (run(name, 8_000, keys) for keys in (800, 4_000))
    assert many.traffic.gets == few.traffic.gets <= 12
    assert many.traffic.puts == few.traffic.puts <= 8


def _running(name: str, rows: int) -> Callable[[], object]:
    return partial(run, name, rows, rows // 2)
