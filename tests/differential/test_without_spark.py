"""Random queries of ordinary SQL over random changes: what is there in the end is what DuckDB has for the tables.

``make differential`` and ``python -m tests.differential.run`` run many more.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Union
from sqlstream.planner.operators.changelogs import Normalize
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.join import Join, RegularJoin, WindowJoin
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.planner.operators.temporal_join import TemporalJoin
from sqlstream.planner.operators.top_n import TopN
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.udfs.changes import SetKind
from sqlstream.udfs.joins import JoinKind
from tests.differential.changes import TABLES, Act, History, history
from tests.differential.comparing import NoReference, Refused, expected, planned, without_spark
from tests.differential.queries import query
from tests.differential.without_spark import NotHere

EXAMPLES = int(os.environ.get("SQLSTREAM_EXAMPLES", "60"))


@settings(max_examples=EXAMPLES, derandomize=EXAMPLES < 100, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_changes_amount_to_the_rows_of_duckdb(choice):
    asked = query(choice)
    try:
        made = planned(asked, by_key=choice if choice.random() < 0.3 else None)
        past = history(choice)
        rows = expected(asked, past)
        found = without_spark(made, past, groups=choice.choice([1, 3]), restarts=choice.choice([None, choice]))
    except (Refused, NoReference, NotHere):
        assume(False)
    assert found == rows, f"{asked.definitions()}{asked.ours()}\n{past}"


def test_queries_have_every_operator():
    nodes: set[type[Node]] = set()
    kinds: set[tuple[type[Node], Any]] = set()
    others = Counter[str]()
    for seed in range(150):
        try:
            plan = planned(query(Random(seed))).logical
        except Refused as refused:
            others[refused.code] += 1
            continue
        for node in plan.walk():
            nodes.add(type(node))
            if isinstance(node, Join):
                kinds.add((type(node), node.kind))
            elif isinstance(node, TopN):
                kinds.add((TopN, node.function))
            elif isinstance(node, SetOperation):
                kinds.add((SetOperation, node.kind))
    assert {GroupAggregate, Deduplicate, Normalize, TemporalJoin, WindowAggregate, Union, WindowJoin} <= nodes
    assert kinds >= {(RegularJoin, kind) for kind in JoinKind}
    assert kinds >= {(SetOperation, kind) for kind in SetKind}
    assert kinds >= {(TopN, name) for name in ("row_number", "rank", "dense_rank")}
    assert IntervalJoin in nodes
    assert sum(others.values()) < 10, others


def test_a_part_of_a_history_is_one():
    """What takes away a row that is not there is left out."""
    keyed, bag = (next(table for table in TABLES if table.name == name) for name in ("pairs", "bag"))
    acts = (
        Act(keyed, 1, (1, 2, 3, "x")),
        Act(keyed, 1, (1, 4, 4, "y")),
        Act(keyed, 1, None),
        Act(keyed, 1, None),
        Act(bag, -1, (7, 1, 1, None)),
        Act(bag, 7, (7, 1, 1, None)),
    )
    past = History(acts, (2,))
    assert [change for _, change in past.changes()] == [
        ("+I", (1, 2, 3, "x")),
        ("-U", (1, 2, 3, "x")),
        ("+U", (1, 4, 4, "y")),
        ("-D", (1, 4, 4, "y")),
        ("+I", (7, 1, 1, None)),
    ]
    assert past.tables()["pairs"] == [] and past.tables()["bag"] == [(7, 1, 1, None)]
    assert [len(batch["pairs"]) for batch in past.micro_batches() if "pairs" in batch] == [2, 2]
