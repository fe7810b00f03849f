"""Records of jobs: to text and back, whose process is gone, all those of a directory."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import (
    DAMAGED,
    LOST_AFTER_S,
    Failure,
    Process,
    _start_of,
    from_text,
    read_record,
    records_below,
    this_process,
    to_text,
    write_record,
)
from sqlstream.jobs.records.requests import recorded_jobs
from sqlstream.jobs.reports.counts import LookupTotals
from sqlstream.jobs.reports.progress import Progress
from sqlstream.statements.jobs import job_rows, properties
from tests.sqlstream.jobs.records.written import ELSEWHERE, GONE, life, record


def test_a_record_is_read_as_it_was_written() -> None:
    progress = Progress(
        rows_in=3, late_by_operator={0: 1, 12: 2}, lookups={1: LookupTotals({"requests": 4})}, watermark_ms=-5
    )
    failures = (Failure(1.0, "SS401", "null", "Correct the row."), Failure(2.0, "SS400", "no"))
    failed = life("FAILED", error=("SS400", "no"), last_failure=("SS401", "null"), progress=progress)
    written = record(life=failed, failures=failures)
    assert from_text(to_text(written), "job.json") == written


def test_what_a_newer_version_adds_does_not_keep_a_record_from_being_read() -> None:
    text = to_text(record()).replace('"rows_in": 7', '"rows_in": 7, "rows_of_tomorrow": 1').replace(
        '"bounded"', '"tomorrow": {}, "bounded"'
    )  # fmt: skip
    assert from_text(text, "job.json").life.progress.rows_in == 7


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1}', '{"version": 2}', '{"version": 1, "life": []}'])
def test_what_is_no_record_says_so(text: str) -> None:
    with pytest.raises(ExecutionError) as error:
        from_text(text, "a/job.json")
    assert error.value.code == "SS454"
    assert error.value.diagnostic.message == 'the record "a/job.json" of a job cannot be read'


def test_what_is_no_record_in_a_checkpoint_is_named_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"version": 1, "li')
    with pytest.raises(ExecutionError) as error:
        read_record(LocalStorage(tmp_path))
    assert f"{tmp_path}/job.json" in error.value.diagnostic.message


def test_a_job_of_this_machine_is_lost_when_its_process_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    there = record(life=life(process=Process(this_process().host, child.pid, _start_of(child.pid)), heartbeat=0))
    assert (there.is_running, there.status, there.error) == (True, "RUNNING", None)
    child.communicate(b"\n")
    assert (there.is_running, there.status) == (False, "LOST")
    assert there.error == ("SS451", f"its process {child.pid} on {this_process().host} is gone")


def test_another_process_with_the_number_of_one_that_is_gone_is_not_taken_for_it() -> None:
    assert record(life=life(process=GONE)).status == "LOST"


def test_a_job_of_another_machine_is_lost_when_it_gives_no_sign_for_a_minute() -> None:
    silent = life(process=ELSEWHERE, heartbeat=time.time() - LOST_AFTER_S - 1)
    assert record(life=silent).status == "LOST"
    assert record(life=replace(silent, heartbeat=time.time() - LOST_AFTER_S + 10)).status == "RUNNING"
    assert record(life=replace(silent, status="STOPPED")).status == "STOPPED"


def test_the_records_below_a_directory_come_in_the_order_of_their_jobs_first_start(tmp_path) -> None:
    for name, created in (("late", 3.0), ("early", 1.0), ("between", 2.0)):
        write_record(LocalStorage(tmp_path / name), record(name, created=created))
    (tmp_path / "no job").mkdir()
    assert list(records_below(LocalStorage(tmp_path))) == ["early", "between", "late"]
    assert read_record(LocalStorage(tmp_path / "no job")) is None


@pytest.mark.parametrize("damage", [b"", b'{"version": 1, "li', b"\xff\xfe\x00", b'{"version": 2}'])
def test_a_damaged_record_does_not_hide_the_others(tmp_path: Path, damage: bytes) -> None:
    write_record(LocalStorage(tmp_path / "whole"), record("whole"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "job.json").write_bytes(damage)
    whole, broken = recorded_jobs(str(tmp_path))
    assert (whole.name, broken.name) == ("whole", "broken")
    assert [row[1:3] for row in job_rows([whole.record, broken.record]).fetchall()] == [
        ("whole", "RUNNING"), ("broken", DAMAGED),
    ]  # fmt: skip
    told = dict(properties(broken.record).fetchall())
    assert told["error"] == f'SS454: the record "file://{tmp_path}/broken/job.json" of a job cannot be read'
    for ask in (broken.stop, broken.checkpoint, broken.savepoint):
        with pytest.raises(ExecutionError) as error:
            ask()
        assert error.value.code == "SS454"
        assert "Remove the file" in str(error.value)
