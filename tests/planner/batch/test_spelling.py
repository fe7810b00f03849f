"""How queries over finished data are spelled for Spark, and where each part of that text stands in the script."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.catalog import Catalog
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.planner.batch import conditions_of, resolve, spark_text
from sqlstream.planner.batch.respelling import for_spark
from sqlstream.planner.catalog import Column, Table, View
from sqlstream.types import DataType


def query_of(text: str) -> exp.Expr:
    (statement,) = parse_script(text)
    assert isinstance(statement, nodes.Query)
    return statement.query


def catalog() -> Catalog:
    own_catalog = Catalog()
    columns = tuple(Column(name, DataType(kind)) for name, kind in (("a", "INT"), ("b", "INT"), ("c", "STRING")))
    for name in ("t", "u"):
        own_catalog.create(nodes.Name((name,), span=None), Table(name, columns, "filesystem", bounded=True))  # type: ignore[arg-type]
    text = "SELECT a, b FROM t WHERE b > 1"
    own_catalog.create(nodes.Name(("v",), span=None), View("v", query_of(text), ("x", "y"), text))  # type: ignore[arg-type]
    return own_catalog


def spelled(text: str) -> str:
    known = catalog()
    return spark_text(for_spark(resolve(query_of(text), known, lambda table: f"_{table.name}").query, known)).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t", "SELECT a FROM `_t` AS `t`"),
        ("SELECT T.a FROM T", "SELECT T.a FROM `_t` AS `T`"),
        ("SELECT x FROM v AS w", "SELECT x FROM (SELECT a, b FROM `_t` AS `t` WHERE b > 1) AS `w`(`x`, `y`)"),
        ("WITH t AS (SELECT * FROM t) SELECT a FROM t", "WITH t AS (SELECT * FROM `_t` AS `t`) SELECT a FROM t"),
        (
            "WITH t AS (SELECT 1 AS q) SELECT x FROM v, t",
            "WITH t AS (SELECT 1 AS q) SELECT x FROM (SELECT a, b FROM `_t` AS `t` WHERE b > 1) AS `v`(`x`, `y`), t",
        ),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT n FROM t",
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 AS `n + 1` FROM t) SELECT n FROM t",
        ),
        (
            "SELECT a + 1 AS x, SUM(x) AS s, SUM(x * 2), x AS y FROM t GROUP BY a",
            "SELECT a + 1 AS x, SUM((a + 1)) AS s, SUM((a + 1) * 2) AS `sum(x * 2)`, (a + 1) AS y FROM `_t` AS `t` "
            "GROUP BY a",
        ),
        (
            "SELECT x.b AS n, ROW_NUMBER() OVER (ORDER BY n) AS m FROM (SELECT a AS n, b FROM t) AS x",
            "SELECT x.b AS n, ROW_NUMBER() OVER (ORDER BY n) AS m FROM (SELECT a AS n, b FROM `_t` AS `t`) AS x",
        ),
        (
            "SELECT a AS n, ROW_NUMBER() OVER (ORDER BY n) AS m FROM t",
            "SELECT a AS n, ROW_NUMBER() OVER (ORDER BY a) AS m FROM `_t` AS `t`",
        ),
        (
            "SELECT a, GROUPING(a), GROUPING_ID(b) FROM t GROUP BY a HAVING GROUPING(a) = 0",
            "SELECT a, CAST(0 AS TINYINT) AS `grouping(a)`, GROUPING_ID(b) AS `grouping_id(b)` FROM `_t` AS `t` "
            "GROUP BY a HAVING CAST(0 AS TINYINT) = 0",
        ),
        (
            "WITH c AS (SELECT 1) SELECT DISTINCT a + 1 AS x, SUM(b) AS s FROM t GROUP BY a + 1 QUALIFY "
            "RANK() OVER (ORDER BY SUM(b)) = 1 AND x > 1 ORDER BY s, MAX(b) DESC LIMIT 2",
            "WITH c AS (SELECT 1 AS `1`) SELECT DISTINCT `x`, `s` FROM (SELECT a + 1 AS x, SUM(b) AS s, SUM(b) AS "
            "__part_0, MAX(b) AS __part_1 FROM `_t` AS `t` GROUP BY a + 1) AS __groups "
            "QUALIFY RANK() OVER (ORDER BY __part_0) = 1 AND x > 1 ORDER BY s, __part_1 DESC LIMIT 2",
        ),
        (
            "SELECT a, SUM(b) AS s FROM t GROUP BY a QUALIFY RANK() OVER (ORDER BY s) = 1",
            "SELECT a, SUM(b) AS s FROM `_t` AS `t` GROUP BY a QUALIFY RANK() OVER (ORDER BY s) = 1",
        ),
        ("SELECT x FROM TABLE(EXPLODE(ARRAY(1))) AS t(x)", "SELECT x FROM EXPLODE(ARRAY(1)) AS t(x)"),
        ("SELECT x FROM LATERAL EXPLODE(ARRAY(1)) AS t(x)", "SELECT x FROM EXPLODE(ARRAY(1)) AS t(x)"),
        ("SELECT x FROM LATERAL (SELECT 1 AS x) AS t", "SELECT x FROM (SELECT 1 AS x) AS t"),
        (
            "SELECT x FROM t LEFT JOIN LATERAL (VALUES (t.a, 'p'), (b, NULL)) AS v(x, y) ON x > 1",
            "SELECT x FROM `_t` AS `t` LEFT JOIN LATERAL (SELECT t.a AS col1, 'p' AS col2 UNION ALL SELECT b AS col1, "
            "NULL AS col2) AS v(x, y) ON x > 1",
        ),
        ("SELECT COUNT(*) FROM t", "SELECT COUNT(*) AS `count(*)` FROM `_t` AS `t`"),
        ("SELECT FIRST_VALUE(a) AS f FROM t", "SELECT FIRST_VALUE(a) IGNORE NULLS AS f FROM `_t` AS `t`"),
        (
            "SELECT ARRAY_AGG(a IGNORE NULLS) FILTER (WHERE a > 1) AS f FROM t GROUP BY b",
            "SELECT CASE WHEN SIZE(ARRAY_AGG(a) FILTER(WHERE a > 1) IGNORE NULLS) > 0 "
            "THEN ARRAY_AGG(a) FILTER(WHERE a > 1) IGNORE NULLS END AS f FROM `_t` AS `t` GROUP BY b",
        ),
        (
            "SELECT SIZE(ARRAY_AGG(a)) AS f FROM t",
            "SELECT SIZE(CASE WHEN COUNT(*) > 0 THEN ARRAY_AGG(a) RESPECT NULLS END) AS f FROM `_t` AS `t`",
        ),
        (
            "SELECT a FROM t WHERE a = ANY (SELECT b FROM u)",
            "SELECT a FROM `_t` AS `t` WHERE a IN (SELECT b FROM `_u` AS `u`)",
        ),
        (
            "SELECT a FROM t QUALIFY RANK() OVER (ORDER BY b) = 1",
            "SELECT a FROM `_t` AS `t` QUALIFY RANK() OVER (ORDER BY b) = 1",
        ),
        (
            "SELECT x FROM t, UNNEST(ARRAY(a)) AS u(x)",
            "SELECT x FROM `_t` AS `t` CROSS JOIN LATERAL EXPLODE(ARRAY(a)) AS u(x)",
        ),
        (
            "SELECT SUM(FIRST_VALUE(a)) OVER () AS f, LAG(a) IGNORE NULLS OVER (ORDER BY b) AS l FROM t GROUP BY b",
            "SELECT SUM(FIRST_VALUE(a) IGNORE NULLS) OVER () AS f, LAG(a) IGNORE NULLS OVER (ORDER BY b) AS l "
            "FROM `_t` AS `t` GROUP BY b",
        ),
        (
            "SELECT LAG(a IGNORE NULLS) OVER (ORDER BY b) AS l, STRING_AGG(b, ',' ORDER BY a) AS s FROM t",
            "SELECT LAG(a) IGNORE NULLS OVER (ORDER BY b) AS l, STRING_AGG(b, ',') WITHIN GROUP (ORDER BY a) AS s "
            "FROM `_t` AS `t`",
        ),
        (
            "SELECT FIRST(a ORDER BY b DESC) AS f FROM t",
            "SELECT GET(TRANSFORM(ARRAY_SORT(COLLECT_LIST(STRUCT(a AS v, b AS k0)), (__a, __b) -> CASE "
            "WHEN __a.k0 IS NULL AND NOT __b.k0 IS NULL THEN 1 WHEN NOT __a.k0 IS NULL AND __b.k0 IS NULL THEN -1 "
            "WHEN __a.k0 < __b.k0 THEN 1 WHEN __a.k0 > __b.k0 THEN -1 ELSE 0 END), __e -> __e.v), 0) AS f "
            "FROM `_t` AS `t`",
        ),
        ("SELECT INTERVAL '5' MILLISECOND AS i", "SELECT INTERVAL '0.005' SECOND AS i"),
        ("SELECT EXPLODE(ARRAY(a)) FROM t", "SELECT EXPLODE(ARRAY(a)) FROM `_t` AS `t`"),
        (
            "SELECT t.a FROM t ASOF LEFT JOIN u AS r MATCH_CONDITION (t.a >= r.y) ON t.b = r.b",
            "SELECT t.a FROM `_t` AS `t` LEFT JOIN LATERAL (SELECT * FROM `_u` AS r WHERE t.b = r.b AND t.a >= r.y "
            "ORDER BY r.y DESC LIMIT 1) AS `r` ON TRUE",
        ),
        (
            "SELECT t.a FROM t ASOF JOIN u ON u.y + 1 > t.a AND t.b = 1",
            "SELECT t.a FROM `_t` AS `t` JOIN LATERAL (SELECT * FROM `_u` AS `u` WHERE u.y + 1 > t.a AND t.b = 1 "
            "ORDER BY u.y + 1 LIMIT 1) AS `u` ON TRUE",
        ),
    ],
)
def test_queries_are_spelled_for_spark(text: str, expected: str) -> None:
    assert spelled(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT ? FROM t", "SS345"),
        ("SELECT t.a FROM t ASOF JOIN u ON t.a = u.a", "SS670"),
        ("SELECT t.a FROM t ASOF JOIN u ON t.a >= y", "SS670"),
        ("SELECT * FROM nobody", "SS202"),
        ("SELECT ARRAY_AGG(a ORDER BY b LIMIT 2) FROM t", "SS399"),
        ("SELECT SUM(a ORDER BY b) FROM t", "SS207"),
        ("SELECT INTERVAL 'x' SECOND", "SS212"),
        ("SELECT * FROM GENERATE_SERIES(1, 3)", "SS203"),
        ("SELECT * FROM t, nosuch(1) AS u(x)", "SS203"),
        ("SELECT * FROM t JOIN UPPER('a') AS u(x) ON t.a = u.x", "SS209"),
    ],
)
def test_what_has_no_words_in_spark_is_refused_with_its_place(text: str, code: str) -> None:
    with pytest.raises(SqlStreamError) as caught:
        spelled(text)
    assert caught.value.code == code
    assert caught.value.diagnostic.span is not None


def test_the_query_that_was_parsed_stays_as_it_is() -> None:
    text = "WITH q AS (SELECT a FROM t) SELECT COUNT(*), x FROM q, v, UNNEST(ARRAY(a)) AS u(x)"
    query = query_of(text)
    before = query.sql("sqlstream")
    known = catalog()
    for_spark(resolve(query, known, lambda table: f"_{table.name}").query, known)
    assert query.sql("sqlstream") == before
    assert all(child.parent is node for node in query.walk() for child in node.iter_expressions())


def test_inputs_are_the_tables_behind_views_and_with() -> None:
    text = "WITH q AS (SELECT * FROM u) SELECT * FROM q, v WHERE a IN (SELECT a FROM t)"
    actual = resolve(query_of(text), catalog(), lambda table: table.name)
    assert [(one.table.name, one.view and one.view.name) for one in actual.inputs] == [("u", None), ("t", "v")]
    assert [view.name for view in actual.views] == ["v"]


def test_parts_of_the_text_know_where_they_stand() -> None:
    text = "SELECT a + nope, upper(c) FROM t WHERE b IN (SELECT y FROM v)"
    known = catalog()
    actual = spark_text(for_spark(resolve(query_of(text), known, lambda table: f"_{table.name}").query, known))
    for part in ("nope", "a + nope", "upper(c)", "y"):
        start = actual.text.index(part)
        where = actual.part_at(start, start + len(part))
        assert where is not None and text[where.span.start : where.span.end] == part
    inside = actual.text.index("b > 1")
    of_view = actual.part_at(inside, inside + 5)
    assert of_view is not None and of_view.view == "v"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t WHERE a > 1 AND c = 'x'", ["a > 1", "c = 'x'"]),
        ("SELECT * FROM t AS s JOIN u ON s.a = u.a WHERE s.a > 1 AND u.b > 2 AND b > 3", ["a > 1"]),
        ("SELECT * FROM t LEFT JOIN u ON t.a = u.a WHERE t.a > 1", ["a > 1"]),
        ("SELECT * FROM u LEFT JOIN t ON t.a = u.a WHERE t.a > 1", []),
        ("SELECT * FROM t FULL JOIN u ON t.a = u.a WHERE t.a > 1", []),
        ("SELECT * FROM t WHERE a > 1 OR EXISTS (SELECT 1 FROM u)", []),
        ("SELECT * FROM t WHERE a > RAND()", []),
        ("SELECT * FROM t WHERE a > 1 UNION ALL SELECT * FROM t", []),
    ],
)
def test_conditions_of_one_table_may_be_checked_by_its_source(text: str, expected: list[str]) -> None:
    known = catalog()
    table = known.relation("t")
    assert isinstance(table, Table)
    query = for_spark(resolve(query_of(text), known, lambda actual: f"_{actual.name}").query, known)
    assert [c.sql("spark").replace("`", "") for c in conditions_of(table, "_t", query)] == expected


def test_rows_that_meet_have_the_names_of_the_first_one() -> None:
    text = "SELECT COALESCE(IF(b = 1, NULL, ROW(d, c)), ROW(7, 'n')) AS f FROM (SELECT a + b AS d, b, c FROM t)"
    assert "COALESCE(IF(b = 1, NULL, STRUCT(d, c)), STRUCT(7 AS `d`, 'n' AS `c`)) AS f" in spelled(text)
