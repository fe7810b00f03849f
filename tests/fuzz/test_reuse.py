"""Random queries of one view, in a statement set, UNION ALL or join, give what they give with an operator each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pytest

from sqlstream.planner.physical import physical_plan
from sqlstream.planner.physical.steps import Reused
from sqlstream.plans import engine_settings_of
from sqlstream.settings import REUSE
from sqlstream.testing import StreamTest
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.tested_session import SessionUnderTest, plan_of_script

pytestmark = [pytest.mark.spark, pytest.mark.long]

TABLES = """
CREATE TABLE b (k BIGINT, x BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
    WITH ('connector' = 'test');
CREATE TABLE u (k BIGINT, x BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
CREATE TABLE o1 (a STRING, c STRING) WITH ('connector' = 'test');
CREATE TABLE o2 (a STRING, c STRING) WITH ('connector' = 'test');
CREATE TABLE o3 (a STRING PRIMARY KEY NOT ENFORCED, c STRING) WITH ('connector' = 'test');
"""
SINKS = ("o1", "o2", "o3", "o1")
KEYS = "GROUP BY k, window_start, window_end"
TEN_SECONDS = "TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
VIEWS = (
    f"SELECT k, window_start AS w, COUNT(*) AS n, MAX(x) AS m FROM {TEN_SECONDS} {KEYS}",
    f"""SELECT k, window_start AS w, COUNT(*) AS n, SUM(x) AS m FROM {TEN_SECONDS} {KEYS}
        TRIGGER EVERY 1 ROWS RETRACTING""",
    f"""SELECT k, window_start AS w, COUNT(*) AS n, MAX(x) AS m
        FROM SESSION(TABLE b PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND) {KEYS}""",
    "SELECT k, s AS w, COUNT(*) AS n, MAX(x) AS m FROM b GROUP BY k, s",
    "SELECT b.k, b.s AS w, b.x AS n, u.x AS m FROM b JOIN u ON b.k = u.k",
    "SELECT b.k, b.s AS w, b.x AS n, u.x AS m FROM b LEFT JOIN u ON b.k = u.k",
    """SELECT k, s AS w, x AS n, place AS m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) AS place
        FROM b) WHERE place <= 2""",
    "SELECT k, s AS w, x AS n, SUM(x) OVER (PARTITION BY k ORDER BY ts) AS m FROM b",
)
VALUES = ("k", "w", "n", "m", "n + 1", "CASE WHEN n > 1 THEN 10 / (n - 1) END", "COALESCE(m, 0)", "'c'")
CONDITIONS = ("", "WHERE n > 1", "WHERE m IS NULL OR n < 3", "WHERE n <> 1 AND 10 / (n - 1) > 1", "WHERE k > 1")


def query(choose: random.Random) -> str:
    values = ", ".join(f"CAST({choose.choice(VALUES)} AS STRING)" for _ in range(2))
    return f"SELECT {values} FROM v {choose.choice(CONDITIONS)}"


def union(choose: random.Random) -> str:
    return " UNION ALL ".join(query(choose) for _ in range(choose.randint(2, 3)))


def join(choose: random.Random) -> str:
    values = ", ".join(f"CAST({choose.choice('ab')}.{choose.choice('kwnm')} AS STRING) AS v{i}" for i in range(2))
    left, right = (f"(SELECT * FROM v {choose.choice(CONDITIONS)})" for _ in range(2))
    kind, condition = choose.choice(("", "LEFT ", "FULL ")), choose.choice(("", " AND a.w = b.w", " AND a.n < b.n"))
    more = choose.choice(("", "", " JOIN v AS c ON a.k = c.k")) if not kind else ""
    return (
        f"SELECT {values} FROM {left} AS a {kind}JOIN {right} AS b ON a.k = b.{choose.choice('kkn')}{condition}{more}"
    )


def script_of(view: str, queries: Sequence[str]) -> str:
    inserts = " ".join(f"INSERT INTO {table} {query};" for table, query in zip(SINKS, queries, strict=False))
    job = f"EXECUTE STATEMENT SET BEGIN {inserts} END" if len(queries) > 1 else inserts
    return f"{TABLES} CREATE VIEW v AS {view}; {job}"


def results(session: SessionUnderTest, view: str, queries: Sequence[str], rows: random.Random) -> list[list[str]]:
    script, second = script_of(view, queries), 0
    with StreamTest(script, session, watermarks="rows", streaming=False) as test:
        for number in range(14):
            second += rows.randint(0, 3)
            at = datetime(2024, 1, 1) + timedelta(seconds=max(0, second - rows.choice((0, 0, 0, 0, 12))))
            table = rows.choice("bbu") if "JOIN" in view else "b"
            test.rows(table, [(rows.randint(1, 3), rows.randint(1, 4), rows.choice("pq"), at)])
            if number % 5 == 4:
                test.settle()
        test.finish()
        return [sorted(map(str, test.output(table))) for table in SINKS[: min(3, len(queries))]]


def shares(session: SessionUnderTest, view: str, queries: Sequence[str]) -> bool:
    plan = plan_of_script(script_of(view, queries), session.fork())
    steps = physical_plan(plan, engine_settings_of(session.workspace.settings)).root.walk()
    return any(isinstance(step, Reused) for step in steps)


def in_set(choose: random.Random) -> list[str]:
    return [query(choose) for _ in range(choose.randint(2, 4))]


def alone(choose: random.Random) -> list[str]:
    return [choose.choice((union, join))(choose)]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("queries_of", [in_set, alone])
def test_what_several_read_of_a_view_is_what_each_would_read_apart(
    view: str, queries_of: Callable[[random.Random], list[str]]
) -> None:
    choose = random.Random(view)
    with LocalSession() as session:
        compared = 0
        while compared < 3:
            queries = queries_of(choose)
            session.workspace.settings.set(REUSE, "true")
            if not shares(session, view, queries):
                continue
            seed, given = choose.random(), list[list[list[str]]]()
            for reuse in ("true", "false"):
                session.workspace.settings.set(REUSE, reuse)
                given.append(results(session, view, queries, random.Random(seed)))
            assert given[0] == given[1], queries
            compared += 1
