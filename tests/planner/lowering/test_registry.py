"""Completeness: every plan node has a lowering and a description of it."""

from __future__ import annotations

import inspect

import pytest

import sqlstream.planner.lowering  # noqa: F401 - fill the registries
from sqlstream.planner import nodes
from sqlstream.planner.lowering.lower import lower_node, lower_operator
from sqlstream.planner.nodes import AlignBarriers, AssignWindows, Hop, Output, WindowAggregate
from sqlstream.planner.operators.over import Over
from sqlstream.planner.physical import explain_physical
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.state_facts import state_facts, title_of
from sqlstream.planner.physical.text import kernel, native_state
from tests.planner.plans import physical
from tests.streams import item, table, timed

CONCRETE = [
    kind
    for _, kind in inspect.getmembers(nodes, inspect.isclass)
    if issubclass(kind, nodes.Node) and kind not in (nodes.Node, nodes.Unary)
]
CONCRETE.append(Over)


def registered(registry, kind):
    return registry.dispatch(kind) is not registry.dispatch(object)


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_every_node_is_registered(kind):
    assert registered(lower_node, kind) or registered(lower_operator, kind)


@pytest.mark.parametrize("kind", [kind for kind in CONCRETE if registered(lower_operator, kind)])
def test_every_operator_with_state_says_what_it_is(kind):
    assert registered(kernel, kind), "what its kernel does"
    assert registered(state_facts, kind) and registered(title_of, kind), "what its state depends on"
    assert registered(keys_of, kind) or kind is AlignBarriers, "what its exchange parts rows by"
    assert registered(native_state, kind) or registered(only_columnar, kind), "what Spark's own operators do of it"


def test_the_physical_tree_says_what_each_node_becomes():
    events = table("events", delay_ms=5000, k="STRING", ts="TIMESTAMP")
    windows = AssignWindows(timed(events), Hop(2000, 5000), "ts", ())
    aggregated = WindowAggregate(windows, ("k",), (item("n", "COUNT(DISTINCT k)"),))
    plan = Output(aggregated, ("k", "a", "b", "c", "n"))
    assert explain_physical(physical(plan, "native")).splitlines() == [
        "Output(k, a, b, c, n): rows to the caller, once per micro-batch",
        "└─ WindowAggregate(keys k; HOP slide 2 s size 5 s; COUNT(DISTINCT k) AS n): streaming aggregation by k, "
        "window in append mode, state in RocksDB, DISTINCT values kept as sets",
        "   └─ AssignWindows(HOP slide 2 s size 5 s on ts): explode of up to 3 windows per row",
        '      └─ AssignTime(ts, watermark ts - 5 s): union with the control rows of "events", withWatermark on the '
        "time column (delay 5 s), then a filter that takes the control rows out",
        '         └─ Scan(events: k, ts): stream of connector "test"',
    ]
    assert explain_physical(physical(plan)).splitlines()[1] == (
        "└─ WindowAggregate(keys k; HOP slide 2 s size 5 s; COUNT(DISTINCT k) AS n): exchange by key group, kernel of "
        "window by window, aggregates of the rows kept, state in RocksDB"
    )
    assert "nothing, no window waits" in explain_physical(physical(timed(events)))
