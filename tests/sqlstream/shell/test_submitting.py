"""\\submit and detached jobs: what another process gets to run, and what becomes of it."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqlstream.cli import run
from sqlstream.jobs.records.record import this_process
from sqlstream.jobs.records.submissions import (
    Submission,
    exit_file,
    new_folder,
    submissions,
    submitted_jobs,
    write_submission,
)
from sqlstream.shell.commands import rest_of, split
from sqlstream.shell.failures import BackgroundJobs
from sqlstream.shell.loop import Shell
from sqlstream.spark.startup import SparkStart
from tests.sqlstream.jobs.records.written import GONE
from tests.sqlstream.shell.test_shell import _WithoutSpark as WithoutSpark

TABLES = """SET 'parallelism.default' = '2';
CREATE TABLE gone (n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
DROP TABLE gone;
CREATE VIEW evens AS SELECT n FROM ticks WHERE n % 2 = 0;
CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE kept (n BIGINT) WITH ('connector' = 'memory');
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What runs in place of Python: it keeps its arguments and its input, says something and exits with 3."""
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments; cat > {tmp_path}/input\necho SS999: no luck; exit 3\n'
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    return tmp_path


def reading(text: str, session: Any = None) -> tuple[Shell, str]:
    out = io.StringIO()
    shell = Shell(session or WithoutSpark(), out)
    shell.read(io.StringIO(text))
    shell.close()
    return shell, out.getvalue()


def test_a_statement_behind_the_command_spans_lines() -> None:
    text = "\\submit INSERT INTO t\nSELECT ';' FROM s; \\d"
    (submit, show), rest = split(text)
    assert submit.command is not None and show.command is not None
    assert (submit.command.name, submit.command.argument) == ("\\submit", "INSERT INTO t\nSELECT ';' FROM s;")
    assert (show.command.name, rest) == ("\\d", len(text))
    assert split("\\submit INSERT INTO t\nSELECT 1") == ([], 0)
    (last,) = rest_of("\\submit INSERT INTO t\nSELECT 1", 0)
    assert last.command is not None and last.command.argument.startswith("INSERT INTO t\nSELECT 1")
    (alone,), _ = split("\\submit\nSELECT 1")
    assert alone.command is not None and alone.command.argument == ""


def test_definitions_and_settings_go_along_and_the_log_tells_why_it_failed(process: Path, capsys) -> None:
    text = TABLES + "\\submit INSERT INTO nowhere\nSELECT n FROM evens;\n"
    shell, _ = reading(text)
    assert shell.failures == 1
    told = capsys.readouterr().err
    (submission,) = submissions()
    assert 'SS462: job "insert_into_nowhere" did not start: its process has ended with exit status 3' in told
    assert "SS999: no luck" in told and str(submission.log) in told
    lines = (process / "input").read_text().splitlines()
    assert lines[0] == "SET 'parallelism.default' = '2';"
    assert f"SET 'execution.checkpointing.dir' = '{process}/state/sqlstream/jobs';" in lines
    assert "SET 'pipeline.name' = 'insert_into_nowhere';" in lines
    assert "DROP TABLE gone;" in lines
    assert lines[-1] == "INSERT INTO nowhere SELECT n FROM evens;"
    assert (process / "arguments").read_text() == "-m sqlstream run -\n"
    assert submission.exit_status == 3
    assert [job.record.error for job in submitted_jobs()] == [("SS999", "no luck")]


def test_secrets_reach_the_process_and_no_file(process: Path) -> None:
    table = """CREATE TABLE sink (n BIGINT) WITH ('connector' = 'postgres', 'url' = 'postgresql://h/d',
        'table-name' = 't', 'username' = 'u', 'password' = 'hunter2');"""
    reading(f"{TABLES}{table}\\submit INSERT INTO sink SELECT n FROM ticks;")
    assert "hunter2" in (process / "input").read_text()
    (submission,) = submissions()
    files = [path for path in submission.folder.iterdir() if path.is_file()]
    assert len(files) >= 3 and not [path for path in files if "hunter2" in path.read_text()]
    assert stat.S_IMODE(submission.folder.stat().st_mode) == 0o700


def test_files_that_spark_needs_for_its_start_are_none_of_the_process(process: Path, monkeypatch) -> None:
    class Starting(WithoutSpark):
        @property
        def spark(self) -> Any:
            monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--properties-file gone")

    start = SparkStart(session := Starting())
    start.wait()  # long before the shell is there
    assert os.environ["PYSPARK_SUBMIT_ARGS"]
    shell = Shell(session, io.StringIO(), start=start)
    assert "PYSPARK_SUBMIT_ARGS" not in shell._submitter._environment
    shell.close()


def test_the_setting_makes_all_inserts_jobs_of_their_own(process: Path, capsys) -> None:
    text = TABLES + "SET 'shell.jobs' = 'detached';\nINSERT INTO nowhere SELECT n FROM ticks;\n"
    shell, _ = reading(text + "EXECUTE STATEMENT SET BEGIN INSERT INTO nowhere SELECT n FROM ticks; END;\n\\submit\n")
    assert shell.failures == 3
    names = [submission.job for submission in submissions()]
    assert set(names) == {"insert_into_nowhere", "statement_set_nowhere"}
    assert "shell.jobs" not in (process / "input").read_text()


def test_a_directory_of_the_user_and_a_name_stay(process: Path) -> None:
    settings = f"SET 'execution.checkpointing.dir' = '{process}/jobs'; SET 'pipeline.name' = 'mine';\n"
    reading(TABLES + settings + "\\submit INSERT INTO nowhere SELECT n FROM ticks;")
    (submission,) = submissions()
    assert submission.checkpoint == f"{process}/jobs/mine"
    assert "end-of-input" not in (process / "input").read_text()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("\\submit", 'SS108: "\\submit" needs an INSERT behind it, or one that ran before'),
        ("\\submit SELECT n FROM ticks;", 'SS108: "\\submit" takes an INSERT, a statement set or a materialized view'),
        ("\\submit INSERT INTO nowhere SELECT m FROM ticks;", 'SS201: column "m" does not exist'),
        ("\\submit INSERT INTO kept SELECT n FROM ticks;", 'SS463: the rows of table "kept" live in this session'),
        ("\\submit INSERT INTO nowhere SELECT n FROM kept;", 'SS463: the rows of table "kept" live in this session'),
    ],
)
def test_what_cannot_run_alone_is_refused(command: str, message: str, process: Path, capsys) -> None:
    shell, _ = reading(f"{TABLES}{command}\n")
    assert shell.failures == 1
    assert message in capsys.readouterr().err
    assert submissions() == ()


def test_the_shell_tells_of_a_job_of_its_own_that_fails(process: Path, capsys) -> None:
    submission = replace(_submission(process), process=GONE)
    write_submission(submission)
    jobs = BackgroundJobs(print)
    jobs.add_submitted(submission)
    exit_file(submission.folder).write_text("0")
    jobs.tell()
    assert capsys.readouterr().out == ""
    exit_file(submission.folder).write_text("137")
    jobs.tell()
    jobs.tell()
    assert capsys.readouterr().out == (
        f'job "mine" failed\nSS461: its process has ended with exit status 137\nIts log is "{submission.log}"\n'
    )


def _submission(folder: Path) -> Submission:
    return Submission(new_folder("mine"), "mine", str(folder / "jobs" / "mine"), this_process(), time.time(), "INSERT")


@pytest.mark.long
@pytest.mark.spark
def test_a_job_outlives_its_shell_and_a_later_one_stops_it(state: Path, capsys) -> None:
    table = f"""CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
        CREATE TABLE files (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{state}/out');
        CREATE VIEW evens AS SELECT n FROM ticks WHERE n % 2 = 0;\n"""
    session = WithoutSpark("local[1]")
    _, out = reading(f"{table}\\submit INSERT INTO files SELECT n FROM evens;\n", session)
    assert 'job "insert_into_files" runs in process' in out
    end = time.monotonic() + 60
    while not list(state.glob("out/*.json")) and time.monotonic() < end:
        time.sleep(0.5)
    assert list(state.glob("out/*.json"))
    _, out = reading("SHOW JOBS;\nSTOP JOB insert_into_files;\n")
    assert "| insert_into_files | RUNNING" in out and "| STOPPED" in out
    (job,) = submitted_jobs()
    assert job.record.status == "STOPPED"
    while job.submission.exit_status is None and time.monotonic() < end:
        time.sleep(0.2)
    assert job.submission.exit_status == 0
    assert run(["jobs", "list", "--output", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "STOPPED"
