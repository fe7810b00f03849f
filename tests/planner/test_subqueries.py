"""Subqueries as joins: the plans, compared with what SQLite makes of the same query, and what is refused."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.temporal_join import AsofJoin
from sqlstream.planner.operators.top_n import TopN
from sqlstream.planner.rules import optimize
from tests.planner.in_sqlite import query
from tests.planner.plans import error, optimized, plan

TABLES = """
CREATE TABLE l (a INT, b INT, id INT NOT NULL) WITH ('connector' = 'test');
CREATE TABLE r (c INT, d INT, n INT NOT NULL) WITH ('connector' = 'test');
CREATE TABLE p (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'test', 'changelog-mode' = 'I,UB,UA,D');
"""

ASKED = (
    "a IN (SELECT c FROM r)",
    "a NOT IN (SELECT c FROM r)",
    "a NOT IN (SELECT c FROM r WHERE c IS NOT NULL)",
    "id NOT IN (SELECT n FROM r)",
    "id NOT IN (SELECT c FROM r)",
    "a NOT IN (SELECT n FROM r)",
    "a IN (SELECT c FROM r WHERE d = b)",
    "a NOT IN (SELECT c FROM r WHERE d = b)",
    "a NOT IN (SELECT c FROM r WHERE d < b)",
    "a NOT IN (SELECT c FROM r WHERE b > 2)",
    "a + 1 IN (SELECT DISTINCT c * 2 FROM r WHERE d <> b AND c > 0)",
    "a IN (SELECT MAX(c) FROM r GROUP BY d)",
    "a NOT IN (SELECT MAX(c) FROM r GROUP BY d)",
    "a IN (SELECT COUNT(*) FROM r WHERE d = b)",
    "a NOT IN (SELECT MAX(c) FROM r WHERE d = b)",
    "a IN (SELECT c FROM r UNION SELECT n FROM r)",
    "a IN (VALUES (1), (NULL), (3))",
    "a NOT IN (VALUES (1), (4)) AND b NOT IN (VALUES (NULL))",
    "(a, b) IN (SELECT c, d FROM r)",
    "(a, b) NOT IN (SELECT c, d FROM r)",
    "(a, b) NOT IN (SELECT MAX(c), MIN(d) FROM r WHERE n = id)",
    "EXISTS (SELECT * FROM r)",
    "NOT EXISTS (SELECT * FROM r WHERE c > 3)",
    "EXISTS (SELECT 1 FROM r WHERE c = a ORDER BY d LIMIT 1)",
    "NOT EXISTS (SELECT 1 FROM r WHERE c = a AND b > 1 AND d < id)",
    "EXISTS (SELECT 1 FROM r WHERE c > a)",
    "NOT EXISTS (SELECT d FROM r WHERE c = a GROUP BY d HAVING COUNT(*) > 1)",
    "EXISTS (SELECT MAX(c) FROM r WHERE c = a)",
    "EXISTS (SELECT 1 FROM r WHERE c = a AND d IN (SELECT v FROM p))",
    "a < (SELECT MAX(c) FROM r)",
    "a >= (SELECT COUNT(*) FROM r WHERE d = b)",
    "b <= (SELECT COUNT(*) + COALESCE(MIN(c), 5) FROM r WHERE c = a)",
    "(SELECT v FROM p WHERE k = a) > 1",
    "(SELECT SUM(c) FROM r WHERE d = b AND a > 1) IS NULL",
)
VALUES = (
    "a IN (SELECT c FROM r)",
    "a IN (SELECT c FROM r WHERE d = b)",
    "a NOT IN (SELECT n FROM r WHERE c = b)",
    "EXISTS (SELECT 1 FROM r WHERE c = a)",
    "(SELECT MAX(c) FROM r WHERE d = b)",
    "(a, b) IN (SELECT c, d FROM r)",
    "(a, id) NOT IN (SELECT n, c FROM r)",
    "(a, b) IN (SELECT c, d FROM r WHERE n = id)",
    "(a, b, id + a) NOT IN (SELECT c, d, n + d FROM r)",
    "((a, b) IN (SELECT c, d FROM r)) IS NULL",
    "(a, b) IN (SELECT MAX(c), MIN(d) FROM r WHERE n = id)",
    "(a, b) NOT IN (SELECT MAX(c), COUNT(*) FROM r WHERE d = b)",
    "NOT (a IN (SELECT c FROM r) AND b NOT IN (SELECT d FROM r))",
    "CASE WHEN EXISTS (SELECT 1 FROM r WHERE c = a) THEN (SELECT COUNT(*) FROM r) ELSE (SELECT v FROM p WHERE k = b) END",  # noqa: E501
)
QUERIES = [
    *(f"SELECT a, b, id FROM l WHERE {asked}" for asked in ASKED),
    *(f"SELECT id, {value} AS x FROM l" for value in VALUES),
    *(f"SELECT id FROM l WHERE b > 2 OR {value}" for value in VALUES[:4]),
    "SELECT id FROM l WHERE NOT (a IN (SELECT c FROM r) AND b NOT IN (SELECT d FROM r WHERE n = id))",
    "SELECT b, COUNT(*) AS x FROM l WHERE a IN (SELECT c FROM r) AND EXISTS (SELECT 1 FROM r WHERE d = b) GROUP BY b",
    "SELECT b, MAX(a) IN (SELECT c FROM r) AS x, MIN(a) NOT IN (SELECT c FROM r WHERE d = b) AS y FROM l GROUP BY b",
    "SELECT b, (b, MAX(a)) IN (SELECT c, d FROM r) AS x, (b IN (SELECT c FROM r)) IS NULL AS y FROM l GROUP BY b",
    "SELECT b, COUNT(*) AS x FROM l GROUP BY b HAVING NOT (MAX(a) IN (SELECT c FROM r) AND b > 1)",
    "SELECT b FROM l GROUP BY b HAVING (MAX(a) IN (SELECT c FROM r)) IS NULL",
    *(
        f"SELECT l.id, x.n FROM l {kind} JOIN r AS x ON l.b = x.d AND {asked}"
        for kind in ("LEFT", "RIGHT", "FULL")
        for asked in (
            "l.a NOT IN (SELECT c FROM r)",
            "x.c NOT IN (SELECT a FROM l)",
            "NOT (l.a IN (SELECT c FROM r) OR l.b IS NULL)",
            "(x.c IN (SELECT a FROM l)) IS NULL",
            "(l.a, l.b) NOT IN (SELECT c, d FROM r)",
        )
    ),
    "SELECT l.id, x.c FROM l JOIN r AS x ON l.a = x.c WHERE x.d NOT IN (SELECT r.d FROM r WHERE r.c = l.b)",
]


@pytest.mark.parametrize("text", QUERIES)
def test_joins_give_the_rows_of_the_subqueries(text: str) -> None:
    made = query(optimize(plan(text, TABLES)))
    for database in _databases(random.Random(text)):
        with database:
            expected, counts = (Counter(database.execute(sql).fetchall()) for sql in (text, made))
            assert counts == expected, "\n".join(database.iterdump())


def _databases(choice: random.Random) -> Iterator[sqlite3.Connection]:
    """With few values, of which some are NULL, so that many are equal; also without rows."""
    for count in (0, 1, *([4, 9] * 12)):
        with closing(sqlite3.connect(":memory:")) as sqlite:
            sqlite.execute("CREATE TABLE l (a INT, b INT, id INT)")
            sqlite.execute("CREATE TABLE r (c INT, d INT, n INT)")
            sqlite.execute("CREATE TABLE p (k INT, v INT)")
            absent = choice.choice([0, 0.2])
            for table in ("l", "r"):
                size = choice.choice([0, count])
                rows = [(_value(choice, absent), _value(choice, absent), choice.randrange(5)) for _ in range(size)]
                sqlite.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
            sqlite.executemany(
                "INSERT INTO p VALUES (?, ?)", [(key, _value(choice, absent)) for key in range(count // 2)]
            )
            yield sqlite


def _value(choice: random.Random, absent: float) -> int | None:
    return None if choice.random() < absent else choice.randrange(5)


def test_a_condition_on_few_rows_is_a_semi_join() -> None:
    assert optimized("SELECT b FROM l WHERE a IN (SELECT c FROM r WHERE d < b) AND b > 2", TABLES) == (
        "Output(b)\n"
        "└─ Project(b)\n"
        "   └─ RegularJoin(LEFT SEMI; a = c AND d < b)\n"
        "      ├─ Scan(l: a, b where b > 2)\n"
        "      └─ Scan(r: c, d)"
    )


@pytest.mark.parametrize(
    "asked", ["a IN (SELECT c FROM r)", "EXISTS (SELECT 1 FROM r)", "EXISTS (SELECT 1 FROM r WHERE c > b)"]
)
def test_semi_joins_of_inserts_only_insert(asked: str) -> None:
    assert plan(f"SELECT a FROM l WHERE {asked}", TABLES).changelog_mode == APPEND_ONLY


def test_no_row_is_compared_with_all_rows_where_values_may_be_null() -> None:
    assert optimized("SELECT id FROM l WHERE a NOT IN (SELECT c FROM r WHERE d = b)", TABLES).startswith(
        "Output(id)\n"
        "└─ Project(id)\n"
        "   └─ RegularJoin(LEFT ANTI; b = d AND (a IS NULL OR nulls))\n"
        "      ├─ RegularJoin(LEFT ANTI; b = d AND a = c)\n"
    )
    plain = optimized("SELECT id FROM l WHERE id NOT IN (SELECT n FROM r)", TABLES)
    assert "RegularJoin(LEFT ANTI; id = n)" in plain
    assert "GroupAggregate" not in plain


def test_one_row_of_a_key_needs_no_aggregate() -> None:
    assert "GroupAggregate" not in optimized("SELECT a, (SELECT v FROM p WHERE k = a) AS v FROM l", TABLES)
    assert "RAISE_ERROR" in optimized("SELECT a, (SELECT d FROM r WHERE c = a) AS v FROM l", TABLES)


def test_names_of_the_subquery_go_first() -> None:
    text = optimized("SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE c = id AND l.a = d)", TABLES)
    assert "RegularJoin(LEFT SEMI; id = c AND a = d)" in text
    inner = optimized("SELECT a FROM l WHERE EXISTS (SELECT 1 FROM l AS x WHERE a = b)", TABLES)
    assert "where a = b" in inner


def test_views_see_no_columns_of_the_query_around_them() -> None:
    view = "CREATE VIEW w AS SELECT c FROM r WHERE d > 1;"
    assert "LEFT SEMI; a = c" in optimized(f"{view} SELECT a FROM l WHERE a IN (SELECT c FROM w)", TABLES)
    assert error(f"{view} SELECT a FROM l WHERE a IN (SELECT d FROM w)", TABLES).startswith("SS201")


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        (  # of the groups
            "SELECT a, MAX(b) / (SELECT MAX(c) FROM r) FROM l GROUP BY a HAVING MAX(b) > 1 AND a IN (SELECT k FROM p)",
            ["Output", "Project", "RegularJoin(LEFT;", "RegularJoin(LEFT SEMI;", "Filter(max > 1)", "GroupAggregate"],
        ),
        (
            "SELECT a FROM l GROUP BY a HAVING EXISTS (SELECT 1 FROM r WHERE r.c = l.a)",
            ["Output", "RegularJoin(LEFT SEMI; a = c)", "GroupAggregate(keys a"],
        ),
        (  # of the rows below them
            "SELECT a IN (SELECT k FROM p) AS i, SUM(b) FROM l GROUP BY i",
            ["Output", "Project", "GroupAggregate(keys", "Project", "RegularJoin(LEFT;"],
        ),
        (
            "SELECT COUNT(*) FILTER (WHERE b > (SELECT AVG(c) FROM r)) FROM l",
            ["Output", "Project", "GroupAggregate(COUNT(*) FILTER(WHERE b > avg)", "RegularJoin(LEFT; TRUE)"],
        ),
        (
            "SELECT a FROM l QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) = 1 AND a IN (SELECT k FROM p)",
            ["Output", "Project", "RegularJoin(LEFT SEMI;", "TopN"],
        ),
        ("SELECT a FROM l JOIN r ON a = c AND d IN (SELECT k FROM p)", ["Output", "Project", "RegularJoin(LEFT SEMI;"]),
        (  # of the side that only finds partners a filter, of the other one a value
            "SELECT a FROM l LEFT JOIN r ON a = c AND d IN (SELECT k FROM p)",
            ["Output", "Project", "RegularJoin(LEFT; a = c)"],
        ),
        (
            "SELECT a FROM l FULL JOIN r ON a = c AND d > (SELECT MAX(k) FROM p)",
            ["Output", "Project", "RegularJoin(FULL; a = c AND d > max)"],
        ),
    ],
)
def test_subqueries_of_groups_and_joins(text: str, operators: list[str]) -> None:
    lines = [line.strip(" └─├│") for line in optimized(text, TABLES).splitlines()]
    found = iter(lines)
    assert all(any(line.startswith(operator) for line in found) for operator in operators), lines


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM l WHERE b = 1 OR EXISTS (SELECT 1 FROM r WHERE c < a)",
        "SELECT a FROM l WHERE b < (SELECT MAX(d) FROM r WHERE c < a)",
        "SELECT a FROM l WHERE b IN (SELECT d + b FROM r)",
        "SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE c + a > 3)",
        "SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE CAST(c AS STRING) = a)",
        "SELECT a FROM l WHERE EXISTS (SELECT a + c FROM r WHERE EXISTS (SELECT 1 FROM p WHERE k = l.a))",
        "SELECT a, x.d FROM l, LATERAL (SELECT d, SUM(c) FROM r WHERE c < a GROUP BY ROLLUP (d)) AS x",
        "SELECT a, x.s FROM l, LATERAL (SELECT SUM(d) OVER (PARTITION BY n) AS s FROM r WHERE c = a) AS x",
        "SELECT a, x.s FROM l, LATERAL (SELECT SUM(d) OVER w AS s FROM r WHERE c = a WINDOW w AS (ORDER BY n)) AS x",
    ],
)
def test_what_no_condition_of_a_join_says_is_computed_for_each_value_that_is_read(text: str) -> None:
    found = plan(text, TABLES)
    tables = [node.table.name for node in found.walk() if isinstance(node, Scan)]
    assert tables.count("l") == 2


def test_a_subquery_that_is_read_by_its_alias_is_joined_once() -> None:
    found = plan("SELECT (SELECT MAX(c) FROM r) AS m, m + 1 AS n, m * n AS k FROM l", TABLES)
    assert [node.table.name for node in found.walk() if isinstance(node, Scan)] == ["l", "r"]


def test_values_that_have_a_key_need_not_be_made_distinct() -> None:
    found = plan("SELECT x.n FROM p, LATERAL (SELECT COUNT(*) + v AS n FROM r WHERE c < k) AS x", TABLES)
    assert len([node for node in found.walk() if isinstance(node, GroupAggregate)]) == 1


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("SELECT a, (SELECT d FROM r WHERE c <= a ORDER BY c DESC LIMIT 1) FROM l", AsofJoin),
        ("SELECT a, (SELECT d FROM r WHERE a > c AND n = b ORDER BY r.c DESC LIMIT 1) FROM l", AsofJoin),
        ("SELECT a, x.d FROM l, LATERAL (SELECT d FROM r WHERE c + 1 >= a ORDER BY c + 1 LIMIT 1) AS x", AsofJoin),
        ("SELECT a, (SELECT d FROM r WHERE c <= a ORDER BY c LIMIT 1) FROM l", TopN),
        ("SELECT a, (SELECT d FROM r WHERE c <= a ORDER BY d DESC LIMIT 1) FROM l", TopN),
        ("SELECT a, (SELECT d FROM r WHERE c <= a ORDER BY c DESC, d LIMIT 1) FROM l", TopN),
        ("SELECT a, (SELECT d FROM r WHERE c <= a ORDER BY c DESC LIMIT 1 OFFSET 1) FROM l", TopN),
        ("SELECT a, (SELECT d FROM r WHERE c <= a AND d < b ORDER BY c DESC LIMIT 1) FROM l", TopN),
        ("SELECT a FROM l WHERE b IN (SELECT d FROM r WHERE c <= a ORDER BY c DESC LIMIT 1)", TopN),
    ],
)
def test_the_nearest_row_is_that_of_an_asof_join(text: str, operator: type[Node]) -> None:
    assert {AsofJoin, TopN} & {type(node) for node in plan(text, TABLES).walk()} == {operator}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT a FROM l WHERE a IN (SELECT MAX(d) FROM r WHERE c = a HAVING COUNT(*) = 0)", "SS308"),
        ("SELECT a FROM l WHERE EXISTS (SELECT 1 FROM (SELECT c FROM r WHERE d = a) AS x)", "SS308"),
        ("SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r JOIN p ON c = k AND v = a)", "SS308"),
        ("SELECT a FROM l WHERE EXISTS (SELECT c FROM r WHERE c = a UNION ALL SELECT k FROM p)", "SS308"),
        ("SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE EXISTS (SELECT 1 FROM p WHERE k = b))", "SS308"),
        ("SELECT a FROM l LEFT JOIN r ON a = c AND a IN (SELECT k FROM p WHERE p.k = r.d)", "SS308"),
        ("SELECT ROW_NUMBER() OVER (ORDER BY (SELECT MAX(c) FROM r)) FROM l", "SS308"),
        ("SELECT (a, b, a, b) IN (SELECT c, d, c, d FROM r) FROM l", "SS308"),
        ("SELECT a FROM l WHERE a IN (SELECT c, d FROM r)", "SS650"),
        ("SELECT a FROM l WHERE a = (SELECT c, d FROM r)", "SS650"),
        ("SELECT a FROM l WHERE a IN (SELECT c FROM r WHERE nope = 1)", "SS201"),
    ],
)
def test_what_is_refused(text: str, code: str) -> None:
    assert error(text, TABLES).startswith(code)


@pytest.mark.parametrize("sets", ["CUBE (c)", "ROLLUP (c)", "GROUPING SETS ((c), ())", "c WITH ROLLUP", "c WITH CUBE"])
def test_grouping_sets_of_a_correlated_subquery_are_those_of_each_row_around_it(sets: str) -> None:
    """The correlation is a key of its own in all of them; the keys that are written stay NULL in their totals."""
    for asked in ("a IN (SELECT MAX(c)", "EXISTS (SELECT COUNT(*)"):
        found = plan(f"SELECT a FROM l WHERE {asked} FROM r WHERE c = a GROUP BY {sets})", TABLES)
        (grouped,) = (n for n in found.walk() if isinstance(n, GroupAggregate) and n.grouping_sets is not None)
        correlation = set(grouped.keys) - {"c"}
        assert len(correlation) == 1
        assert [set(keys) - correlation for keys in grouped.grouping_sets or ()] == [{"c"}, set()]
        assert all(correlation <= set(keys) for keys in grouped.grouping_sets or ())


def test_values_of_no_rows_have_the_type_of_the_others() -> None:
    """So they can be compared in ON of an outer join."""
    value = "(SELECT MIN(c) + 1 FROM r WHERE d = b)"
    found = plan(f"SELECT x.v FROM (SELECT {value} AS v FROM l) AS x LEFT JOIN r ON x.v > r.c", TABLES)
    assert [field.type.name for field in found.schema] == ["INT"]
