"""``sqlstream jobs`` over records of a directory, without the processes of the jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.cli import run
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import write_record
from tests.sqlstream.jobs.records.written import GONE, life, record


@pytest.fixture
def directory(tmp_path: Path) -> str:
    for name, status in (("totals", life("STOPPED", started=0.0, ended=60.0)), ("clicks", life(process=GONE))):
        write_record(LocalStorage(tmp_path / name), record(name, life=status))
    LocalStorage(tmp_path / "totals").write("spark/commits/4", "12345")
    return str(tmp_path)


def lines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    assert run([*arguments, "--output", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_jobs_are_listed(directory, capsys) -> None:
    actual = lines(["jobs", "list", "--dir", directory], capsys)
    assert [(line["job name"], line["status"]) for line in actual] == [("clicks", "LOST"), ("totals", "STOPPED")]
    assert actual[1]["start time"] == "1970-01-01 00:00:00"


@pytest.mark.parametrize("name", ["totals", "TOTALS", "id-of-totals"])
def test_a_job_is_shown_by_name_or_id(directory, capsys, name) -> None:
    collected = {line["property"]: line["value"] for line in lines(["jobs", "show", name, "--dir", directory], capsys)}
    assert {key: collected[key] for key in ("status", "end time", "statement", "setting pipeline.name", "rows in")} == {
        "status": "STOPPED", "end time": "1970-01-01 00:01:00", "statement": "INSERT INTO t SELECT 1",
        "setting pipeline.name": "totals", "rows in": "7",
    }  # fmt: skip
    assert run(["jobs", "show", name, "--dir", directory, "--record"]) == 0
    assert json.loads(capsys.readouterr().out)["description"]["plan"] == {"version": 1}


def test_epochs_are_listed_of_one_job_or_all(directory, capsys) -> None:
    for arguments in (["totals"], []):
        (line,) = lines(["jobs", "checkpoints", *arguments, "--dir", directory], capsys)
        assert (line["job name"], line["epoch"], line["size"], line["retained"]) == ("totals", "4", "5 B", "yes")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "total"], 2, 'Error: job "total" does not exist. Did you mean "totals"?'),
        (["checkpoint", "totals"], 1, 'SS231: job "totals" is not running but STOPPED'),
        (["savepoint", "clicks"], 3, 'SS451: job "clicks" does not run: its process'),
        (["stop", "clicks", "--drain"], 3, "SS451"),
        (["stop", "clicks"], 0, ""),
        (["stop", "totals"], 0, ""),
        (["stop", "--all", "--savepoint"], 0, ""),
        (["stop"], 2, "name a job, or give --all"),
        (["stop", "totals", "--all"], 2, "name a job, or give --all"),
        (["stop", "--all", "--savepoint-path", "/s"], 2, "--all takes each savepoint in its default place"),
    ],
)
def test_what_cannot_be_done_has_its_exit_code(directory, capsys, arguments, code, message) -> None:
    assert run(["jobs", *arguments, "--dir", directory]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("path", "code"), [("/no/such/directory", 2), ("s3a://bucket/checkpoints", 1)])
def test_a_directory_that_cannot_be_looked_at_says_so(capsys, path, code) -> None:
    assert run(["jobs", "list", "--dir", path]) == code
    assert path in capsys.readouterr().err
