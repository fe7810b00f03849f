"""Spark's log outlives the process, so that a hint may name it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sqlstream.jobs.lifecycle.failure import job_error
from sqlstream.spark import log as spark_log

_PROCESS = """
import sys
from sqlstream.jobs.lifecycle.failure import job_error
from sqlstream.spark.log import new_log

log = new_log()
log.write_text(sys.argv[1])
print(job_error(RuntimeError("Python worker exited unexpectedly"), None, "/c").diagnostic.hint, end="")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(spark_log, "_current", None)
    return tmp_path / "sqlstream" / "logs"


@pytest.mark.parametrize("text", ["ERROR no space", ""])
def test_a_hint_names_a_log_that_is_there_after_the_process_if_it_says_anything(folder: Path, text: str) -> None:
    ended = subprocess.run([sys.executable, "-c", _PROCESS, text], check=True, capture_output=True, text=True)
    path = Path(ended.stdout.partition("see Spark's log \"")[2].removesuffix('".'))
    assert path.parent == folder
    assert [file.read_text() for file in folder.iterdir()] == ([text] if text else [])
    assert path.exists() == bool(text)


def test_only_the_newest_logs_are_kept(folder: Path) -> None:
    folder.mkdir(parents=True)
    old = [folder / f"spark-2020010{i}-000000-1-x.log" for i in range(5)]
    for file in old:
        file.write_text("old")
    new = [spark_log.new_log() for _ in range(spark_log.KEPT - 2)]
    assert sorted(folder.iterdir()) == sorted([*old[-2:], *new])


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(spark_log, "_current", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert spark_log.new_log().parent == tmp_path


def test_the_log_of_a_spark_that_somebody_else_has_started_has_no_path_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_log, "_current", None)
    hint = job_error(RuntimeError("Python worker exited unexpectedly"), "j", "/c").diagnostic.hint
    assert hint is not None
    assert hint.endswith("what its functions do; see Spark's log.")
