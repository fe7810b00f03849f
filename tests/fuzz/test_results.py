"""Random queries of a fixed seed give the same rows in all ways; what finds and reduces differences does so."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from sqlstream.grammar import parse_query
from sqlstream.testing.golden_format import parse_golden
from tests.depth import depth
from tests.differential.changes import Act, History, TableKind
from tests.differential.comparing import Rows
from tests.fuzz.results.campaign import Campaign
from tests.fuzz.results.kinds import kinds_of
from tests.fuzz.results.oracles import Oracle, Partitioned, Unfiltered
from tests.fuzz.results.queries import random_query
from tests.fuzz.results.reduction import differs_by_design, reduced
from tests.fuzz.results.reference import in_duckdb
from tests.fuzz.results.report import golden
from tests.fuzz.results.tables import random_history, random_tables
from tests.fuzz.results.ways import Case, Duckdb, Kernels

_ONE = TableKind("one", "I", timed=True)
_BAG = TableKind("bag", "I,D")
_SECOND = 1_000_000
_PAST = History(
    (
        Act(_ONE, 0, (0, 1, None, "x", 0)),
        Act(_ONE, 1, (1, 2, 5, "y", 3 * _SECOND)),
        Act(_ONE, 2, (2, None, 5, None, -_SECOND)),
        Act(_BAG, 3, (3, 1, 1, "z")),
    ),
    (2,),
    of=(_ONE, _BAG),
)


def test_streams_of_kernels_give_the_rows_of_duckdb():
    campaign = Campaign(seed=33, ways=frozenset({"kernels"}))
    campaign.run(rounds=depth(16, 400))
    assert [finding.text for finding in campaign.findings] == []
    assert campaign.compared["kernels and DuckDB"] > 10


@pytest.mark.spark
def test_jobs_and_finished_data_give_the_rows_of_duckdb(spark):
    campaign = Campaign(seed=33)
    for number in range(depth(1, 5)):
        campaign.job(Random(f"33/{number}"), number, queries=depth(3, 8))
    assert [finding.text for finding in campaign.findings] == []
    assert campaign.compared.total() >= 5


def test_queries_have_every_kind():
    kinds: Counter[str] = Counter()
    for seed in range(200):
        choice = Random(seed)
        kinds.update(kinds_of(random_query(choice, random_tables(choice))))
    assert {
        "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "ASOF JOIN", "IN subquery",
        "ANY subquery", "ALL subquery", "EXISTS", "scalar subquery", "GROUP BY", "CUBE", "ROLLUP", "GROUPING SETS",
        "FILTER", "DISTINCT", "TUMBLE", "HOP", "CUMULATE", "SESSION", "SUM OVER", "LAG OVER", "LIMIT", "QUALIFY",
        "UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL", "CASE", "VALUES", "WITH",
    } <= {*kinds}  # fmt: skip


def test_rows_have_what_goes_wrong():
    choice = Random(1)
    tables = random_tables(choice)
    pasts = [random_history(choice, tables) for _ in range(40)]
    rows = [row for past in pasts for table in past.tables().values() for row in table]
    values = {value for row in rows for value in row}
    times = [act.row[-1] for past in pasts for act in past.acts if act.table.timed and act.row is not None]
    assert None in values and "ü" in values and len(rows) > len({*rows})
    assert min(times) < 0 and any(time % _SECOND for time in times)
    assert any(act.row is None or act.key < 0 for past in pasts for act in past.acts)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, COUNT(*) AS n FROM one GROUP BY a",
        "SELECT l.id, r.b AS c FROM one AS l LEFT JOIN bag AS r ON l.a = r.a",
        "SELECT id, a IN (SELECT b FROM bag) AS c FROM one",
    ],
)
def test_a_query_has_the_rows_of_its_partitions(text):
    case = Case(text, _PAST)
    column = "c" if " AS c" in text else "n"
    for condition in (f"q.{column} = 1", f"q.{column} IS NULL"):
        condition = condition.replace("= 1", "IS TRUE") if " IN " in text else condition
        assert Oracle("partitions", Kernels(), Kernels(), Partitioned(condition)).difference(case) is None
        unfiltered = Unfiltered(condition)
        assert Duckdb().rows(unfiltered(case)) == Duckdb().rows(unfiltered.optimized(case))


def test_windows_are_those_of_the_model():
    tumble = "SELECT w.window_start, COUNT(*) AS n FROM TUMBLE(TABLE one, DESCRIPTOR(ts), INTERVAL '2' SECOND) AS w"
    rows = in_duckdb(f"{tumble} GROUP BY w.window_start, w.window_end", _PAST)
    assert sorted((start.isoformat(), n) for start, n in rows) == [
        ("1969-12-31T23:59:58", 1),
        ("1970-01-01T00:00:00", 1),
        ("1970-01-01T00:00:02", 1),
    ]
    session = "SESSION(TABLE one, DESCRIPTOR(ts), INTERVAL '2' SECOND) AS w GROUP BY w.window_start, w.window_end"
    assert sorted(in_duckdb(f"SELECT COUNT(*) AS n FROM {session}", _PAST)) == [(1,), (2,)]


class _WithoutNulls:
    """Loses the rows in which something is NULL."""

    name = "wrong"

    def rows(self, case: Case) -> Rows:
        return Counter({row: n for row, n in in_duckdb(case.text, case.past).items() if None not in row})


def test_a_difference_becomes_small():
    oracle = Oracle("wrong and DuckDB", _WithoutNulls(), Duckdb())
    text = """WITH v AS (SELECT id AS i, a AS j, s AS k FROM one) SELECT q.i + 1 AS p, UPPER(q.k) AS r,
        CASE WHEN q.j > 1 THEN q.j ELSE 0 END AS t FROM v AS q LEFT JOIN (SELECT b AS m FROM bag) AS w ON q.j = w.m
        WHERE q.i >= 0 AND q.i <> 7 UNION ALL SELECT a, s, b FROM bag"""
    case = reduced(Case(text, _PAST), lambda candidate: _shows(oracle, candidate))
    assert len(case.past.acts) == 1
    assert len(case.text) < 60, case.text
    block = golden(case, oracle.difference(case) or "")
    assert [b.kind for b in parse_golden(block)] == ["comment", "statement", "stream"]
    assert "> one  2  NULL  5  NULL  1969-12-31 23:59:59" in block


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT LEAD(a) OVER () AS x FROM one", False),
        ("SELECT q.a, q.b, LAG(q.a) OVER (ORDER BY q.a) AS x FROM one AS q", False),
        ("SELECT a, b FROM one QUALIFY ROW_NUMBER() OVER (ORDER BY a) = 1", False),
        ("SELECT a, b, SUM(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM one", False),
        ("SELECT q.a, LAG(q.a) OVER (ORDER BY q.a) AS x FROM one AS q", True),
        ("SELECT a, b, LAG(b) OVER (PARTITION BY a ORDER BY b) AS x FROM one", True),
        ("SELECT a, b, SUM(b) OVER (PARTITION BY a) AS x, RANK() OVER (ORDER BY b) AS y FROM one", True),
    ],
)
def test_reduced_queries_say_the_order_of_places(text, says):
    assert differs_by_design(parse_query(text)) is not says


def _shows(oracle: Oracle, case: Case) -> bool:
    try:
        return oracle.difference(case) is not None
    except Exception:
        return False
