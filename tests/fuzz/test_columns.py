"""What tasks compute over columns has the values that Spark computes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.planner.nodes import Output
from sqlstream.planner.physical.column_queries import column_query
from sqlstream.planner.physical.sources import ThroughSpark
from sqlstream.planner.rules import optimize
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import depth
from tests.fuzz.columns import COLUMNS, random_expression, random_rows
from tests.planner.plans import plan

TABLE = f"CREATE TABLE t (id INT, {', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})"


ZONE = "America/St_Johns"


class Sources(ThroughSpark):
    """Those of a session in a zone that is not whole hours from UTC."""

    @property
    def zone(self) -> str | None:
        return ZONE


def by_tasks(expression: str) -> bool:
    """Whether tasks compute an expression; those that are refused are not compared."""
    try:
        bound = optimize(plan(f"SELECT id, {expression} AS x FROM t", f"{TABLE} WITH ('connector' = 'filesystem');"))
    except SqlStreamError:
        return False
    assert isinstance(bound, Output)
    return column_query(bound, Sources()) is not None


@contextmanager
def streaming(spark: Any, folder: Path, rows: list[dict[str, object]]) -> Iterator[Session]:
    """A session in the zone, with the rows as the table t of streams."""
    numbered = [{"id": number, **row} for number, row in enumerate(rows)]
    (folder / "1.json").write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in numbered))
    with sqlstream.connect(spark) as session:
        session.sql("SET 'execution.runtime-mode' = 'streaming'")
        session.sql(f"SET 'table.local-time-zone' = '{ZONE}'")
        session.sql(f"{TABLE} WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json')")
        yield session


@pytest.mark.spark
def test_tasks_compute_what_spark_computes(spark: Any, tmp_path: Path) -> None:
    random = Random(35)
    candidates = [random_expression(random) for _ in range(depth(200, 4000))]
    expressions = [*dict.fromkeys(filter(by_tasks, candidates))]
    assert len(expressions) > len(candidates) / 3
    with streaming(spark, tmp_path, random_rows(random, 300)) as session:
        for start in range(0, len(expressions), 400):
            together = expressions[start : start + 400]
            query = f"SELECT id, {', '.join(f'{e} AS x{i}' for i, e in enumerate(together))} FROM t"
            found = {}
            for reader in ("auto", "spark"):
                session.sql(f"SET 'sqlstream.file-reader' = '{reader}'")
                assert ("its tasks read" in str(session.sql(f"EXPLAIN PHYSICAL {query}"))) == (reader == "auto")
                result = session.sql(query)
                assert isinstance(result, Query)
                found[reader] = result.to_arrow().sort_by("id")
            for number, expression in enumerate(together):
                ours, theirs = (found[reader][f"x{number}"] for reader in ("auto", "spark"))
                assert ours.type == theirs.type, expression
                ours, theirs = ([*map(repr, each.to_pylist())] for each in (ours, theirs))
                assert ours == theirs, expression  # with the scale of decimals, too


@pytest.mark.spark
def test_exchanges_compute_columns_of_the_types_that_spark_gives_them(spark: Any, tmp_path: Path) -> None:
    """A kernel takes columns of one type, whoever computes them."""
    random = Random(53)
    candidates = (random_expression(random) for _ in range(depth(40, 800)))
    expressions = [*dict.fromkeys(filter(by_tasks, candidates))]
    with streaming(spark, tmp_path, random_rows(random, 50)) as session:
        counts = ", ".join(f"COUNT(DISTINCT {e}) AS x{i}" for i, e in enumerate(expressions))
        query = f"SELECT u, {counts} FROM t GROUP BY u"
        found = {}
        for reader in ("auto", "spark"):
            session.sql(f"SET 'sqlstream.file-reader' = '{reader}'")
            lists = "Spark lists the files" in str(session.sql(f"EXPLAIN PHYSICAL {query}"))
            assert lists == (reader == "auto")
            result = session.sql(query)
            assert isinstance(result, Query)
            found[reader] = {row[1]: row for row in result.fetchall()}
        assert found["auto"] == found["spark"]
        assert len(found["auto"]) > 9
