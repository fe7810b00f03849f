"""Folders of jobs: what others have put there stays, and what is nobody's job is not written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.own_files import MARKS, remove_checkpoint, require_own_folder
from sqlstream.jobs.checkpoints.storage import LocalStorage

WRITTEN = (
    "plan.json", "layout.json", "run.txt", "watermarks.json", "control/t/end-of-input.json", "control-clock/tick.json",
    "spark/metadata", "spark/.metadata.crc", "spark/offsets/0", "spark/commits/0", "spark/sources/0/0",
    "spark/state/0/0/1.zip", "received/t/0.messages", "changes/slot/rows-1-0-0.csv", "changes/slot/log-1.index",
)  # fmt: skip
KEPT = ("job.json", "epochs.json", "requests/1.json", "replies/1.json")


def paths(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def test_a_checkpoint_is_removed_and_its_record_stays(tmp_path) -> None:
    storage = LocalStorage(tmp_path)
    for path in (*WRITTEN, *KEPT):
        storage.write(path, "x")
    remove_checkpoint(storage)
    assert paths(tmp_path) == {*KEPT}
    assert not (tmp_path / "spark").exists()


def test_what_others_have_put_between_the_files_of_a_job_stays(tmp_path) -> None:
    others = ("2024.csv", "spark/notes.txt", "sales/2024.csv", ".hidden")
    storage = LocalStorage(tmp_path / "job")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    for path in (*WRITTEN, *others):
        storage.write(path, "x")
    (storage.root / "results").symlink_to(elsewhere)
    remove_checkpoint(storage)
    assert paths(storage.root) == {*others}
    assert (elsewhere / "file").exists()


@pytest.mark.parametrize("files", [(), (".lock",), *((mark, "2024.csv") for mark in MARKS)])
def test_a_folder_that_is_new_empty_or_a_jobs_is_taken(tmp_path, files) -> None:
    require_own_folder(LocalStorage(tmp_path / "new"), "new")
    storage = LocalStorage(tmp_path)
    for path in files:
        storage.write(path, "x")
    require_own_folder(storage, "folder")


@pytest.mark.parametrize(
    ("files", "detail"),
    [
        (("2024.csv",), 'It holds "2024.csv", which no job has written.'),
        (("spark/offsets/0", "b", "a"), 'It holds "a" and 2 more, which no job has written.'),
    ],
)
def test_the_folder_of_somebody_else_is_refused(tmp_path, files, detail) -> None:
    storage = LocalStorage(tmp_path)
    for path in files:
        storage.write(path, "x")
    with pytest.raises(ExecutionError) as error:
        require_own_folder(storage, "data/sales")
    assert error.value.code == "SS414"
    assert error.value.diagnostic.message == '"data/sales" is not the folder of a job, and is not empty'
    assert error.value.diagnostic.detail == detail
