# ruff: noqa: E501
"""Streaming clauses stand at every depth: subqueries, CTEs, views, unions, EXISTS, table arguments."""

from __future__ import annotations

import sys

import pytest
from sqlglot import exp

from sqlstream.errors import ParseError
from sqlstream.grammar import clauses_of, parse_query, parse_script, to_sql
from sqlstream.grammar.nodes import EveryRows, Trigger

_INNER = (
    "SELECT k, COUNT(*) AS n FROM HOP(TABLE t PARTITION BY k, DESCRIPTOR(ts), SLIDE => 5 ROWS, SIZE => INTERVAL '9' SECOND)"
    " AS w JOIN d FOR SYSTEM_TIME AS OF w.pt AS x LOOKUP ASYNC (CAPACITY 5) ON x.k = w.k"
    " WHERE n > 1 GROUP BY k COUNT WINDOW (5 ROWS) TRIGGER EVERY 7 ROWS EVICT KEEP LAST 5 ROWS"
    " LATE DATA ALLOW INTERVAL '5' SECOND DROP HAVING COUNT(*) > 1 EMIT CHANGES"
)

_PLACES = {
    "subquery": "SELECT * FROM ({}) AS s WHERE s.k > 1",
    "subquery without alias": "SELECT * FROM ({})",
    "joined subquery": "SELECT * FROM a LEFT JOIN ({}) AS s ON a.k = s.k",
    "behind a comma": "SELECT * FROM a, ({}) AS s",
    "lateral": "SELECT * FROM a, LATERAL ({}) AS s",
    "cte": "WITH c AS ({}) SELECT * FROM c",
    "second cte": "WITH c AS (SELECT 1), d AS ({}) SELECT * FROM c, d",
    "cte in a subquery": "SELECT * FROM (WITH c AS ({}) SELECT * FROM c) AS s",
    "left of a union": "({}) UNION ALL SELECT * FROM b",
    "right of a union": "SELECT * FROM b UNION ALL ({})",
    "middle of a union": "SELECT 1 UNION ALL ({}) UNION ALL SELECT 2",
    "intersection": "SELECT * FROM b INTERSECT ({}) EXCEPT SELECT 1",
    "scalar subquery": "SELECT ({}) AS m FROM b",
    "in": "SELECT * FROM b WHERE b.k IN ({})",
    "exists": "SELECT * FROM b WHERE NOT EXISTS ({})",
    "table argument": "SELECT * FROM TUMBLE(TABLE ({}), DESCRIPTOR(ts), INTERVAL '5' SECOND)",
    "view": "CREATE VIEW v AS {}",
    "insert": "INSERT INTO u {}",
    "create table as": "CREATE TABLE u WITH ('a' = 'b') AS {}",
    "explain": "EXPLAIN FORMAT JSON {}",
    "statement set": "EXECUTE STATEMENT SET BEGIN INSERT INTO u {}; INSERT INTO v {}; END",
}


@pytest.mark.parametrize("place", _PLACES)
def test_clauses_are_read_and_printed_in_every_place(place: str) -> None:
    text = _PLACES[place].format(_INNER, _INNER) if place == "statement set" else _PLACES[place].format(_INNER)
    (statement,) = parse_script(text)
    printed = to_sql(statement)
    assert "COUNT WINDOW (5 ROWS)" in printed
    assert "LOOKUP ASYNC (CAPACITY 5)" in printed
    assert "TRIGGER EVERY 7 ROWS EVICT KEEP LAST 5 ROWS LATE DATA ALLOW INTERVAL '5' SECOND DROP" in printed
    assert "EMIT CHANGES" in printed
    assert parse_script(printed) == (statement,)


def test_clauses_belong_to_their_own_select() -> None:
    query = parse_query(
        "SELECT a FROM (SELECT b FROM (SELECT c FROM t GROUP BY c TRIGGER EVERY 3 ROWS) AS x"
        " GROUP BY b TRIGGER EVERY 2 ROWS) AS y GROUP BY a TRIGGER EVERY 1 ROWS"
    )
    assert {s.expressions[0].name: clauses_of(s).trigger for s in query.find_all(exp.Select)} == {
        "a": Trigger(EveryRows(1)),
        "b": Trigger(EveryRows(2)),
        "c": Trigger(EveryRows(3)),
    }


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 150 + "1" + ")" * 150,
        "SELECT " + "f(" * 150 + "1" + ")" * 150,
        "SELECT " + "CASE WHEN a THEN " * 150 + "1" + " END" * 150,
        "SELECT * FROM (" * 150 + "SELECT 1" + ")" * 150,
        "SELECT " + " AND ".join(["a = 1"] * 2000),
    ],
    ids=["parentheses", "calls", "cases", "subqueries", "conjunctions"],
)
def test_a_hundred_and_fifty_levels_are_read_and_printed(text: str) -> None:
    limit = sys.getrecursionlimit()
    query = parse_query(text)
    assert parse_query(to_sql(query)) == query
    assert sys.getrecursionlimit() == limit


def test_too_many_levels_are_an_error(monkeypatch) -> None:
    monkeypatch.setattr("sqlstream.grammar.depth._STACKS", (16 << 20,))
    limit = sys.getrecursionlimit()
    with pytest.raises(ParseError, match="nested too deeply") as raised:
        parse_query("SELECT " + "(" * 3000 + "1" + ")" * 3000)
    assert raised.value.code == "SS107"
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("depth", [1, 5, 25])
def test_clauses_at_each_depth_are_kept(depth: int) -> None:
    text = "SELECT k FROM t"
    for level in range(1, depth + 1):
        text = f"SELECT k FROM ({text}) AS s GROUP BY k COUNT WINDOW ({level} ROWS) TRIGGER EVERY {level} ROWS"
    query = parse_query(text)
    assert len([s for s in query.find_all(exp.Select) if clauses_of(s).trigger]) == depth
    assert parse_query(to_sql(query)) == query
