"""Starts of one job at the same time, in one process and in several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.own_files import LOCK, claim_at
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import write_record
from tests.sqlstream.jobs.records.written import life, record

CLAIMING = """
import sys
from pathlib import Path
from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.own_files import claim_at
from sqlstream.jobs.checkpoints.storage import LocalStorage

sys.stdin.readline()
try:
    claimed = claim_at(LocalStorage(Path(sys.argv[1])), "jobs/totals")
    print("claimed", flush=True)
    sys.stdin.readline()
except ExecutionError as error:
    print(error.code, flush=True)
"""


def test_of_several_starts_in_processes_of_their_own_one_goes_on(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMING, str(tmp_path / "jobs/totals")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.stdout.readline().strip() for process in processes if process.stdout is not None]
    assert sorted(told) == ["SS452", "claimed"]
    holder = processes[told.index("claimed")]
    with pytest.raises(ExecutionError, match=r"SS452: another start of the job .* is under way"):
        claim_at(LocalStorage(tmp_path / "jobs/totals"), "jobs/totals")
    holder.kill()
    for process in processes:
        process.communicate()
    claim_at(LocalStorage(tmp_path / "jobs/totals"), "jobs/totals").release()  # a process that is gone holds nothing


def test_a_claim_in_the_same_process_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    first = claim_at(storage, "totals")
    with pytest.raises(ExecutionError, match="SS452"):
        claim_at(storage, "totals")
    write_record(storage, record(life=life()))
    with pytest.raises(ExecutionError, match='SS452: job "totals" runs already with the checkpoint "c"'):
        claim_at(storage, "c")
    first.release()
    first.release()
    claim_at(storage, "totals").release()


def test_the_folder_of_somebody_else_is_not_claimed_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "2024.csv").write_text("a,b")
    with pytest.raises(ExecutionError, match="SS414"):
        claim_at(LocalStorage(tmp_path), "data/sales")
    assert [path.name for path in tmp_path.iterdir()] == ["2024.csv"]


def test_a_folder_that_cannot_be_made_or_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in ("file/job", "file", "x" * 300, "nul\0"):
        with pytest.raises(ExecutionError, match=r"SS416: .* cannot be written"):
            claim_at(LocalStorage(tmp_path / path), path)
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / LOCK).symlink_to(elsewhere)
    with pytest.raises(ExecutionError, match="SS416"):
        claim_at(LocalStorage(tmp_path / "job"), "job")
    assert not elsewhere.exists()


def test_a_start_that_copies_its_savepoint_is_told_and_not_taken_for_somebody_else(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    first = claim_at(storage, "totals")
    storage.write("spark/offsets/0", "{}")
    with pytest.raises(ExecutionError, match="SS452"):
        claim_at(storage, "totals")
    first.release()
    with pytest.raises(ExecutionError, match="SS414"):
        claim_at(storage, "totals")
    storage.write("layout.json", "{}")
    claim_at(storage, "totals").release()
