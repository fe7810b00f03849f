"""Queries of a size that only programs write, run on Spark with the settings that a user has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlstream.query import Query
from sqlstream.session import Session

pytestmark = pytest.mark.spark

IDS = [*range(10)]
COMMON = ", ".join(f"c{i} AS (SELECT a + 1 AS a FROM c{i - 1})" for i in range(1, 200))
QUERIES: dict[str, tuple[str, list[int]]] = {
    "1,000 conditions that AND joins": (
        f"SELECT a FROM t WHERE {' AND '.join(f'a <> {i}' for i in range(5, 1005))}",
        [*range(5)],
    ),
    "1,000 conditions that OR joins": (
        f"SELECT a FROM t WHERE {' OR '.join(f'a = {i}' for i in range(5, 1005))}",
        [*range(5, 10)],
    ),
    "1,000 conditions above a computed column": (
        f"SELECT b FROM (SELECT COALESCE(a, RAND()) + 0 AS b FROM t) WHERE "
        f"{' AND '.join(f'b <> {i}' for i in range(5, 1005))}",
        [*range(5)],
    ),
    "30 branches of a union": (" UNION ALL ".join(["SELECT a FROM t"] * 30), sorted(IDS * 30)),
    "200 common table expressions": (
        f"WITH c0 AS (SELECT a FROM t), {COMMON} SELECT a FROM c199",
        [a + 199 for a in IDS],
    ),
    "200 nested calls": (f"SELECT {'ABS(' * 200}a{')' * 200} AS a FROM t", IDS),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_long_query_runs(name: str, spark: Any, tmp_path: Path) -> None:
    query, expected = QUERIES[name]
    (tmp_path / "t.json").write_text("".join(f'{{"a": {a}}}\n' for a in IDS))
    with Session(spark) as session:
        session.sql(f"""CREATE TABLE t (a BIGINT)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/t.json')""")
        result = session.sql(query)
        assert isinstance(result, Query)
        assert sorted(row[0] for row in result.fetchall()) == expected
