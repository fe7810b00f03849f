"""Whose state is unpickled: that of this user and of root, and of others where a setting says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints import trust
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.checkpoints.trust import require_trusted, unpickles_state
from sqlstream.planner.node import Node
from sqlstream.plans import plan_of
from sqlstream.session import Session

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner")

STRANGER = 4242


class Total:
    """An aggregate."""

    def create(self) -> int:
        return 0

    def accumulate(self, state: int, value: int) -> int:
        return state + value

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finish(self, state: int) -> int:
        return state


class Twice:
    """A trigger."""

    def on_element(self, row, time, window, ctx):
        return None


def twice(value: int) -> int:
    return 2 * value


DEFINITIONS = """
CREATE TABLE t (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json')
"""


def planned(query: str) -> tuple[Node, Session]:
    from sqlstream.grammar import parse_script

    session = Session()
    session.sql(DEFINITIONS)
    for name, function in (("total", Total), ("twice", Twice), ("doubled", twice)):
        session.register_function(name, function)
    (statement,) = parse_script(query)
    return plan_of(statement, session.workspace), session  # type: ignore[arg-type]


WINDOW = "TUMBLE(ts, INTERVAL '1' MINUTE)"


@pytest.mark.parametrize(
    ("query", "pickled"),
    [
        (f"SELECT k, total(v) FROM t GROUP BY k, {WINDOW}", True),
        (f"SELECT k, 1 + total(v) + COUNT(*) FROM t GROUP BY k, {WINDOW}", True),
        (f"SELECT k, COUNT(*) FROM t GROUP BY k, {WINDOW} TRIGGER USING twice() OR EVERY 5 ROWS", True),
        (f"SELECT k, SUM(doubled(v)) FROM t GROUP BY k, {WINDOW}", False),
        (f"SELECT k, COUNT(*) FROM t GROUP BY k, {WINDOW} TRIGGER EVERY 5 ROWS", False),
    ],
)
def test_python_aggregates_and_triggers_have_pickles_in_their_state(query: str, pickled: bool) -> None:
    plan, session = planned(query)
    assert unpickles_state(plan, session.workspace.catalog.function) is pickled


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path / "job")
    for path in ("plan.json", "spark/metadata", "spark/state/0/0/1.zip"):
        storage.write(path, "x")
    return storage


def owned(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """As if these belonged to somebody else, and the job were no job of root's."""
    actual = trust._owners
    monkeypatch.setattr(trust, "_ROOT", -1)
    monkeypatch.setattr(
        trust, "_owners", lambda *given: ((p, STRANGER if p in paths else owner) for p, owner in actual(*given))
    )


def test_files_of_this_user_and_of_root_are_taken(checkpoint: LocalStorage, monkeypatch) -> None:
    require_trusted(checkpoint)
    require_trusted(LocalStorage(checkpoint.root / "none"))
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    if checkpoint.root.stat().st_uid != 0:
        monkeypatch.setattr(trust, "_ROOT", checkpoint.root.stat().st_uid)
    require_trusted(checkpoint)


def test_where_the_file_system_maps_users_its_files_are_this_users(checkpoint: LocalStorage, monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    monkeypatch.setattr(trust, "_ROOT", -1)
    require_trusted(checkpoint)  # a file that is made there belongs to whom the others belong to


@pytest.mark.parametrize("path", ["spark", "spark/metadata", "spark/state/0/0/1.zip"])
def test_files_of_others_are_refused_by_their_names(checkpoint: LocalStorage, monkeypatch, path: str) -> None:
    owned(monkeypatch, checkpoint.root / path)
    with pytest.raises(ExecutionError) as error:
        require_trusted(checkpoint, "savepoint")
    assert error.value.code == "SS419"
    assert f'file "{checkpoint.root / path}" of a savepoint belongs to user 4242' in str(error.value)
    assert "SET 'execution.state-recovery.trust-any-owner' = 'true'" in str(error.value)


def test_what_others_have_left_beside_the_state_does_not_matter(checkpoint: LocalStorage, monkeypatch) -> None:
    checkpoint.write("requests/1.json", "{}")
    owned(monkeypatch, checkpoint.root / "requests/1.json", checkpoint.root)
    require_trusted(checkpoint)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root alone gives files away")
def test_what_links_lead_to_is_looked_at_and_circles_end(checkpoint: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    theirs = tmp_path / "elsewhere/2.zip"
    theirs.write_text("x")
    (checkpoint.root / "spark/state/round").symlink_to(checkpoint.root / "spark")
    (checkpoint.root / "spark/state/out").symlink_to(tmp_path / "elsewhere")
    require_trusted(checkpoint)
    os.chown(theirs, STRANGER, -1)
    with pytest.raises(ExecutionError, match=r"SS419: .*2\.zip"):
        require_trusted(checkpoint)


@pytest.mark.spark
def test_a_job_and_a_savepoint_of_others_are_refused_unless_a_setting_trusts_them(spark, tmp_path, monkeypatch) -> None:
    def session(name: str, **more: str) -> Session:
        own_session = Session(spark)
        more |= {"execution.checkpointing.dir": str(tmp_path / "jobs"), "pipeline.name": name, "table.dml-sync": "true"}
        for key, value in more.items():
            own_session.sql(f"SET '{key}' = '{value}'")
        own_session.sql(DEFINITIONS.replace("/in", str(tmp_path / "in")))
        own_session.sql("CREATE TABLE totals (k STRING, total BIGINT) WITH ('connector' = 'blackhole')")
        own_session.register_function("total", Total)
        return own_session

    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"k": "a", "v": 1, "ts": "2024-01-01 00:00:00"}')
    insert = f"INSERT INTO totals SELECT k, total(v) FROM t GROUP BY k, {WINDOW}"
    with session("first") as first:
        first.sql(insert)
    owned(monkeypatch, tmp_path / "jobs/first/spark/state")
    path, trusting = "execution.state-recovery.path", {"execution.state-recovery.trust-any-owner": "true"}
    with session("first") as again, pytest.raises(ExecutionError, match=r"SS419: .* of a checkpoint belongs"):
        again.sql(insert)
    origin = {path: str(tmp_path / "jobs/first")}
    with session("second", **origin) as other, pytest.raises(ExecutionError, match=r"SS419: .* of a checkpoint"):
        other.sql(insert)
    assert not (tmp_path / "jobs/second/spark").exists()
    with session("second", **origin, **trusting) as other:
        other.sql(insert)
    with session("first", **trusting) as again:
        again.sql(insert)
