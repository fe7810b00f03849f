"""A job goes on with the plan of its checkpoint, whether equal windows are computed once, and joins merged, or not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.grammar import parse_script
from sqlstream.jobs.checkpoints.checkpoint import open_checkpoint
from sqlstream.jobs.lifecycle.session_jobs import SessionJobs
from sqlstream.planner.operators.join import RegularJoin, WindowJoin
from sqlstream.planner.physical.engine import Reuse
from sqlstream.plans import Root, former_plans, plan_of
from sqlstream.settings import MULTI_JOIN, REUSE
from sqlstream.statements.registry import define
from sqlstream.workspace import Workspace

COUNTS = """(SELECT k, COUNT(*) AS n, window_start AS s, window_end AS e
FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY k, window_start, window_end)"""
SCRIPT = """
CREATE TABLE events (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
CREATE TABLE most (k STRING, n BIGINT) WITH ('connector' = 'blackhole');
"""
EXTREMES = f"""INSERT INTO most SELECT c.k, c.n FROM {COUNTS} AS c JOIN (SELECT MAX(n) AS m, s, e FROM {COUNTS}
GROUP BY s, e) AS b ON c.s = b.s AND c.e = b.e AND c.n >= b.m"""
THREE = (
    """INSERT INTO most SELECT a.k, 1 FROM events AS a JOIN events AS b ON a.k = b.k JOIN events AS c ON c.k = a.k"""
)
SPARK: Any = SimpleNamespace(get=lambda settings: None)
"""Checkpoints on this machine are read without it."""


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> SessionJobs:
    monkeypatch.setattr(SessionJobs, "_environment", lambda *_: SimpleNamespace())
    return SessionJobs(SPARK, None)  # type: ignore[arg-type]


def planned(insert: str, setting: str, value: str) -> tuple[Any, Root, Workspace]:
    *definitions, statement = parse_script(SCRIPT + insert)
    workspace = Workspace()
    for definition in definitions:
        define(definition, workspace, SCRIPT)
    workspace.settings.set("execution.runtime-mode", "streaming")
    workspace.settings.set(setting, value)
    return statement, plan_of(statement, workspace), workspace  # type: ignore[arg-type]


@pytest.mark.parametrize(("begun", "now"), [("false", "true"), ("true", "false")])
@pytest.mark.parametrize(("text", "setting", "join"), [(EXTREMES, REUSE, WindowJoin), (THREE, MULTI_JOIN, RegularJoin)])
def test_a_job_goes_on_with_the_plan_that_it_began_with(jobs, tmp_path, text, setting, join, begun, now):
    nowhere: Any = None  # Spark is not asked
    _, first, _ = planned(text, setting, begun)
    assert any(isinstance(node, join) for node in first.walk()) is (begun == "false")
    open_checkpoint(str(tmp_path), first, nowhere)
    insert, plan, workspace = planned(text, setting, now)
    with pytest.raises(ExecutionError, match="SS421"):
        open_checkpoint(str(tmp_path), plan, nowhere)
    former = former_plans(insert, plan, workspace)
    assert jobs._as_stored(plan, former, str(tmp_path), workspace) == first
    assert jobs._as_stored(plan, former, str(tmp_path / "new"), workspace) == plan


def test_a_job_from_before_sides_of_a_join_had_an_operator_in_common_goes_on_with_one_for_each(jobs, tmp_path):
    nowhere: Any = None
    view = f"CREATE VIEW v AS {COUNTS[1:-1].replace('COUNT(*) AS n', 'COUNT(*) AS n, COUNT(k) AS m')};"
    text = f"{view} INSERT INTO most SELECT a.k, b.m FROM v AS a JOIN v AS b ON a.n = b.m"
    statement, plan, workspace = planned(text, REUSE, "true")
    first = plan_of(statement, workspace, apart=True)
    assert plan != first
    open_checkpoint(str(tmp_path), first, nowhere, reuse=Reuse(in_queries=False))
    with pytest.raises(ExecutionError, match="SS421"):
        open_checkpoint(str(tmp_path), plan, nowhere)
    assert jobs._as_stored(plan, former_plans(statement, plan, workspace), str(tmp_path), workspace) == first


def test_a_job_from_before_queries_had_operators_in_common_goes_on_with_one_for_each(jobs, tmp_path):
    nowhere: Any = None
    of_view = (f"INSERT INTO most SELECT k, {column} FROM v;" for column in ("n", "m"))
    view = f"CREATE VIEW v AS {COUNTS[1:-1].replace('COUNT(*) AS n', 'COUNT(*) AS n, COUNT(k) AS m')};"
    text = f"{view} EXECUTE STATEMENT SET BEGIN {EXTREMES}; {' '.join(of_view)} END"
    statement, plan, workspace = planned(text, REUSE, "true")
    first = plan_of(statement, workspace, apart=True)
    assert plan != first
    open_checkpoint(str(tmp_path), first, nowhere, reuse=Reuse(operators=False))
    with pytest.raises(ExecutionError, match="SS421"):
        open_checkpoint(str(tmp_path), plan, nowhere)
    former = former_plans(statement, plan, workspace)
    assert jobs._as_stored(plan, former, str(tmp_path), workspace) == first
    assert jobs._as_stored(plan, former, str(tmp_path / "new"), workspace) == plan
