"""Names as those of one file or folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.connectors.memory import Memory
from sqlstream.errors import ExecutionError
from sqlstream.folders import Folders, JobName
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.paths import as_segment, is_segment
from sqlstream.planner.catalog import Table
from sqlstream.settings import Settings

LEADING_OUT = (".", "..", "../x", "a/../../b", "/etc", "a/b", "", "a\0b", "%2e%2e", "..%2Fx", "%2Fetc")


@pytest.mark.parametrize("name", LEADING_OUT)
def test_names_that_lead_out_of_their_folder_are_none_and_become_some(name: str) -> None:
    assert not is_segment(name)
    if name:
        segment = as_segment(name)
        assert is_segment(segment) or "%" in segment
        assert "/" not in segment
        assert segment not in (".", "..")


def test_plain_names_stay_and_others_stay_apart() -> None:
    for name in ("totals", "insert_into_t__2", "a.b", "job-1"):
        assert is_segment(name)
        assert as_segment(name) == name
    assert len({as_segment(name) for name in LEADING_OUT}) == len(LEADING_OUT)


@pytest.mark.parametrize("name", [n for n in LEADING_OUT if n])
def test_a_job_of_such_a_name_is_refused_its_checkpoint(name: str) -> None:
    settings = Settings()
    settings.set("execution.checkpointing.dir", "file:///data")
    folders = Folders()
    actual = folders.job_name(JobName(name, name))
    with pytest.raises(ExecutionError, match=r"SS415: the name .* of a job cannot be that of the folder") as error:
        folders.checkpoint(settings, actual.now)
    assert "SET 'pipeline.name'" in (error.value.diagnostic.hint or "")
    settings.set("execution.checkpointing.dir", "/data")
    with pytest.raises(ExecutionError, match="SS415"):
        folders.checkpoint(settings, actual.now)


@pytest.mark.parametrize("name", ["..", "../../x", "."])
def test_tables_of_such_names_have_their_control_rows_and_memory_in_place(tmp_path: Path, name: str) -> None:
    storage = LocalStorage(tmp_path / "job")
    ControlRows(storage).end(name)
    assert len([*storage.root.glob("control/*/end-of-input.json")]) == 1
    scratch = tmp_path / "a/b/session"
    inside, outside = scratch / "memory" / as_segment(name), scratch / "memory" / name
    inside.mkdir(parents=True)
    for folder in (tmp_path / "a/b", scratch, scratch / "memory"):
        (folder / "theirs").touch()
    Memory().drop(scratch, Table(name, (), "memory"))
    assert not inside.exists()
    assert outside.exists() or name == "../../x"
    assert len([*tmp_path.rglob("theirs")]) == 3


def test_the_same_work_has_the_same_name_and_other_work_a_number() -> None:
    folders, name = Folders(), JobName("insert_into_t", "insert-into-t")
    works = ("a", "b", "a", None, "b", None, "c", "a")
    names = [folders.job_name(name, work).now.removeprefix(name.now) for work in works]
    assert names == ["", "__2", "", "__3", "__2", "__4", "__5", ""]
    assert folders.job_name(name, "b").before == "insert-into-t-2"
