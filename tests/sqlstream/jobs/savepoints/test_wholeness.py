"""Checkpoints with a file that is missing or cut off are refused, each by the name of the file."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

import sqlstream
from sqlstream.errors import ExecutionError
from sqlstream.jobs import Job
from sqlstream.jobs.checkpoints.checkpoint import require_compatible, run_of
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.fingerprint import stored_layout
from sqlstream.jobs.checkpoints.storage import LocalStorage, SparkStorage
from sqlstream.jobs.checkpoints.watermarks import SourceWatermarks
from sqlstream.jobs.records.history import read_epochs
from sqlstream.jobs.savepoints.epoch_files import require_whole_checkpoint

OFFSET = 'v1\n{"batchWatermarkMs":0}\n-\n{"logOffset":1}'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


@pytest.fixture
def storage(tmp_path):
    """A checkpoint after the micro-batch 2, with 3 under way; checksums as Hadoop writes them."""
    _write(tmp_path, "plan.json", "{}", sums=False)
    _write(tmp_path, "control/t/end-of-input.json", '{"watermark_ms": 1}', sums=False)
    _write(tmp_path, "ranges/t/ab/ab-000000001.jsonl", '{"__file": "file:///x", "__end": 1}\n', sums=False)
    _write(tmp_path, "ranges/t/ab/positions", '{"removed": 1}\n{"__file": "file:///y", "__end": 1}\n', sums=False)
    _write(tmp_path, "spark/metadata", '{"id": "x"}')
    for number in range(4):
        _write(tmp_path, f"spark/offsets/{number}", OFFSET)
        _write(tmp_path, f"spark/sources/1/{number}", 'v1\n{"path":"file:/x"}')
    for number in range(3):
        _write(tmp_path, f"spark/commits/{number}", COMMIT)
        _write(tmp_path, f"spark/state/0/0/{number + 1}.changelog", "x" * (512 * 4 + 7))
    return LocalStorage(tmp_path)


def _write(root: Path, path: str, text: str, sums: bool = True) -> None:
    target, data = root / path, text.encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    if sums:
        crc = b"".join(zlib.crc32(data[i : i + 512]).to_bytes(4, "big") for i in range(0, len(data), 512))
        target.with_name(f".{target.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + crc)


def test_a_whole_checkpoint_and_an_empty_directory_are_taken(storage, tmp_path_factory):
    require_whole_checkpoint(storage)
    require_whole_checkpoint(LocalStorage(tmp_path_factory.mktemp("new")))


NEEDED = [
    "spark/metadata", "spark/offsets/2", "spark/offsets/3", "spark/commits/2", "spark/sources/1/2", "spark/sources/1/3",
    "spark/state/0/0/3.changelog", "control/t/end-of-input.json", "ranges/t/ab/ab-000000001.jsonl",
    "ranges/t/ab/positions",
]  # fmt: skip


@pytest.mark.parametrize("path", NEEDED)
@pytest.mark.parametrize("lost", ["all", "half", "a byte"])
def test_a_file_that_is_cut_off_is_named(storage, path, lost):
    file = storage.root / path
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.truncate({"all": 0, "half": size // 2, "a byte": size - 1}[lost])
    with pytest.raises(ExecutionError, match="SS459") as caught:
        require_whole_checkpoint(storage)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("path", ["spark/metadata", "spark/offsets/3", "spark/commits/2"])
def test_logs_without_checksums_are_looked_at_too(storage, path):
    file = storage.root / path
    file.with_name(f".{file.name}.crc").unlink()
    require_whole_checkpoint(storage)
    file.write_text(file.read_text()[:-2])
    with pytest.raises(ExecutionError, match=f'SS459: file ".*/{path}" of a checkpoint is damaged'):
        require_whole_checkpoint(storage)


def test_the_end_of_a_file_counts_where_it_is_long_enough(storage):
    file = storage.root / "spark/state/0/0/3.changelog"
    file.write_bytes(file.read_bytes()[:-1] + b"y")
    with pytest.raises(ExecutionError, match="SS459"):
        require_whole_checkpoint(storage)


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        (["plan.json"], "plan.json"),
        (["spark/metadata"], "spark/metadata"),
        (["spark/offsets/2", "spark/offsets/3"], "spark/offsets/2"),
        (["spark/offsets/2"], "spark/offsets/2"),
        (["spark/commits/2"], "spark/commits/2"),
    ],
)
def test_a_missing_file_is_named(storage, gone, named):
    for path in gone:
        (storage.root / path).unlink()
    with pytest.raises(ExecutionError, match=f'SS459: file ".*{named}" of a checkpoint is missing'):
        require_whole_checkpoint(storage)


def test_files_of_epochs_that_nobody_goes_on_from_do_not_matter(storage):
    for path in ("spark/offsets/0", "spark/commits/0"):
        (storage.root / path).write_text("")
    require_whole_checkpoint(storage)


def test_what_was_being_written_when_the_job_was_killed_does_not_matter(storage):
    for path in ("control/t/.tick-1.json", "control-clock/.tick-1.json"):
        _write(storage.root, path, '{"processing', sums=False)
    require_whole_checkpoint(storage)


def test_checkpoints_elsewhere_are_left_to_spark():
    nobody: object = None
    require_whole_checkpoint(SparkStorage("s3a://bucket/x", nobody))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", '{"engine": "col', '{"engine": "columnar", "cores": 3}'])
def test_a_layout_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / "layout.json").write_text(text)
    with pytest.raises(ExecutionError, match=r"SS459: file .*/layout.json"):
        stored_layout(LocalStorage(tmp_path))


@pytest.mark.parametrize("text", ["", '{"t": 1', "7"])
def test_watermarks_that_cannot_be_read_are_named(tmp_path, text):
    (tmp_path / "watermarks.json").write_text(text)
    with pytest.raises(ExecutionError, match=r"SS459: file .*/watermarks.json"):
        SourceWatermarks(ControlRows(LocalStorage(tmp_path))).restore()


@pytest.mark.parametrize("text", ["", '[{"epoch": 1', "[1]", '[{"x": 1}]'])
def test_damaged_epochs_are_forgotten(tmp_path, text):
    (tmp_path / "epochs.json").write_text(text)
    assert read_epochs(LocalStorage(tmp_path)) == {}


def test_a_plan_that_is_cut_off_is_damaged_and_not_of_another_version():
    with pytest.raises(ExecutionError, match=r'SS459: file "/c/plan.json" of a checkpoint is damaged'):
        require_compatible("/c", '{"version": 1, "par', ())
    with pytest.raises(ExecutionError, match=r"SS421: .* another version"):
        require_compatible("/c", '{"version": 0}', ())


@pytest.mark.spark
def test_a_word_of_a_run_that_is_cut_off_is_named(spark, tmp_path):
    word = run_of(str(tmp_path), spark)
    assert run_of(str(tmp_path), spark) == word
    (tmp_path / "run.txt").write_text(word[:16])
    with pytest.raises(ExecutionError, match=r"SS459: file .*/run.txt"):
        run_of(str(tmp_path), spark)


@pytest.mark.spark
def test_a_micro_batch_that_runs_again_replaces_its_state(spark, tmp_path):
    """Killed between its state and its commit: what comes out of it is what the new state belongs to."""
    folder = tmp_path / "checkpoints/insert_into_kept/spark"
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("1\n2\n1\n")
    script = f"""
    SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
    CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/in');
    CREATE TABLE kept (k INT, n BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO kept SELECT k, COUNT(*) FROM t GROUP BY k COUNT WINDOW (2 ROWS)
    """

    def run():
        with sqlstream.connect(spark) as session:
            job = session.sql(script)
            assert isinstance(job, Job)
            job.wait()
        return {path: path.stat().st_mtime_ns for path in folder.glob("state/0/*/1.changelog")}

    before = run()
    for commit in (folder / "commits").iterdir():
        commit.unlink()
    for path in before:
        crc = path.with_name(f".{path.name}.crc")
        crc.write_bytes(crc.read_bytes()[:-1])
    after = run()
    assert before.keys() == after.keys() != set()
    assert all(before[path] < after[path] for path in before)
    assert not [*folder.glob("state/0/*/.*.tmp")]
    require_whole_checkpoint(LocalStorage(folder.parent))
