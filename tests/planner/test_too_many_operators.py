"""Queries that name others again and again are refused before anything goes through all their operators."""

from __future__ import annotations

from tests.planner.plans import bound, error, errors


def _doubling(number: int) -> str:
    queries = (f"c{i} AS (SELECT v FROM c{i - 1} UNION ALL SELECT v FROM c{i - 1})" for i in range(1, number))
    return f"WITH c0 AS (SELECT v FROM plain), {', '.join(queries)} SELECT v FROM c{number - 1}"


def test_queries_that_double_are_refused():
    failure = error(_doubling(60))
    assert failure.startswith("SS285: the query has ")
    assert "Insert the rows of a query that is named often into a table" in failure


def test_a_few_times_is_fine():
    assert errors(_doubling(6)) == []
    assert bound(_doubling(6)).count("Scan(plain") == 32
