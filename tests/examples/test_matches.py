"""The benchmark of MATCH_RECOGNIZE: its queries."""

from __future__ import annotations

import pytest

from examples.throughput import matches
from examples.throughput.matches import QUERIES
from sqlstream.planner.operators.match_recognize import MatchRecognize
from tests.planner.plans import plan

_BIDS = f"{matches._TABLE.format(folder='/tmp')};"


@pytest.mark.parametrize("query", QUERIES)
def test_queries_match_rows(query):
    assert any(isinstance(node, MatchRecognize) for node in plan(QUERIES[query], _BIDS).walk())
