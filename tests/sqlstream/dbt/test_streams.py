"""Streaming tables of dbt: their scripts, what an unchanged, a changed and a failing model does. No dbt, no Spark."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.dbt import streams
from sqlstream.dbt.streams import stream_of, table_text
from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.checkpoint import PLAN
from sqlstream.jobs.checkpoints.fingerprint import StateLayout, fingerprint, store_layout, to_text
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import read_record, write_record
from sqlstream.planner.physical import EngineSettings, physical_plan
from sqlstream.upgrade.planned import jobs_of
from sqlstream.workspace import Workspace
from tests.sqlstream.jobs.records.written import life, record

TABLES = (
    "CREATE TABLE bids (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')",
    "CREATE TABLE out (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json')",
)
SUM = (
    "INSERT INTO out SELECT k, SUM(v) AS n FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '{}' SECOND) {} "
    "GROUP BY k, window_start, window_end"
)


class Process:
    """In place of a process: writes what a job leaves that has started, and one epoch; or fails."""

    fails = False
    started: list[str] = []  # noqa: RUF012 — of all instances

    def __init__(self, command, job, checkpoint, shown):
        self.script, self.storage = Path(command[4]), LocalStorage(Path(checkpoint))
        assert command[1:4] == ["-m", "sqlstream", "run"] and "--savepoint-on-term" in command

    def start(self):
        text = self.script.read_text()
        Process.started.append(self.script.name)
        (job,) = jobs_of([text], Workspace())
        parts = fingerprint(physical_plan(job.plan, EngineSettings("columnar", True)))
        self.storage.write(PLAN, to_text(parts))
        store_layout(self.storage, StateLayout("columnar", 64, True))
        fails = Process.fails and "former" not in self.script.name
        if not fails:
            number = len(list((self.storage.root / "spark/commits").glob("*")))
            self.storage.write(f"spark/commits/{number}", "v1\n{}")
        error = ("SS411", "it failed") if fails else None
        now = life("FAILED" if fails else "RUNNING", started=time.time(), error=error)
        write_record(self.storage, record("sales__out", life=now))

    def failure(self):
        return None

    def stop(self):
        stopped = read_record(self.storage)
        assert stopped is not None
        write_record(self.storage, replace(stopped, life=replace(stopped.life, status="STOPPED")))


@pytest.fixture
def stream(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "OwnProcess", Process)
    monkeypatch.setattr(Process, "fails", False)
    monkeypatch.setattr(Process, "started", [])
    return stream_of(tmp_path, "sales", "out")


def text_of(stream, seconds=10, where=""):
    return stream.text(TABLES, {"spark.sql.shuffle.partitions": "1"}, SUM.format(seconds, where))


def ended(stream):
    """As if the process had been stopped: no job answers requests here."""
    storage = LocalStorage(stream.checkpoint)
    stored = read_record(storage)
    assert stored is not None
    write_record(storage, replace(stored, life=replace(stored.life, status="STOPPED")))


def test_the_script_has_settings_checkpoint_and_name_and_says_the_same_each_time(stream):
    text = text_of(stream)
    assert text == text_of(stream)
    assert text.splitlines()[:3] == [
        "SET 'spark.sql.shuffle.partitions' = '1';",
        f"SET 'execution.checkpointing.dir' = '{stream.folder}/checkpoints';",
        "SET 'pipeline.name' = 'sales__out';",
    ]


def test_a_model_starts_once_and_goes_on(stream):
    assert stream.run(text_of(stream), 1, 5.0) == "RUNNING with 1 more epoch"
    assert stream.run(text_of(stream), 1, 5.0) == "RUNNING, unchanged"
    assert Process.started == ["sales__out.sql"]


def test_a_job_that_has_ended_is_started_again(stream):
    stream.run(text_of(stream), 1, 5.0)
    ended(stream)
    (stream.checkpoint / "spark/commits/0").unlink()  # no epoch, no savepoint
    assert stream.run(text_of(stream), 1, 5.0) == "RUNNING with 1 more epoch"
    assert Process.started == ["sales__out.sql", "sales__out.sql"] and not stream.former.exists()


def test_a_changed_model_whose_state_carries_over_takes_the_place_of_the_former_one(stream):
    stream.run(text_of(stream), 1, 5.0)
    ended(stream)
    (stream.checkpoint / "spark/commits/0").unlink()
    assert stream.run(text_of(stream, where="WHERE v > 0"), 1, 5.0) == "RUNNING with 1 more epoch"
    assert stream.former.read_text() == text_of(stream)


def test_a_changed_model_that_fails_gives_way_to_the_former_one(stream):
    stream.run(text_of(stream), 1, 5.0)
    ended(stream)
    (stream.checkpoint / "spark/commits/0").unlink()
    Process.fails = True
    with pytest.raises(ExecutionError, match="SS479"):
        stream.run(text_of(stream, where="WHERE v > 0"), 1, 5.0)
    assert Process.started[-2:] == ["sales__out.sql", "sales__out.former.sql"]
    assert stream.script.read_text() == text_of(stream)


def test_state_that_does_not_carry_over_needs_a_full_refresh(stream):
    stream.run(text_of(stream), 1, 5.0)
    with pytest.raises(ExecutionError) as raised:
        stream.run(text_of(stream, seconds=20), 1, 5.0)
    message, detail, *_, hint = str(raised.value).splitlines()
    assert message == 'SS497: the state of the streaming table "sales__out" does not carry over to the changed model'
    assert detail.startswith('DETAIL: job "sales__out": RUNNING, epoch 0')
    assert hint == "HINT: dbt run --full-refresh --select MODEL begins it anew, with an empty table."
    assert stream.script.read_text() == text_of(stream)


def test_a_stream_that_is_removed_leaves_nothing(stream):
    stream.run(text_of(stream), 1, 5.0)
    ended(stream)
    stream.remove()
    assert not stream.checkpoint.exists() and not list((stream.folder / "jobs").iterdir())


def test_a_table_for_the_rows_of_a_stream():
    columns = [("k", "STRING"), ("n of v", "BIGINT")]
    assert table_text("`d`.`s`.`out`", columns, ["k"], "WITH ('connector' = 'x')") == (
        "CREATE TABLE IF NOT EXISTS `d`.`s`.`out` (k STRING, `n of v` BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
        "WITH ('connector' = 'x')"
    )
