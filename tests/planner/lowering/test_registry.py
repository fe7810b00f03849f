"""Completeness: every plan node has a lowering and a description of it."""

from __future__ import annotations

import inspect

import pytest

from sqlstream.planner import nodes
from sqlstream.planner.lowering import explain_physical
from sqlstream.planner.lowering.lower import lower_node
from sqlstream.planner.lowering.physical import physical
from sqlstream.planner.nodes import AssignWindows, Hop, Output, WindowAggregate
from tests.streams import item, table, timed

CONCRETE = [
    kind
    for _, kind in inspect.getmembers(nodes, inspect.isclass)
    if issubclass(kind, nodes.Node) and kind not in (nodes.Node, nodes.Unary)
]


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("registry", [lower_node, physical], ids=["lowering", "physical"])
def test_every_node_is_registered(kind, registry):
    assert registry.dispatch(kind) is not registry.dispatch(object)


def test_the_physical_tree_says_what_each_node_becomes():
    events = table("events", delay_ms=5000, k="STRING", ts="TIMESTAMP")
    windows = AssignWindows(timed(events), Hop(2000, 5000), "ts", ())
    aggregated = WindowAggregate(windows, ("k",), (item("n", "COUNT(DISTINCT k)"),))
    plan = Output(aggregated, ("k", "a", "b", "c", "n"))
    assert explain_physical(plan, "native").splitlines() == [
        "Output(k, a, b, c, n): rows to the caller, once per micro-batch",
        "└─ WindowAggregate(keys k; HOP slide 2 s size 5 s; COUNT(DISTINCT k) AS n): streaming aggregation by k, "
        "window in append mode, state in RocksDB, DISTINCT values kept as sets",
        "   └─ AssignWindows(HOP slide 2 s size 5 s on ts): explode of up to 3 windows per row",
        '      └─ AssignTime(ts, watermark ts - 5 s): union with the control rows of "events", withWatermark on the '
        "time column (delay 5 s), then a filter that takes the control rows out",
        '         └─ Scan(events: k, ts): stream of connector "test"',
    ]
    assert explain_physical(plan).splitlines()[1] == (
        "└─ WindowAggregate(keys k; HOP slide 2 s size 5 s; COUNT(DISTINCT k) AS n): exchange by key group, kernel of "
        "window by window, aggregates of the rows kept, state in RocksDB"
    )
    assert "nothing, no window waits" in explain_physical(timed(events))
