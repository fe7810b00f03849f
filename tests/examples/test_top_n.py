"""The benchmark of Top-N: its queries and what it says of them."""

from __future__ import annotations

import pytest

from examples.throughput import top_n
from examples.throughput.top_n import QUERIES, ROWS_PER_SECOND
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.top_n import TopN
from tests.planner.plans import plan

_BIDS = f"{top_n._TABLE.format(folder='/tmp')};"


@pytest.mark.parametrize(
    ("query", "kind"), [*zip(QUERIES, (Deduplicate, Deduplicate, TopN, TopN), strict=True)], ids=list(QUERIES)
)
def test_queries_are_what_they_are_called(query, kind):
    assert any(isinstance(node, kind) for node in plan(QUERIES[query], _BIDS).walk())


def test_what_is_wanted_is_asked_for():
    assert ROWS_PER_SECOND.keys() <= QUERIES.keys()
