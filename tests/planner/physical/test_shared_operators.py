"""Which operators queries of a statement set have in common, and what each takes of their results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqlstream.jobs.checkpoints.fingerprint import fingerprint
from sqlstream.planner.catalog import RowKind
from sqlstream.planner.expressions import sql
from sqlstream.planner.nodes import StatementSet
from sqlstream.planner.physical import PhysicalPlan, physical_plan
from sqlstream.planner.physical.engine import REUSES_ALL, EngineSettings, Reuse
from sqlstream.planner.physical.shared_operators import branches
from sqlstream.planner.physical.steps import Operator, Read, Reused
from sqlstream.planner.rules import optimize, stages
from tests.planner.physical.test_column_queries import TABLES, Sources
from tests.planner.physical.test_shared_reads import MORE
from tests.planner.plans import plan

VIEWS = """
CREATE VIEW windows AS SELECT i, COUNT(*) AS c, MAX(n) AS m, MIN(n) AS least
    FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE) GROUP BY i, window_start, window_end;
CREATE VIEW totals AS SELECT i, COUNT(*) AS c, SUM(n) AS m FROM t GROUP BY i;
CREATE VIEW pairs AS SELECT a.c, b.m FROM windows AS a JOIN windows AS b ON a.i = b.m;
CREATE TABLE up (i INT PRIMARY KEY NOT ENFORCED, c BIGINT)
    WITH ('connector' = 'filesystem', 'path' = '/up', 'format' = 'debezium-json');
"""


def of_set(*queries: str, shares: bool = True) -> PhysicalPlan:
    tables = ("o", "o2", "o3")
    inserts = (f"INSERT INTO {table} {query};" for table, query in zip(tables, queries, strict=False))
    text = f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END"
    settings = EngineSettings(reuse=Reuse(operators=shares), sources=Sources(True))
    return physical_plan(optimize(plan(text, TABLES + MORE + VIEWS), stages(together=shares)), settings)


def operators(planned: PhysicalPlan) -> list[str]:
    steps = [step for step in planned.root.walk() if isinstance(step, Operator | Reused)]
    return [f"{'reused ' if isinstance(step, Reused) else ''}{step.reuse}" for step in steps]


def test_an_operator_that_queries_filter_and_project_runs_once_with_what_any_of_them_reads() -> None:
    planned = of_set("SELECT c FROM windows", "SELECT m + 1 FROM windows WHERE c > 3 OR m < 0")
    first, second = (step for step in planned.root.walk() if isinstance(step, Operator | Reused))
    assert first.line.startswith("WindowAggregate(keys i; TUMBLE size 1 min on at; COUNT(*) AS c; MAX(n) AS m): ")
    assert first.line.endswith(", reuse_id=[1]")
    assert second.line.endswith("MAX(n) AS m): Reused(reference_id=[1])")
    assert [step.node.table.name for step in planned.root.walk() if isinstance(step, Read)] == ["t"]
    (group,) = branches(planned.root)
    assert [[sql(e) for e in (*branch.taken.values, *branch.taken.conditions)] for branch in group] == [
        ["c"],
        ["(m + 1)", "c > 3 OR m < 0"],
    ]
    assert [branch.below for branch in group] == [first, second]


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        (["SELECT c FROM windows", "SELECT m FROM totals", "SELECT m FROM windows"], ["1", "None", "reused 1"]),
        (["SELECT c FROM windows", "SELECT c + 1 FROM totals", "SELECT c FROM totals"], ["None", "1", "reused 1"]),
        (["SELECT c FROM totals", "SELECT m FROM totals"], ["None", "None"]),  # which changes without c
        (["SELECT c FROM windows", "SELECT c + RAND() FROM windows"], ["None", "None"]),
        (["SELECT c FROM windows", "SELECT c FROM windows WHERE i = 3"], ["None", "None"]),  # below which it filters
        (
            ["SELECT c FROM windows", "SELECT x + x FROM (SELECT c * 3 AS x FROM windows)", "SELECT m FROM windows"],
            ["1", "None", "reused 1"],
        ),
        (["SELECT c FROM totals", "SELECT COUNT(*) FROM totals GROUP BY m"], ["None", "None", "None"]),
    ],
)
def test_only_equal_operators_with_nothing_but_filters_and_a_projection_above_run_once(
    queries: list[str], expected: list[str]
) -> None:
    assert operators(of_set(*queries)) == expected
    assert set(operators(of_set(*queries, shares=False))) == {"None"}


def test_checkpoints_of_builds_that_shared_in_sets_only_do_not_say_who_takes_results_again() -> None:
    text = "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT c FROM windows; INSERT INTO o2 SELECT m FROM windows; END"
    logical = optimize(plan(text, TABLES + MORE + VIEWS))
    for in_queries in (True, False):
        planned = physical_plan(logical, EngineSettings(reuse=Reuse(in_queries=in_queries), sources=Sources(True)))
        assert operators(planned) == ["1", "reused 1"]
        assert ("reuse" in [part.kind for part in fingerprint(planned)]) is in_queries


def of_query(query: str, reuse: Reuse = REUSES_ALL) -> PhysicalPlan:
    settings = EngineSettings(reuse=reuse, sources=Sources(True))
    together = reuse.operators and reuse.in_queries
    return physical_plan(optimize(plan(query, TABLES + MORE + VIEWS), stages(together=together)), settings)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a.c, b.m FROM windows AS a JOIN windows AS b ON a.i = b.i + 1", ["None", "1", "reused 1"]),
        ("SELECT c FROM windows UNION ALL SELECT m FROM windows WHERE c > 1", ["1", "reused 1"]),
        ("SELECT m FROM totals UNION ALL SELECT c FROM totals", ["None", "None"]),  # which changes without c
        ("SELECT a.c FROM totals AS a JOIN totals AS b ON a.i = b.c", ["None", "1", "reused 1"]),
        ("SELECT a.c FROM totals AS a LEFT JOIN windows AS b ON a.c = b.c", ["None", "None", "None"]),
        (  # the first reads other columns, and with updates each has its own
            "SELECT a.c FROM totals AS a JOIN totals AS b ON a.i = b.i JOIN totals AS d ON a.i = d.i",
            ["None", "None", "1", "reused 1"],
        ),
        (  # one in another one
            """SELECT c FROM (SELECT a.c FROM windows AS a JOIN windows AS b ON a.i = b.m) UNION ALL
               SELECT c FROM windows UNION ALL SELECT m FROM windows""",
            ["None", "2", "reused 2", "1", "reused 1"],
        ),
        (  # of what runs once, a part that runs once
            "SELECT c FROM pairs UNION ALL SELECT m FROM pairs",
            ["1", "2", "reused 2", "reused 1"],
        ),
        ("SELECT c FROM windows UNION ALL SELECT c + RAND() FROM windows", ["None", "None"]),
        (  # which filters below it
            "SELECT c FROM windows UNION ALL SELECT c FROM windows WHERE i = 3",
            ["None", "None"],
        ),
    ],
)
def test_an_operator_runs_once_for_several_inputs_of_one_step(query: str, expected: list[str]) -> None:
    assert operators(of_query(query)) == expected
    for reuse in (Reuse(operators=False), Reuse(in_queries=False)):
        assert set(operators(of_query(query, reuse))) == {"None"}


def test_each_side_of_a_join_takes_its_own_columns_and_rows() -> None:
    planned = of_query("SELECT a.c, b.m FROM windows AS a JOIN windows AS b ON a.i = b.i WHERE b.c > 3")
    (join,) = (step for step in planned.root.walk() if step.takes)
    assert [[sql(e) for e in (*taken.values, *taken.conditions)] for taken in join.takes if taken is not None] == [
        ["i", "c"],
        ["i", "m", "c > 3"],
    ]


def test_a_shared_operator_keeps_the_rows_before_updates_that_one_query_reads() -> None:
    """A table that upserts by the key of the rows does not read them, one that takes all changes does."""
    text = """EXECUTE STATEMENT SET BEGIN INSERT INTO up SELECT i, c FROM totals;
        INSERT INTO o SELECT c + 1 FROM totals WHERE c < 3; END"""
    bound = optimize(plan(text, TABLES + MORE + VIEWS))
    assert isinstance(bound, StatementSet)
    upserts = [replace(insert, takes=frozenset(RowKind) - {RowKind.UPDATE_BEFORE}) for insert in bound.inserts]
    for inserts, expected in (
        ((upserts[0], bound.inserts[1]), [True, False]),
        ((bound.inserts[1], upserts[0]), [False, True]),
        ((upserts[0], upserts[0]), [False, False]),
    ):
        planned = physical_plan(replace(bound, inserts=inserts), EngineSettings(sources=Sources(True)))
        (group,) = branches(planned.root)
        assert [branch.taken.drops_before for branch in group] == expected
        assert {branch.below.drops_before for branch in group} == {not any(expected)}
