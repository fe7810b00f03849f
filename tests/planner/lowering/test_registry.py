"""Completeness: every plan node has a lowering and a description of it."""

from __future__ import annotations

import pytest

from sqlstream.planner import operators
from sqlstream.planner.lowering.lower import WITH_KERNEL, WITHOUT_KERNEL
from sqlstream.planner.node import Node, Unary
from sqlstream.planner.nodes import Output, Scan
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical import explain_physical
from sqlstream.planner.windows import Hop
from tests.planner.corpus import kinds_of_nodes
from tests.planner.plans import physical
from tests.streams import item, table, timed

CONCRETE = kinds_of_nodes()


def answers(kind, name, base=Node):
    """Whether a class of nodes, or a base of it below ``base``, says itself what ``name`` is."""
    return getattr(kind, name) is not getattr(base, name)


ROOMS = [kind for kind in CONCRETE if kind.__module__.startswith(operators.__name__)]
STATEFUL = [kind for kind in CONCRETE if kind in WITH_KERNEL]
STATELESS = [kind for kind in ROOMS if kind in WITHOUT_KERNEL]


def named(kinds):
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.__name__)


def test_operators_have_rooms():
    """What every plan is made of stands together; all that has state, and more, is an operator with a room."""
    assert {*STATEFUL, *STATELESS} == set(ROOMS)
    assert {"AlignBarriers", "AssignWindows", "IntervalJoin", "Lookup", "Over", "ProcessTable", "WindowAggregate"} <= {
        kind.__name__ for kind in ROOMS
    }


@named(CONCRETE)
def test_every_node_is_registered(kind):
    assert kind in WITHOUT_KERNEL or kind in WITH_KERNEL
    assert answers(kind, "describe"), "what EXPLAIN says of it"
    assert answers(kind, "replace_inputs") or kind is Scan, "what it is over other inputs"


@named(ROOMS)
def test_every_operator_says_what_the_rules_must_know(kind):
    assert answers(kind, "pruned", Unary), "which columns of its input it reads"


@named(STATEFUL)
def test_every_operator_with_state_says_what_it_is(kind):
    assert answers(kind, "keeps_state"), "that it keeps state"
    assert answers(kind, "kernel_text"), "what its kernel does"
    assert answers(kind, "state_facts") and answers(kind, "state_title"), "what its state depends on"
    assert answers(kind, "exchange_keys"), "what its exchange parts rows by"
    assert answers(kind, "native_state_text") or answers(kind, "columnar_only_clause"), (
        "what Spark's own operators do of it"
    )


@named(STATELESS)
def test_every_operator_without_a_kernel_says_what_it_becomes(kind):
    assert answers(kind, "compute_text") or answers(kind, "native_state_text"), "what EXPLAIN PHYSICAL says of it"


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
