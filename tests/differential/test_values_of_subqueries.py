"""Subqueries as values: compared by ANY and ALL, in ON of outer joins beside columns of the other side, with HAVING or
GROUP BY () and no keys, and behind ROW; and GROUPING of several keys. Over random changes, in DuckDB too.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.depth import depth
from tests.differential.changes import History, history
from tests.fuzz.results.ways import Case, Duckdb, Kernels

QUERIES = {
    # read the rows around them
    "SELECT id, a > ALL (SELECT b FROM pairs WHERE pairs.a = one.a) AS v, b <= ANY (SELECT DISTINCT a + 1 FROM bag "
    "WHERE bag.s = one.s) AS w FROM one": None,
    "SELECT id, a = ALL (SELECT a FROM pairs WHERE pairs.b = one.b) AS v FROM one": None,
    "SELECT id FROM ups WHERE a >= ALL (SELECT p.b FROM pairs AS p JOIN one ON p.a = one.a WHERE p.id = ups.id)": None,
    "SELECT a, MAX(b) AS m FROM one GROUP BY a HAVING MAX(b) < ANY (SELECT b FROM bag WHERE bag.a = one.a)": None,
    # each reads one side of ON
    "SELECT one.id, p.id AS k FROM one FULL JOIN pairs AS p ON one.a = p.a AND (one.b IN (SELECT b FROM bag) OR p.s IS "
    "NULL)": None,
    "SELECT one.id, p.id AS k FROM one LEFT JOIN pairs AS p ON one.a = p.a AND one.b IN (SELECT b FROM bag) = (p.b NOT "
    "IN (SELECT a FROM bag))": None,
    "SELECT one.id FROM one LEFT ANTI JOIN ups ON one.a = ups.a AND (EXISTS (SELECT 1 FROM bag WHERE bag.a = one.b) OR "
    "ups.b > 1)": None,
    # one group of all rows, and of none
    "SELECT id, EXISTS (SELECT 1 FROM pairs WHERE pairs.a = one.a HAVING COUNT(*) = 0) AS v, (SELECT SUM(b) FROM bag "
    "WHERE bag.a = one.a HAVING COUNT(*) <> 1) AS w FROM one": None,
    "SELECT id FROM one WHERE NOT EXISTS (SELECT MAX(b) FROM pairs WHERE pairs.b > one.b HAVING SUM(a) > 2)": None,
    "SELECT id, (SELECT COUNT(*) FROM pairs WHERE pairs.a = one.a GROUP BY ()) AS n, (SELECT COUNT(b) FROM bag WHERE "
    "bag.a = one.a GROUP BY GROUPING SETS (())) AS m FROM one": (
        "SELECT id, (SELECT COUNT(*) FROM pairs WHERE pairs.a = one.a), (SELECT COUNT(b) FROM bag WHERE bag.a = one.a) "
        "FROM one"
    ),
    # rows
    "SELECT id, ROW(a, s) IN (SELECT a, s FROM pairs) AS v, ROW(b, s) NOT IN (SELECT a, s FROM bag) AS w FROM one": (
        "SELECT id, (a, s) IN (SELECT a, s FROM pairs), (b, s) NOT IN (SELECT a, s FROM bag) FROM one"
    ),
    "SELECT id FROM ups WHERE ROW(a, s) IN (SELECT * FROM (SELECT b, s FROM pairs) AS q)": (
        "SELECT id FROM ups WHERE (a, s) IN (SELECT b, s FROM pairs)"
    ),
    # bits
    "SELECT a + 1 AS k, s, GROUPING(k) AS g, GROUPING(s, k) AS h, COUNT(*) AS n FROM one GROUP BY ROLLUP (k, s)": (
        "SELECT a + 1, s, GROUPING(a + 1), GROUPING(s, a + 1), COUNT(*) FROM one GROUP BY ROLLUP (a + 1, s) "
        "HAVING COUNT(*) > 0"
    ),
    "SELECT a, s, GROUPING(a, s) AS g, COUNT(*) AS n FROM bag GROUP BY a, s": None,
}


@pytest.mark.parametrize("seed", range(depth(1, 60)))
@pytest.mark.parametrize("text", QUERIES)
def test_they_are_those_of_duckdb(text: str, seed: int) -> None:
    acts = (act for number in range(3) for act in history(Random(100 * seed + number)).acts)
    past = History(tuple(acts), (17,))  # few micro-batches
    assert Kernels().rows(Case(text, past, seed)) == Duckdb().rows(Case(QUERIES[text] or text, past))
