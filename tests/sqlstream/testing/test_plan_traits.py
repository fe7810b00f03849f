"""What the harness finds in plans."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sqlstream.planner.node import Unary
from sqlstream.testing.plan_traits import PlanTraits
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.tested_session import plan_of_script
from tests.planner.plans import physical

TABLE = (
    "CREATE TABLE t (k STRING, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)"
    " WITH ('connector' = 'test');"
)

BOUNDS = "window_start, window_end"
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
EQUAL = "a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"


def traits(query: str) -> PlanTraits:
    with LocalSession() as session:
        return PlanTraits(physical(plan_of_script(TABLE + query, session)))


@dataclass(frozen=True)
class Eager(Unary):
    """An operator that the harness does not know."""


def test_only_plans_that_emit_when_windows_close_share_micro_batches():
    windows = traits("SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)")
    assert windows.joint
    assert not PlanTraits(physical(Eager(windows.root))).joint


@pytest.mark.parametrize(
    ("query", "joint"),
    [
        ("SELECT k, COUNT(*) OVER (PARTITION BY k ORDER BY ts) FROM t", True),
        ("SELECT k, COUNT(*) OVER (PARTITION BY k ORDER BY pt) FROM t", False),
        ("SELECT k FROM t ORDER BY ts", True),
        (f"SELECT a.k FROM {WINDOWS} a JOIN {WINDOWS} b ON {EQUAL}", True),
        ("SELECT a.k FROM t a, t b WHERE a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' DAY", True),
        ("SELECT a.k FROM t a JOIN t b ON a.k = b.k", False),
        (f"SELECT k FROM (SELECT k, ROW_NUMBER() OVER (PARTITION BY {BOUNDS} ORDER BY k) n FROM {WINDOWS}) WHERE n < 3",
         True),
        ("SELECT k FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY k) n FROM t) WHERE n < 3", False),
    ],
)  # fmt: skip
def test_rows_that_wait_for_a_watermark_share_micro_batches(query, joint):
    assert traits(query).joint is joint


@pytest.mark.parametrize(
    ("query", "keeps_order"),
    [
        ("SELECT k FROM t", True),
        ("SELECT window_start FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)", True),
        ("SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)", False),
        ("SELECT k FROM t UNION ALL SELECT k FROM t", False),
    ],
)
def test_order_is_kept_by_plans_without_windows(query, keeps_order):
    assert traits(query).keeps_order is keeps_order


def test_lookups_are_fed_too_and_change_no_order_unless_they_may():
    people = "CREATE TABLE people (k STRING, n INT) WITH ('connector' = 'test', 'role' = 'lookup');"
    join = "SELECT t.k, p.n FROM t JOIN people FOR SYSTEM_TIME AS OF t.pt AS p LOOKUP ASYNC ({}) ON p.k = t.k"
    ordered, unordered = (traits(people + join.format(f"OUTPUT {order}")) for order in ("ORDERED", "UNORDERED"))
    assert (set(ordered.tables), set(ordered.lookup_tables)) == ({"t"}, {"people"})
    assert (ordered.keeps_order, unordered.keeps_order) == (True, False)
    assert ordered.joint


def test_the_time_of_a_row_is_that_which_windows_judge_it_by():
    values = ("a", 1_000_000)
    event = traits("SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)")
    clock = traits("SELECT COUNT(*) FROM t GROUP BY TUMBLE(pt, INTERVAL '1' SECOND)")
    neither = traits("SELECT k FROM t")
    assert [p.time_of(p.tables["t"], values, 7) for p in (event, clock, neither)] == [1000, 7, None]
    assert [p.delay_ms("t") for p in (event, clock, neither)] == [1000, None, None]
    assert event.time_of(event.tables["t"], ("a", None), 7) is None
