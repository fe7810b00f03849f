"""``savepoint.json``: what a savepoint is a copy of, and its files with sizes and checksums. Written last."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.udfs.texts import json_of

INVALID = "SS428"

FILE = "savepoint.json"
VERSION = 1

_CHUNK = 1 << 20
_MOST_EPOCHS, _MOST_PARTITIONS = 1 << 63, 1 << 31
_HINT = "Copy the savepoint anew, or start from another one."


@dataclass(frozen=True)
class CopiedFile:
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """``created`` is a time in UTC, ``partitions`` those of the shuffles, ``drained``: the input was taken as ended."""

    job: str
    checkpoint: str
    epoch: int
    partitions: int
    created: str
    drained: bool = False
    sqlstream: str = ""
    spark: str = ""
    files: Mapping[str, CopiedFile] = field(default_factory=dict)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a savepoint; None where there is none. ExecutionError SS428 where it cannot be read."""
    text = LocalStorage(folder).read(FILE)
    if text is None:
        return None
    try:
        document = json_of(text)
        if document.pop("version") != VERSION:
            raise ValueError("it is of another version of sqlstream")
        files = {path: CopiedFile(**file) for path, file in document.pop("files").items()}
        manifest = Manifest(**document, files=files)
        if (type(manifest.epoch), type(manifest.partitions), type(manifest.drained)) != (int, int, bool):
            raise ValueError("epoch and partitions are whole numbers, drained is true or false")
        if not (0 <= manifest.epoch < _MOST_EPOCHS and 0 < manifest.partitions < _MOST_PARTITIONS):
            raise ValueError("no job has so many epochs, or such a number of partitions")
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(folder / FILE, error) from error


def unreadable(path: Path, error: Exception) -> ExecutionError:
    """The error that a file of a savepoint is not what was written."""
    message = f'file "{path}" of a savepoint cannot be read'
    return ExecutionError(INVALID, message, detail=f"{type(error).__name__}: {error}", hint=_HINT)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    with (folder / FILE).open("w", encoding="utf-8") as file:
        json.dump({"version": VERSION, **asdict(manifest)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def require_whole(folder: Path, manifest: Manifest) -> None:
    """ExecutionError SS428 that names the first file that is missing, or is not what was written."""
    for path, file in manifest.files.items():
        copied = folder / path
        if not copied.is_file():
            raise _invalid(f'file "{copied}" of a savepoint is missing', "")
        if copied.stat().st_size != file.bytes:
            size = f"It has {copied.stat().st_size:,} bytes instead of {file.bytes:,}."
            raise _invalid(f'file "{copied}" of a savepoint is cut off or longer than it was', size)
        if checksum(copied) != file.sha256:
            raise _invalid(f'file "{copied}" of a savepoint is not what was written', "Its checksum is another one.")


def checksum(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def copied(source: Path, target: Path) -> CopiedFile:
    """Copy a file, making folders where they are missing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = sha256(), 0
    with source.open("rb") as from_, target.open("wb") as to:
        while chunk := from_.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            to.write(chunk)
        to.flush()
        os.fsync(to.fileno())
    return CopiedFile(size, digest.hexdigest())


def _invalid(message: str, detail: str) -> ExecutionError:
    return ExecutionError(INVALID, message, detail=detail or None, hint=_HINT)
