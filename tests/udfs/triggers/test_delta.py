"""DELTA below other triggers."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners.assigner import Global
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, Domain
from sqlstream.udfs.triggers.clocks import AfterDelay
from sqlstream.udfs.triggers.combined import And
from sqlstream.udfs.triggers.counting import Delta
from sqlstream.udfs.windows.operator import WindowKernel

_NUMBERS = ("ts", "v", "n", "threshold", KEY_HASH)
SCHEMA = pa.schema([("k", pa.string()), *((name, pa.int64()) for name in _NUMBERS)])
LISTS = Aggregates((AggregateCall("ns", "collect_list", ("n",), pa.list_(pa.int64())),), SCHEMA)
MS = 1000


def test_each_firing_below_and_moves_the_reference():
    trigger = And(Delta("v", "threshold"), AfterDelay(MS, renewed=True))
    kernel = WindowKernel(
        input=SCHEMA, keys=("k",), assigner=Global(Domain.EVENT), trigger=trigger, function=LISTS, time="ts"
    )
    harness = KernelHarness(kernel, SCHEMA, ["k"])

    def rows(*values):
        harness.rows([{"k": "a", "ts": 0, "v": v, "n": v, "threshold": 0} for v in values])

    rows(0, 1, 2)
    harness.processing_time(MS)
    assert [row["ns"] for row in harness.output()] == [[0, 1, 2]]
    rows(2)
    harness.processing_time(2 * MS)
    assert harness.output() == []
    rows(3)
    harness.processing_time(3 * MS)
    assert [row["ns"] for row in harness.output()] == [[0, 1, 2, 2, 3]]
