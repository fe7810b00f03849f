"""NULLs over finished data: IN and EXISTS beside SQLite, rows of values, aggregates of no rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings

import sqlstream
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import depth
from tests.planner.memberships import TABLES, Rows, queries, results

pytestmark = pytest.mark.spark

DATA: dict[str, Rows] = {
    "l": [(5, 1, 1), (7, 2, 2), (None, 2, 3), (1, None, 0), (3, 0, 2)],
    "r": [(5, 1, 1), (None, 2, 2), (2, 0, 0), (1, None, 3)],
}


@pytest.fixture(scope="module")
def session(spark) -> Iterator[Session]:
    with sqlstream.connect(spark) as own:
        own.sql("SET 'execution.runtime-mode' = 'batch'")
        for name, columns in TABLES.items():
            values = ", ".join(f"({', '.join(_written(value) for value in row)})" for row in DATA[name])
            names = ", ".join(columns)
            own.sql(f"CREATE VIEW {name} AS SELECT {names} FROM (VALUES {values}) AS t ({names})")
        own.sql("""
        CREATE VIEW t AS SELECT id, CAST(a AS BIGINT) AS a, b
        FROM (VALUES (1, 10, 'x'), (2, 10, 'y'), (3, NULL, 'x')) AS v (id, a, b)
        """)
        yield own


def _rows(session: Session, text: str) -> list[tuple]:
    result = session.sql(text)
    assert isinstance(result, Query)
    return result.fetchall()


def _written(value: int | None) -> str:
    return "CAST(NULL AS INT)" if value is None else str(value)


@pytest.mark.long
@settings(
    max_examples=depth(12, 150), derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(queries(unequal=True))
@example("SELECT l.id, x.n FROM l LEFT JOIN r AS x ON l.a NOT IN (SELECT q.c FROM r AS q)")
@example(
    "SELECT l.b, MAX(l.a) IN (SELECT q.c FROM r AS q) AS p, "
    "(l.b, MAX(l.a)) NOT IN (SELECT q.d, q.c FROM r AS q) AS q FROM l GROUP BY l.b"
)
def test_in_knows_three_values(session: Session, text: str) -> None:
    assert Counter(_rows(session, text)) == results(text, DATA)


X, Y = {"a": 10, "b": "x"}, {"a": 10, "b": "y"}
QUERIES = {
    "SELECT id, (a, b) IN ((10, 'x')) AS i, (a, b) NOT IN ((11, 'z'), (NULL, 'y')) AS n, (a, b) = (10, 'x') AS e, "
    "ROW(a, b) < ROW(10, 'y') AS l, (a, b) BETWEEN (9, 'a') AND (10, 'x') AS r, "
    "(a, b) IS NOT DISTINCT FROM (NULL, 'x') AS s, (a, b) = ANY ((10, 'x'), (10, 'y')) AS y FROM t": [
        (1, True, True, True, True, True, False, True),
        (2, False, None, False, False, False, False, True),
        (3, None, True, None, None, None, True, None),
    ],
    "SELECT id, CASE WHEN id = 1 THEN ROW(a, b) ELSE ROW(10, 'x') END AS c, "
    "COALESCE(IF(id = 2, NULL, ROW(a, b)), ROW(7, 'n')) AS f, ARRAY[ROW(a, b), (1, 'q')] AS r FROM t WHERE id < 3": [
        (1, X, X, [X, {"a": 1, "b": "q"}]),
        (2, X, {"a": 7, "b": "n"}, [Y, {"a": 1, "b": "q"}]),
    ],
    "SELECT 1 AS n, ROW(a, b) AS r FROM t WHERE id < 3 UNION ALL SELECT 2, ROW(id, 'z') FROM t WHERE id = 1": [
        (1, X),
        (1, Y),
        (2, {"a": 1, "b": "z"}),
    ],
    "SELECT t.id, u.id AS other FROM t LEFT JOIN t AS u ON (t.a, t.b) = (u.a, u.b)": [(1, 1), (2, 2), (3, None)],
    "SELECT (SELECT ARRAY_AGG(c) FROM r WHERE n = t.id + 9) AS a, (SELECT COLLECT(c) FROM r WHERE n = t.id + 9) AS m, "
    "(SELECT JSON_ARRAYAGG(c) FROM r WHERE n = t.id + 9) AS j, "
    "(SELECT COLLECT_LIST(c) FROM r WHERE n = t.id + 9) AS l, "
    "(SELECT SIZE(ARRAY_AGG(c)) FROM r WHERE n = t.id + 9) AS s, "
    "COALESCE((SELECT ARRAY_AGG(c) FROM r WHERE n = t.id + 9), ARRAY[1]) AS k, "
    "(SELECT COALESCE(ARRAY_AGG(c), ARRAY[2]) FROM r WHERE n = t.id + 9) AS w, "
    "(SELECT ARRAY_AGG(c) FROM r WHERE n = 1) AS g FROM t WHERE id = 1": [
        (None, None, None, [], None, [1], [2], [5])
    ],
    "SELECT ARRAY_AGG(c) AS a, JSON_OBJECTAGG(KEY 'k' VALUE c) AS o, COUNT(*) AS n FROM r WHERE n > 9": [
        (None, None, 0)
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", QUERIES)
def test_rows_and_aggregates_of_no_rows(session: Session, text: str) -> None:
    assert sorted(_rows(session, text), key=repr) == QUERIES[text]
