"""The fault test on little: what it compares, when it strikes, and one job whose driver is killed."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.compare import committed, committed_files, difference
from tests.faults.disk import Disk, disk_at, may_mount
from tests.faults.events import write_events
from tests.faults.inject import Moment, moments, strike
from tests.faults.run import disturbed, undisturbed
from tests.faults.running import JobRun

ROWS = pa.table({"k": [1, 2, 2], "at": ["a", "b", "b"]})


def test_equal_rows_do_not_differ():
    assert difference(ROWS, ROWS.slice(0)) is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (ROWS.slice(0, 2), r"2 rows instead of 3; 1 lost, as {'k': 2, 'at': 'b'}"),
        (pa.concat_tables([ROWS, ROWS.slice(0, 1)]), r"4 rows instead of 3; 1 added, as {'k': 1, 'at': 'a'}"),
        (pa.table({"k": [1, 2, 3], "at": ["a", "b", "b"]}), r"3 rows instead of 3; 1 lost, .*; 1 added, as {'k': 3"),
        (pa.table({}), "0 rows instead of 3"),
    ],
)
def test_a_difference_names_a_row(found, said):

    how = difference(ROWS, found)
    assert how is not None
    assert re.match(said, how)


def test_files_are_those_of_the_log_of_the_sink(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("old", "a", "b", "orphan"):
        pq.write_table(pa.table({"k": [len(name)]}), tmp_path / f"{name}.parquet")
    _log(log / "8", tmp_path, ["old", "a"])  # what the compact entry holds is not read again
    _log(log / "9.compact", tmp_path, ["a"])
    _log(log / "10", tmp_path, ["b"])
    assert [path.stem for path in committed_files(tmp_path)] == ["a", "b"]
    assert committed(tmp_path).to_pydict() == {"k": [1, 1]}


def _log(path, folder, names):
    entries = [json.dumps({"path": (folder / f"{name}.parquet").as_uri()}) for name in names]
    path.write_text("\n".join(["v1", *entries]))


def test_files_of_micro_batches_are_those_of_their_directories(tmp_path):
    for name in ("sqlstream_batch=0/part-0", "sqlstream_batch=0/_temporary/part-1", "other/part-2"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"k": [7]}), path)
    assert committed(tmp_path).to_pydict() == {"k": [7]}
    assert committed(tmp_path / "nothing").num_rows == 0


def test_moments_repeat_with_the_seed_and_come_before_the_end():
    first, again = moments(10, 40, random.Random("1")), moments(10, 40, random.Random("1"))
    assert first == again != moments(10, 40, random.Random("2"))
    assert [m.epoch for m in first] == sorted({m.epoch for m in first})
    assert first[0].epoch >= -1
    assert first[-1].epoch < 27


def test_events_repeat_with_the_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_events(tmp_path / name, 1_000, 4, seed)
    a, b, c = (pq.read_table(tmp_path / name) for name in "abc")
    assert a.equals(b)
    assert not a.equals(c)
    assert len(list((tmp_path / "a").iterdir())) == 4
    markers = [barrier for barrier in a["barrier"].to_pylist() if barrier is not None]
    assert len(markers) == 180
    assert (
        len({*zip(a["barrier"].to_pylist(), a["channel"].to_pylist(), strict=True)} - {(None, n) for n in range(3)})
        == 180
    )


def test_the_limit_of_a_process_stands_for_a_full_disk(tmp_path):
    code = "import sys; print('.', flush=True); sys.stdin.read(1); open('x', 'w', 1).write('more\\n')"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=-1, stdout=-1, stderr=-1)
    assert process.stdout is not None
    process.stdout.read(1)
    Disk(tmp_path, mounted=False).fill(process.pid, 0)
    _, said = process.communicate(b"x")
    assert b"File too large" in said


@pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")
def test_a_mounted_disk_is_full_until_it_is_freed(tmp_path):
    with disk_at(tmp_path) as disk:
        if not disk.mounted:
            pytest.skip("nothing may be mounted here")
        disk.fill(0, 4096)
        assert shutil.disk_usage(tmp_path).free <= 4096
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "x").write_bytes(b"x" * 10_000)
        disk.free()
        (tmp_path / "x").write_bytes(b"x" * 10_000)


# A job without Spark: an epoch is a file, and one that is not whole is refused, by its name or without.
JOB = """
import os, sys, time
from pathlib import Path

commits = Path(sys.argv[1], "job", "spark", "commits")
commits.mkdir(parents=True, exist_ok=True)
done = {int(path.name): path for path in commits.iterdir() if path.name.isdecimal()}
for path in done.values():
    if path.read_text() != "whole":
        sys.exit(f'SS459: file "{path}" of a checkpoint is damaged' if sys.argv[2] == "clear" else "Traceback")
for number in range(max(done, default=-1) + 1, 60):
    time.sleep(0.02)
    hidden = commits / ".next"
    hidden.write_text("whole")
    hidden.rename(commits / str(number))
"""


@dataclass
class PlainRun(JobRun):
    says: str = "clear"

    @property
    def command(self):
        return [sys.executable, "-c", JOB, str(self.checkpoints), self.says]


def struck(folder, fault, says="clear"):
    run = PlainRun("tumble", folder / "events", folder / "run", says=says)
    run.prepare()
    found = strike(run, fault, [Moment(2, 0.0), Moment(10, 0.0)], random.Random("2"))
    assert run.ended == 0
    return found


def test_a_start_that_names_the_cut_off_file_has_refused_it(tmp_path):
    found = struck(tmp_path, "truncate")
    assert found.tried == 2
    assert found.refused  # twice, unless the cut hit the hidden file of an epoch that was being written
    assert all(re.match(r'SS459: file ".*/job/spark/commits/\d+" of a checkpoint', text) for text in found.refused)
    assert not found.unclear


def test_a_start_that_does_not_is_unclear(tmp_path):
    found = struck(tmp_path, "truncate", says="unclear")
    assert not found.refused
    assert {text.split(": ", 1)[1] for text in found.unclear} == {"no message: Traceback"}


def test_a_killed_job_is_started_again(tmp_path):
    found = struck(tmp_path, "driver")
    assert found.tried > 0
    assert not found.failed
    assert not found.unclear


def test_a_job_that_fails_at_the_same_epoch_again_and_again_is_stuck(tmp_path):
    run = PlainRun("tumble", tmp_path, tmp_path / "run")
    run.prepare()
    first = run.checkpoints / "job/spark/commits/0"
    first.parent.mkdir(parents=True)
    first.touch()
    found = strike(run, "driver", [], random.Random("1"))
    assert found.stuck
    assert run.starts == len(found.failed) == 4


@pytest.mark.spark
def test_a_job_whose_driver_is_killed_commits_what_an_undisturbed_one_does(tmp_path):
    write_events(tmp_path / "events", 6_000, 5, 1)
    expected = undisturbed("tumble", tmp_path / "events", tmp_path / "undisturbed")
    outcome = disturbed("tumble", "driver", 1, 4, tmp_path / "events", tmp_path / "killed", expected, "seed")
    assert outcome.differs is None
    assert (outcome.struck.tried, outcome.starts) == (1, 2)
    assert outcome.verdict == "equal"
