"""Jobs that were submitted, as later processes see them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.cli import run
from sqlstream.errors import BindError
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import Process, process_here, this_process, write_record
from sqlstream.jobs.records.submissions import (
    Submission,
    SubmittedJob,
    checkpoints_of_submitted,
    exit_file,
    new_folder,
    submissions,
    submitted_jobs,
    write_submission,
)
from tests.sqlstream.jobs.records.written import GONE, life, record


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def submitted(
    name: str = "totals", process: Process | None = None, exit_status: int | None = None, log: str = ""
) -> Submission:
    folder = new_folder(name)
    submission = Submission(
        folder, name, str(checkpoints_of_submitted() / name), process or this_process(), time.time(), "INSERT INTO t"
    )
    write_submission(submission)
    submission.log.write_text(log)
    if exit_status is not None:
        exit_file(folder).write_text(f"{exit_status}\n")
    return submission


def only_job() -> SubmittedJob:
    (job,) = submitted_jobs()
    return job


def test_nothing_was_submitted(state: Path) -> None:
    assert submissions() == ()
    assert not (state / "sqlstream").exists()


@pytest.mark.parametrize(
    ("process", "exit_status", "status"),
    [
        (None, None, "STARTING"),
        (GONE, None, "LOST"),
        (GONE, 0, "FINISHED"),
        (GONE, 130, "STOPPED"),
        (GONE, 3, "FAILED"),
    ],
)
def test_a_job_without_a_record_is_told_by_its_process(process, exit_status, status) -> None:
    submitted(process=process, exit_status=exit_status)
    assert (only_job().record.status, only_job().id) == (status, "")


def test_the_log_tells_why_a_job_did_not_start() -> None:
    submission = submitted(process=GONE, exit_status=3, log="starting\nSS491: Java is missing\nHINT: Install it.\n")
    job = only_job()
    assert job.record.error == ("SS491", "Java is missing")
    assert job.notes == (("exit status", "3"), ("log", str(submission.log)), ("script", str(submission.script)))
    exit_file(submission.folder).write_text("137")
    submission.log.write_text("")
    assert only_job().record.error == ("SS461", "its process has ended with exit status 137")
    exit_file(submission.folder).unlink()
    assert only_job().record.error == ("SS451", f"its process {GONE.pid} on {GONE.host} is gone")


def test_the_record_of_this_start_counts_and_none_of_earlier_ones() -> None:
    submission = submitted()
    write_record(LocalStorage(Path(submission.checkpoint)), record(life=life(started=submission.submitted - 5)))
    assert only_job().record.status == "STARTING"
    write_record(LocalStorage(Path(submission.checkpoint)), record(life=life(started=submission.submitted + 5)))
    job = only_job()
    assert (job.record.status, job.id) == ("RUNNING", "id-of-totals")
    assert [key for key, _ in job.notes] == ["log", "script"]


def test_of_each_checkpoint_the_last_submission_counts() -> None:
    first, other = submitted(), submitted("clicks")
    last = replace(submitted(), submitted=first.submitted + 1)
    write_submission(last)
    (first.folder / "submission.json").write_text("{")
    assert [submission.folder for submission in submissions()] == [other.folder, last.folder]
    assert len({submission.folder for submission in (first, other, last)}) == 3


def test_a_job_that_starts_is_stopped_with_its_process() -> None:
    waiting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    submitted(process=process_here(waiting.pid))
    for asked in ("checkpoint", "savepoint"):
        with pytest.raises(BindError, match='job "totals" is not running but STARTING'):
            getattr(only_job(), asked)()
    assert only_job().checkpoints() == ()
    assert only_job().stop() is None
    assert waiting.wait(30) != 0


def test_what_an_ended_job_has_left_is_removed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, running = submitted(process=GONE, exit_status=1), submitted("clicks")
    write_submission(replace(submitted(process=GONE, exit_status=0), submitted=first.submitted + 1))
    write_record(LocalStorage(Path(first.checkpoint)), record())
    assert run(["jobs", "remove", "totals"]) == 0
    assert [submission.job for submission in submissions()] == ["clicks"]
    assert not Path(first.checkpoint).exists() and not first.folder.exists()
    assert run(["jobs", "remove", "clicks"]) == 2
    assert 'job "clicks" is STARTING; stop it first' in capsys.readouterr().err
    own = replace(running, process=GONE, checkpoint=str(state / "mine"))
    write_submission(own)
    (state / "mine").mkdir()
    assert run(["jobs", "remove", "clicks"]) == 0
    assert submissions() == () and (state / "mine").is_dir()


def test_submitted_jobs_need_no_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["jobs", "show", "totals"]) == 2
    assert 'job "totals" does not exist. No job was submitted.' in capsys.readouterr().err
    submission = submitted(process=GONE, exit_status=1)
    assert run(["jobs", "list", "--output", "jsonl"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert {key: json.loads(line)[key] for key in ("job id", "job name", "status")} == {
        "job id": None, "job name": "totals", "status": "FAILED",
    }  # fmt: skip
    assert run(["jobs", "show", "TOTALS", "--output", "csv"]) == 0
    shown = capsys.readouterr().out
    assert f"log,{submission.log}\n" in shown and "exit status,1\n" in shown and "job id" not in shown
