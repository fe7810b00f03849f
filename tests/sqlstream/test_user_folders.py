"""Homes and temporary folders that are missing, read-only or no folders: nothing breaks, or an error helps."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sqlstream import class_archive
from sqlstream.errors import ExecutionError
from sqlstream.folders import Folders
from sqlstream.jobs.checkpoints.own_files import claim_at
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.paths import cache_folder, made, state_folder, temporary_folder
from sqlstream.shell.line_editor import HistoryWithoutSecrets, history_file
from sqlstream.spark import archived_classes, worker_package
from sqlstream.spark import log as spark_log


def test_variables_name_folders_and_relative_ones_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of")
    for value, folders in {
        "/xdg": ("/xdg/sqlstream", "/xdg/sqlstream"),
        "": ("/home/of/.local/state/sqlstream", "/home/of/.cache/sqlstream"),
        "here": ("/home/of/.local/state/sqlstream", "/home/of/.cache/sqlstream"),
    }.items():
        monkeypatch.setenv("XDG_STATE_HOME", value)
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert (str(state_folder()), str(cache_folder())) == folders


@pytest.fixture(params=["below a file", "impossible", "too long", "unknown"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that no folder can be made in."""
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    collected = {
        "below a file": tmp_path / "file/home",
        "impossible": Path("/proc/home"),
        "too long": Path("/" + "x" * 300),
    }
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(collected.get(request.param, "")))
    if request.param == "unknown":
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as it answers where nobody knows a home
    monkeypatch.setattr(spark_log, "_current", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path


def test_without_a_home_logs_and_packages_are_temporary_and_there_is_no_history(home: Path) -> None:
    assert spark_log.new_log().parent == home / "tmp"
    assert worker_package._folder().parent == home / "tmp"
    assert history_file() is None
    assert archived_classes.jvm_options() == ""
    assert archived_classes.advice(100) is None
    with pytest.raises(ExecutionError, match="SS438: no archive of classes can be kept"):
        class_archive.build()


def test_without_temporary_files_the_variable_to_set_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(home / "file"))
    folders = Folders()
    for act in (lambda: temporary_folder("x-"), lambda: folders.root, spark_log.new_log, worker_package._folder):
        with pytest.raises(ExecutionError, match="SS437: temporary files cannot be made: Not a directory") as error:
            act()
        assert "TMPDIR" in (error.value.diagnostic.hint or "")


def test_a_history_that_cannot_be_written_does_not_end_the_shell(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = history_file()
    assert file is not None
    history = HistoryWithoutSecrets(str(file))
    history.append_string("SELECT 1")
    file.unlink()
    file.mkdir()
    history.append_string("SELECT 2")
    assert history.get_strings() == ["SELECT 1", "SELECT 2"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to root")
@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_folders_without_permission_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(mode)
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(closed))
    assert made(state_folder()) is None
    assert history_file() is None
    assert archived_classes.jvm_options() == ""
    with pytest.raises(ExecutionError, match="SS416"):
        claim_at(LocalStorage(closed / "job"), "job")
