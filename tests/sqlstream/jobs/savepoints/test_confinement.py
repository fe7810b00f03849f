"""Savepoints from elsewhere, whose names lead out of their folder: refused, and nothing is written."""

from __future__ import annotations

import json
import os
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs.savepoints import restore
from sqlstream.jobs.savepoints.create import CopiedFile, Manifest, checksum, write_manifest
from sqlstream.jobs.savepoints.restore import origin_at, require_confined

NAMES = (
    "../payload", "/etc/payload", "spark/../../payload", "spark/./offsets/0", "spark//offsets/0", "", ".", "spark",
    "job.json", "run.txt", "requests/1.json", "elsewhere/payload", "spark/nul\0",
)  # fmt: skip


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    folder = tmp_path / "savepoint"
    for name in ("plan.json", "layout.json", "spark/offsets/0", "spark/commits/0", "control/t/end-of-input.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    listed(folder)
    return folder


def listed(folder: Path, *more: str) -> None:
    """Write the manifest, with the names of all files and more."""
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    files = {name: CopiedFile((folder / name).stat().st_size, checksum(folder / name)) for name in names}
    files |= dict.fromkeys(more, CopiedFile(0, ""))
    write_manifest(folder, Manifest("j", "/c", 0, 1, "now", files={n: f for n, f in files.items() if "save" not in n}))


def test_the_names_of_a_savepoint_are_taken(savepoint: Path) -> None:
    assert origin_at(str(savepoint)).epoch == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_with_names_of_other_places_is_refused(savepoint: Path, name: str) -> None:
    listed(savepoint, name)
    with pytest.raises(ExecutionError, match=r"SS418: .* is no name of a file of a savepoint"):
        origin_at(str(savepoint))


@pytest.mark.parametrize("name", ["spark/" + "x" * 300, "spark/" + "y/" * 3_000 + "z", "spark/\ud800"])
def test_a_manifest_with_names_that_no_file_can_have_is_refused(savepoint: Path, name: str) -> None:
    document = json.loads((savepoint / "savepoint.json").read_text())
    document["files"][name] = {"bytes": 0, "sha256": ""}
    (savepoint / "savepoint.json").write_text(json.dumps(document))
    with pytest.raises(ExecutionError, match="SS418"):
        origin_at(str(savepoint))


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_that_leads_out_is_refused_and_one_inside_is_not(savepoint: Path, kind: str) -> None:
    (savepoint / "spark/inside").symlink_to("offsets/0")
    listed(savepoint)
    assert "spark/inside" in origin_at(str(savepoint)).files
    outside = savepoint.parent / "outside"
    outside.mkdir()
    (outside / "0").write_text("secret")
    (savepoint / "spark/state").symlink_to(outside if kind == "folder" else outside / "0")
    name = "spark/state/0" if kind == "folder" else "spark/state"
    with pytest.raises(ExecutionError, match="SS418"):
        require_confined(savepoint, [name])


def test_an_archive_of_state_with_such_names_is_refused(savepoint: Path) -> None:
    with zipfile.ZipFile(savepoint / "spark/1.zip", "w") as archive:
        archive.writestr("../../payload", "x")
    listed(savepoint)
    with pytest.raises(ExecutionError, match=r'SS418: "../../payload" in ".*/spark/1.zip"'):
        origin_at(str(savepoint))
    (savepoint / "spark/1.zip").write_bytes(b"no archive")
    listed(savepoint)
    origin_at(str(savepoint))


@pytest.mark.parametrize("text", ['{"version": 1}', "[]", '{"version": 1, "files": {"a": 1}}', "[" * 100_000])
def test_a_manifest_that_is_none_is_told(savepoint: Path, text: str) -> None:
    (savepoint / "savepoint.json").write_text(text)
    with pytest.raises(ExecutionError, match="SS428"):
        origin_at(str(savepoint))


@pytest.mark.parametrize("wrong", [{"epoch": "../1"}, {"epoch": -1}, {"epoch": 1 << 63}, {"partitions": 0}])
def test_a_manifest_with_an_epoch_or_partitions_that_no_job_has_is_told(
    savepoint: Path, wrong: dict[str, object]
) -> None:
    document = json.loads((savepoint / "savepoint.json").read_text())
    (savepoint / "savepoint.json").write_text(json.dumps({**document, **wrong}))
    with pytest.raises(ExecutionError, match="SS428"):
        origin_at(str(savepoint))


@pytest.mark.parametrize("stored", [["/x/state/../../payload"], 7, [1]])
def test_paths_of_schemas_stay_inside_the_state(savepoint: Path, tmp_path: Path, monkeypatch, stored: object) -> None:
    schema = savepoint / "spark/state/0/_metadata/v2/0"
    schema.parent.mkdir(parents=True)
    schema.write_text("v2\n" + json.dumps({"stateStoreInfo": [{"stateSchemaFilePaths": stored}]}))
    listed(savepoint)
    monkeypatch.setattr(import_module("sqlstream.jobs.savepoints.restore"), "_require_fits", lambda *_: None)
    monkeypatch.setattr("sqlstream.jobs.checkpoints.storage.shares_files", lambda _: True)
    target = tmp_path / "job"
    with pytest.raises(ExecutionError, match="SS418" if stored == ["/x/state/../../payload"] else "SS428|SS418"):
        restore(str(savepoint), str(target), (), None, "auto", None)  # type: ignore[arg-type]
    assert not [*target.rglob("*")]


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_target_that_cannot_be_written_is_told(savepoint: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(import_module("sqlstream.jobs.savepoints.restore"), "_require_fits", lambda *_: None)
    monkeypatch.setattr("sqlstream.jobs.checkpoints.storage.shares_files", lambda _: True)
    (tmp_path / "file").touch()
    with pytest.raises(ExecutionError, match="SS416"):
        restore(str(savepoint), str(tmp_path / "file/job"), (), None, "auto", None)  # type: ignore[arg-type]
