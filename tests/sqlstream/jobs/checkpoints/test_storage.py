"""Texts and files below a directory: of this machine, and through Spark, which must tell the same."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from sqlstream.errors import BindError, ExecutionError
from sqlstream.jobs.checkpoints.storage import LocalStorage, SparkStorage, Storage, local_storage_at
from sqlstream.jobs.lifecycle.coordinator import Retention
from sqlstream.jobs.records.record import Description, records_below, write_record
from sqlstream.jobs.records.recorder import Recorder
from tests.sqlstream.jobs.records.written import record


@contextmanager
def storages(tmp_path: Path, spark: object) -> Iterator[tuple[Storage, Storage]]:
    yield LocalStorage(tmp_path / "local"), SparkStorage(f"file://{tmp_path}/far away", spark)  # type: ignore[arg-type]


@pytest.mark.spark
def test_texts_are_found_by_pattern(tmp_path, spark) -> None:
    with storages(tmp_path, spark) as both:
        for storage in both:
            assert storage.texts("*/job.json") == {}
            for path in ("a/job.json", "b c/job.json", "b c/other.json", "a/deep/job.json"):
                storage.write(path, f"text of {path}\nin two lines")
            assert storage.texts("*/job.json") == {
                "a/job.json": "text of a/job.json\nin two lines",
                "b c/job.json": "text of b c/job.json\nin two lines",
            }
            write_record(storage, record())
            storage.write("totals/job.json", storage.read("job.json") or "")
            assert storage.files("nothing") == {}
        assert set(both[0].texts("a/*")) == {"a/job.json"}


@pytest.mark.spark
def test_files_have_size_and_time(tmp_path, spark) -> None:
    local = LocalStorage(tmp_path)
    for path in ("spark/commits/0", "spark/state/0/1/2.zip", "spark/commits/.0.crc", "spark/_hidden"):
        local.write(path, "12345")
    actual = local.files("spark")
    assert {path: file.size for path, file in actual.items()} == {"commits/0": 5, "state/0/1/2.zip": 5}
    far = SparkStorage(str(tmp_path), spark).files("spark")
    assert {path: file.size for path, file in far.items()} == {path: file.size for path, file in actual.items()}
    assert {path: file.time for path, file in far.items()} == pytest.approx(
        {path: file.time for path, file in actual.items()}, abs=0.01
    )


def test_of_a_link_the_link_is_removed_and_not_what_it_leads_to(tmp_path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    storage = LocalStorage(tmp_path / "job")
    storage.make_folder("a")
    (storage.root / "a/link").symlink_to(elsewhere)
    (storage.root / "link").symlink_to(elsewhere)
    for path in ("link", "a", "no such file"):
        storage.remove(path)
    assert not [*storage.root.iterdir()]
    assert (elsewhere / "file").exists()


def test_only_paths_of_this_machine_are_local() -> None:
    assert local_storage_at("s3a://bucket/x") is None
    assert local_storage_at("file:///tmp/a%20b") == LocalStorage(Path("/tmp/a b"))


def test_a_checkpoint_that_cannot_be_deleted_refuses_settings_that_want_it_deleted() -> None:
    storage = SparkStorage("s3a://bucket/j", SimpleNamespace())  # type: ignore[arg-type]
    recorder = Recorder(storage, Description(), Retention.DELETE_ON_CANCELLATION)
    with pytest.raises(BindError) as error:
        recorder.require_free("s3a://bucket/j")
    assert error.value.code == "SS233"
    assert error.value.diagnostic.message == 'the checkpoint "s3a://bucket/j" cannot be deleted when its job ends'


def test_records_are_found_below_a_directory_with_spaces(tmp_path) -> None:
    write_record(LocalStorage(tmp_path / "a job"), record("a job"))
    assert list(records_below(LocalStorage(tmp_path))) == ["a job"]


@pytest.mark.parametrize("act", [lambda s: s.write("plan.json", "{}"), lambda s: s.write("a/b.json", "{}")])
def test_a_full_disk_is_told_as_such_and_leaves_the_text_as_it_was(tmp_path, act) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("plan.json", "old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(ExecutionError) as error:
            act(storage)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(error.value).startswith("SS465: a disk that the job writes to is full: File too large")
    assert storage.texts("**/*.json") == {"plan.json": "old"}


@pytest.mark.parametrize("path", ["file/plan.json", "file/deep/plan.json", f"{'long' * 80}.json", "nul\0.json"])
def test_what_cannot_be_written_is_told_with_its_path_and_the_reason(tmp_path, path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("file", "a file")
    with pytest.raises(ExecutionError, match=rf'SS416: "{tmp_path}/.*" cannot be written: .+') as error:
        storage.write(path, "{}")
    assert error.value.diagnostic.hint
    assert len(error.value.diagnostic.message) < 400
    assert storage.read("file") == "a file"


def test_what_cannot_be_read_is_told_and_what_is_not_there_is_no_error(tmp_path) -> None:
    storage = LocalStorage(tmp_path)
    storage.make_folder("plan.json")
    with pytest.raises(ExecutionError, match=rf'SS417: "{tmp_path}/plan.json" cannot be read: .+'):
        storage.read("plan.json")
    storage.write("file", "a file")
    assert storage.read("file/plan.json") is None
    assert storage.files("file") == {}
    for impossible in (LocalStorage(tmp_path / ("x" * 300)), LocalStorage(tmp_path / "nul\0")):
        with pytest.raises(ExecutionError, match="SS417"):
            impossible.files("spark")
    assert storage.read("no such file") is None


def test_a_text_that_is_none_is_damage(tmp_path) -> None:
    (tmp_path / "plan.json").write_bytes(b"\xff")
    with pytest.raises(ExecutionError, match=r'SS459: file ".*/plan.json" of a checkpoint is damaged'):
        LocalStorage(tmp_path).read("plan.json")
