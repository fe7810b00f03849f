"""IN, NOT IN, ANY, ALL and EXISTS with NULLs: plans of streams, and the text for Spark, beside SQLite's results."""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest
from hypothesis import assume, example, given, settings
from sqlglot import exp

from sqlstream.catalog import Catalog
from sqlstream.grammar import nodes, parse_script
from sqlstream.planner.batch import resolve
from sqlstream.planner.batch.respelling import for_spark
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.rules import optimize
from sqlstream.types import INT
from tests.depth import depth
from tests.planner.in_sqlite import query as query_of_plan
from tests.planner.memberships import TABLES, Rows, databases, queries, results
from tests.planner.plans import plan

SCRIPT = "".join(
    f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)} NOT NULL) WITH ('connector' = 'test');"
    for name, columns in TABLES.items()
)
SOME: dict[str, Rows] = {"l": [(1, None, 1), (None, 2, 2), (3, 2, 3)], "r": [(1, 2, 1), (None, 1, 2)]}
ISSUE: dict[str, Rows] = {"l": [(5, 1, 1), (7, 1, 2), (None, 2, 3)], "r": [(5, 1, 1), (None, 1, 2)]}


@settings(max_examples=depth(150, 4000))
@given(queries(), databases())
@example("SELECT l.b, MAX(l.a) IN (SELECT q.c FROM r AS q) AS p FROM l GROUP BY l.b", ISSUE)
@example("SELECT l.id, x.n FROM l LEFT JOIN r AS x ON l.a NOT IN (SELECT q.c FROM r AS q)", SOME)
@example("SELECT l.id, x.n FROM l LEFT JOIN r AS x ON CASE WHEN EXISTS (SELECT 1 FROM r AS q) THEN x.c > 1 END", SOME)
def test_streams_know_three_values(text: str, tables: dict[str, Rows]) -> None:
    made = query_of_plan(optimize(plan(text, SCRIPT)))
    assert _results_of_plan(made, tables) == results(text, tables), made


def _results_of_plan(made: str, tables: dict[str, Rows]) -> Counter[tuple[object, ...]]:
    try:
        return results(made, tables)
    except sqlite3.OperationalError as error:  # SQLite reads a hundred parentheses inside of each other
        assume("parser stack overflow" not in str(error))
        raise


@settings(max_examples=depth(150, 4000))
@given(queries(unequal=True), databases())
@example("SELECT l.id, l.a IN (SELECT q.c FROM r AS q) AS p FROM l", ISSUE)
@example("SELECT l.id, x.n FROM l LEFT JOIN r AS x ON l.a NOT IN (SELECT q.c FROM r AS q)", SOME)
def test_what_spark_gets_knows_three_values(text: str, tables: dict[str, Rows]) -> None:
    assert results(_for_spark(text), tables) == results(text, tables), _for_spark(text)


@pytest.mark.parametrize(
    "asked",
    [
        "l.id IN (SELECT q.n FROM r AS q)",
        "l.id + 1 NOT IN (SELECT q.c FROM r AS q WHERE q.c IS NOT NULL)",
        "(l.id, 3) IN (SELECT q.n, COUNT(*) FROM r AS q GROUP BY q.n)",
        "l.id IN (SELECT u.m FROM (SELECT n AS m, c FROM r) AS u)",
        "l.id IN (SELECT u.m FROM (SELECT n FROM r) AS u (m) UNION ALL SELECT q.id FROM l AS q)",
        "COALESCE(l.a, 0) IN (VALUES (1), (2))",
    ],
)
def test_what_is_never_null_is_not_looked_for(asked: str) -> None:
    assert "CASE" not in _for_spark(f"SELECT {asked} AS p FROM l")


@pytest.mark.parametrize(
    "asked",
    [
        "l.a IN (SELECT q.n FROM r AS q)",
        "l.id IN (SELECT q.c FROM r AS q WHERE q.d IS NOT NULL)",
        "l.id IN (SELECT q.n FROM l AS u LEFT JOIN r AS q ON u.a = q.c)",
        "l.id IN (SELECT MAX(q.n) FROM r AS q)",
        "l.id IN (SELECT q.n FROM r AS q GROUP BY GROUPING SETS ((q.n), ()))",
        "l.id IN (SELECT q.n FROM r AS q UNION SELECT q.c FROM r AS q)",
    ],
)
def test_what_may_be_null_is_looked_for(asked: str) -> None:
    assert "CASE" in _for_spark(f"SELECT {asked} AS p FROM l")
    assert "CASE" not in _for_spark(f"SELECT l.id FROM l WHERE {asked} OR NOT {asked}")


def _for_spark(text: str) -> str:
    """The query that Spark gets, in which names of columns behind an alias are written in a way that SQLite has."""
    catalog = Catalog()
    for name, columns in TABLES.items():
        fields = tuple(Column(c, INT, nullable=c != columns[-1]) for c in columns)
        catalog.create(nodes.Name((name,)), Table(name, fields, "filesystem", bounded=True))
    (statement,) = parse_script(text)
    assert isinstance(statement, nodes.Query)
    filled = {name: {columns[-1]} for name, columns in TABLES.items()}
    query = for_spark(resolve(statement.query, catalog, lambda table: table.name).query, catalog, filled=filled)
    for subquery in list(query.find_all(exp.Subquery)):
        alias = subquery.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            nothing = [exp.alias_(exp.Null(), column.name) for column in alias.columns]
            named = exp.select(*nothing).where(exp.false())
            subquery.set("this", exp.Union(this=named, expression=subquery.this, distinct=False))
            subquery.set("alias", exp.TableAlias(this=alias.this))
    return query.sql("sqlite")
