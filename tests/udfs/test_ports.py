"""Kernels of several inputs: rows of all ports at once, in the harness and through exchange and adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.udfs.driver import unfolded
from sqlstream.udfs.exchange import Blob, Content, Exchange
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import EMITTED_AHEAD, KEY_HASH, Context, Kernel, MemoryStore
from sqlstream.udfs.spark import Watermark
from sqlstream.udfs.spark.call import Arrived, Clocks, GroupEntry, run

LEFT = pa.schema([("k", pa.string()), ("l", pa.int64())])
RIGHT = pa.schema([("k", pa.string()), ("r", pa.int64()), (EMITTED_AHEAD, pa.bool_())])


@dataclass(frozen=True)
class Telling(Kernel):
    """Tells which ports had which values in each call."""

    @property
    def ports(self) -> int:
        return 2

    @property
    def output(self) -> pa.Schema:
        return pa.schema([("told", pa.string())])

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        told = {port: table.column("lr"[port]).to_pylist() for port, table in rows.items()}
        context.emit(pa.table({"told": [str(told)]}))

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        raise AssertionError("no timer was set")


def told(harness: KernelHarness) -> list[str]:
    return [row["told"] for row in harness.output()]


def test_rows_of_all_ports_reach_the_kernel_at_once():
    harness = KernelHarness(Telling(), [LEFT, RIGHT], ["k"])
    harness.rows({0: [{"k": "a", "l": 1}, {"k": "b", "l": 2}], 1: [{"k": "a", "r": 3}]})
    harness.rows([{"k": "a", "r": 4}], port=1)
    assert told(harness) == ["{0: [1, 2], 1: [3]}", "{1: [4]}"]


def test_rows_sent_ahead_come_first_whatever_their_port():
    harness = KernelHarness(Telling(), [LEFT, RIGHT], ["k"])
    harness.rows({0: [{"k": "a", "l": 1}], 1: [{"k": "a", "r": 3}, {"k": "a", "r": 4, EMITTED_AHEAD: True}]})
    assert told(harness) == ["{1: [4]}", "{0: [1], 1: [3]}"]


def test_each_key_group_gets_its_rows_of_every_port():
    harness = KernelHarness(Telling(), [LEFT, RIGHT], ["k"], groups=64)
    keys = [str(i) for i in range(20)]
    harness.rows({0: [{"k": k, "l": int(k)} for k in keys], 1: [{"k": k, "r": int(k)} for k in keys]})
    collected = [eval(text) for text in told(harness)]
    assert sorted(value for ports in collected for value in ports[0]) == list(range(20))
    assert all(ports[0] == ports[1] for ports in collected)


def test_blobs_of_united_exchanges_tell_their_ports():
    blobs = []
    for port, name in enumerate("lr"):
        rows = pa.table({KEY_HASH: [0, 0], name: [10 * port, 10 * port + 1]})
        (only,) = Exchange(Telling(), 1, port=port).blobs(rows.to_batches(), partition=port)
        blobs += [Blob(**{**row, "content": Content(row["content"])}) for row in only.to_pylist()]
    context, _ = run(
        Telling(), Clocks(Watermark.NONE, 0, 0), MemoryStore(), GroupEntry(), Arrived(0, list(reversed(blobs)))
    )
    (table,) = unfolded(Telling(), context.emitted[False])
    assert table.column("told").to_pylist() == ["{0: [0, 1], 1: [10, 11]}"]
