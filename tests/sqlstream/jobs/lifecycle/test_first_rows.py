"""What sources are told of a query: that it ends with the first rows of its table, or waits for its watermark."""

from __future__ import annotations

import pytest

from sqlstream.jobs.lifecycle.session_jobs import _timed_tables
from sqlstream.planner.nodes import Output
from sqlstream.planner.operators.top_n import first_rows
from sqlstream.planner.rules import optimize
from tests.planner.plans import plan

TABLES = """
CREATE TABLE t (k INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'kafka', 'format' = 'json');
CREATE TABLE u (k INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'kafka', 'format' = 'json');
"""


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT k FROM t LIMIT 3", 3),
        ("SELECT k + 1 AS m FROM t LIMIT 3 OFFSET 2", 5),
        ("SELECT k FROM t", None),
        ("SELECT k FROM t WHERE k > 1 LIMIT 3", None),
        ("SELECT k FROM t UNION ALL SELECT k FROM u LIMIT 3", None),
    ],
)
def test_a_query_without_a_choice_needs_as_many_rows_as_its_limit(query: str, rows: int | None):
    bound = optimize(plan(query, TABLES))
    assert isinstance(bound, Output)
    assert first_rows(bound) == rows


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT COUNT(*) FROM t GROUP BY TUMBLE(at, INTERVAL '1' SECOND)", "t"),
        ("SELECT k, COUNT(*) FROM t GROUP BY k", ""),
        ("SELECT t.k FROM t JOIN u ON t.k = u.k AND t.at = u.at", "tu"),
    ],
)
def test_tables_are_timed_whose_own_watermark_is_waited_for(query: str, tables: str):
    bound = optimize(plan(query, TABLES))
    assert isinstance(bound, Output)
    assert _timed_tables(bound) == frozenset(tables)
