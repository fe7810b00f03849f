"""Statements about jobs: what they say of the jobs of a session, and what they ask of any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from sqlstream.errors import BindError, ExecutionError
from sqlstream.grammar import parse_script
from sqlstream.jobs import Job, JobState
from sqlstream.jobs.records.history import CheckpointLine
from sqlstream.jobs.records.record import JobRecord
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.statements.jobs import JobStatement
from sqlstream.statements.registry import statement_type
from tests.sqlstream.jobs.records.written import life, record

SCRIPT = """
CREATE TABLE people (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{path}');
CREATE TABLE numbers (id BIGINT, pt AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '20',
    'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '20');
CREATE TABLE named (id BIGINT, name STRING) WITH ('connector' = 'memory');
SET 'pipeline.name' = 'naming';
INSERT INTO named SELECT n.id, p.name
FROM numbers AS n LEFT JOIN people FOR SYSTEM_TIME AS OF n.pt AS p LOOKUP ASYNC (CACHE 100 ROWS) ON p.id = n.id
"""


@pytest.fixture
def session(spark) -> Iterator[Session]:
    with Session(spark) as own_session:
        yield own_session


def shown(session: Session, text: str) -> list[Any]:
    result = session.sql(text)
    assert isinstance(result, Rows)
    return list(result)


@pytest.mark.spark
def test_a_job_is_listed_and_described_with_what_its_lookups_did(session: Session, tmp_path) -> None:
    (tmp_path / "people.csv").write_text("1,Ann\n2,Bob\n")
    job = session.sql(SCRIPT.format(path=tmp_path))
    assert isinstance(job, Job)
    assert job.wait(timeout=300)
    ((number, name, status, started),) = shown(session, "SHOW JOBS")
    assert (number, name, status) == (job.id, "naming", "FINISHED")
    assert started == f"{job.started:%Y-%m-%d %H:%M:%S}"
    described = dict(shown(session, "DESCRIBE JOB naming"))
    assert described == dict(shown(session, f"DESCRIBE JOB '{job.id}'"))
    assert {key: described[key] for key in ("job name", "rows in", "rows out", "late rows", "checkpoint")} == {
        "job name": "naming", "rows in": "20", "rows out": "20", "late rows": "0", "checkpoint": job.checkpoint_path,
    }  # fmt: skip
    of_lookup = {key.removeprefix("lookup 0: "): value for key, value in described.items() if key.startswith("lookup")}
    assert {key: of_lookup[key] for key in ("rows", "requests", "errors", "cache hits")} == {
        "rows": "20", "requests": "20", "errors": "0", "cache hits": "0 of 20 (0%)",
    }  # fmt: skip
    assert {"most in flight", "retries", "timeouts", "deferred", "latency p50", "latency p99"} <= of_lookup.keys()


@pytest.mark.spark
def test_a_job_is_stopped_by_its_name(session: Session) -> None:
    script = """CREATE TABLE ticks (value BIGINT) WITH ('connector' = 'rate', 'rows-per-second' = '1');
    CREATE TABLE nowhere (value BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO nowhere SELECT value FROM ticks"""
    job = session.sql(script)
    assert isinstance(job, Job)
    assert dict(shown(session, "STOP JOB insert_into_nowhere"))["status"] == "STOPPED"
    assert job.state is JobState.STOPPED
    with pytest.raises(BindError) as error:
        session.sql("STOP JOB insert_into_nowher")
    assert error.value.diagnostic.hint == 'Did you mean "insert_into_nowhere"?'


def test_a_session_without_jobs_has_none_to_show() -> None:
    with Session() as session:
        assert shown(session, "SHOW JOBS") == []
        with pytest.raises(BindError, match="SS230"):
            session.sql("DESCRIBE JOB nobody")


@dataclass
class AskedJob:
    """A job that remembers what it was asked for."""

    record: JobRecord
    asked: list[object] = field(default_factory=list)
    name: str = "totals"
    id: str = "id-of-totals"
    notes: tuple[tuple[str, str], ...] = ()

    def record_now(self) -> JobRecord:
        return self.record

    def stop(self, *, savepoint: str | bool = False, drain: bool = False) -> str | None:
        self.asked.append((savepoint, drain))
        return "/savepoints/1" if savepoint else None

    def checkpoint(self) -> int | None:
        return 7

    def savepoint(self, path: str | None = None) -> str:
        raise ExecutionError("SS426", f"no savepoint at {path}")

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        return (CheckpointLine(7, 0.0, None, 1500, 2048, 12345, True),)


def answer(text: str, job: AskedJob) -> list[Any]:
    (statement,) = parse_script(text)
    type_ = statement_type(statement)
    assert isinstance(type_, JobStatement)
    return type_.result(statement, [job]).fetchall()


@pytest.mark.parametrize(
    ("text", "asked", "path"),
    [
        ("STOP JOB totals", (False, False), None),
        ("STOP JOB TOTALS WITH SAVEPOINT", (True, False), "/savepoints/1"),
        ("STOP JOB 'id-of-totals' WITH SAVEPOINT '/s/2' WITH DRAIN", ("/s/2", True), "/savepoints/1"),
        ("STOP JOB totals WITH DRAIN", (False, True), None),
    ],
)
def test_stop_says_what_became_of_the_job_and_where_its_savepoint_is(text, asked, path) -> None:
    job = AskedJob(record("totals", life=life("STOPPED")))
    actual = dict(answer(text, job))
    assert job.asked == [asked]
    assert (actual["status"], actual.get("savepoint path")) == ("STOPPED", path)


def test_statements_about_checkpoints_answer_with_what_they_made() -> None:
    job = AskedJob(record("totals"))
    assert answer("CHECKPOINT JOB totals", job) == [("totals", "7")]
    line = ("totals", "7", "1970-01-01 00:00:00", None, "1,500 ms", "2,048 B", "12,345", "yes")
    assert answer("SHOW CHECKPOINTS FOR JOB totals", job) == answer("SHOW CHECKPOINTS", job) == [line]


def test_what_a_job_refuses_is_shown_at_the_statement() -> None:
    with pytest.raises(ExecutionError) as error:
        answer("SAVEPOINT JOB totals '/s'", AskedJob(record("totals")))
    assert (error.value.code, error.value.diagnostic.message) == ("SS426", "no savepoint at /s")
    assert error.value.diagnostic.span is not None
