"""Top-N works on columns: more rows execute fewer lines of Python than a loop over them would; and the store is asked
as often for many keys as for few."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.udfs.driver import GroupContext
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, MemoryStore
from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.top_n.deduplicate import DeduplicateKernel
from sqlstream.udfs.top_n.kernel import TopNKernel, WindowTopNKernel
from sqlstream.udfs.top_n.order import Order, Ranking
from tests.udfs.windows.test_no_loops import lines_of

SCHEMA = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.string()), ("v", pa.string()), ("ts", pa.int64())])
UPDATING = SCHEMA.append(pa.field(ROW_KIND, pa.string()))
BEST = Ranking(("k",), (Order("v", descending=True),), Number.ROW_NUMBER, 1, 3)

KERNELS = {
    "last": DeduplicateKernel(SCHEMA, ("k",), ("v",), "ts", last=True),
    "best": TopNKernel(SCHEMA, BEST, ("k", "v"), "rn"),
    "best of changes": TopNKernel(UPDATING, BEST, ("k", "v")),
    "best of windows": WindowTopNKernel(SCHEMA, BEST, ("k", "v"), "ts"),
}


def run(name: str, rows: int, keys: int) -> MemoryStore:
    kernel, store = KERNELS[name], MemoryStore()
    for batch in range(2):
        number = np.arange(rows) + batch * rows
        columns = [number % keys * 7919, (number % keys).astype(str), (number * 7919 % 1000).astype(str), number]
        table = pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
        if name == "best of changes":
            table = table.append_column(ROW_KIND, pa.array(np.where(number % 10 == 9, "-D", "+I"), pa.string()))
        context = GroupContext(store, watermark=-1, processing_time=0)
        kernel.on_rows(kernel.combine(table), context)
        if name == "best of windows":
            kernel.on_event_time(int(number[rows // 2]), context)
    return store


@pytest.mark.parametrize("name", KERNELS)
def test_no_row_costs_a_line_of_python(name):
    run(name, 500, 500)  # imports
    few, many = (lines_of(partial(run, name, rows, rows // 2)) for rows in (800, 8_000))
    assert many - few < 2 * 7_200, (few, many)  # in two batches


@pytest.mark.parametrize("name", KERNELS)
def test_the_store_is_asked_as_often_for_many_keys_as_for_few(name):
    few, many = (run(name, 8_000, keys) for keys in (800, 4_000))
    assert many.traffic.gets == few.traffic.gets <= 8
    assert many.traffic.puts == few.traffic.puts <= 4
