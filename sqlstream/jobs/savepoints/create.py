"""Taking a savepoint: one epoch of a checkpoint, copied under a temporary name and then renamed."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pyspark import __version__ as spark_version

from sqlstream.connectors.files.ranges import ranges_to_copy
from sqlstream.connectors.receiving.spool import are_closed, spools_to_copy
from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.checkpoint import PLAN
from sqlstream.jobs.checkpoints.control import END_FILE
from sqlstream.jobs.checkpoints.fingerprint import LAYOUT_FILE as LAYOUT
from sqlstream.jobs.checkpoints.storage import LocalStorage, Storage, local_storage_at
from sqlstream.jobs.checkpoints.watermarks import WATERMARKS_FILE as WATERMARKS
from sqlstream.jobs.savepoints.epoch_files import files_of_epoch, last_epoch
from sqlstream.udfs.files.listed import RANGES
from sqlstream.udfs.texts import json_of
from sqlstream.version import __version__

# --- The manifest (savepoint.json), which is written last ------------------------------------------------------


INVALID = "SS428"

FILE = "savepoint.json"
VERSION = 1

_CHUNK = 1 << 20
_MOST_EPOCHS, _MOST_PARTITIONS = 1 << 63, 1 << 31
_HINT = "Copy the savepoint anew, or start from another one."


@dataclass(frozen=True)
class CopiedFile:
    """A file of a savepoint, with its size in bytes and its checksum."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The description of a savepoint. ``created`` is a time in UTC, ``partitions`` the number of shuffle partitions;
    ``drained``: the input was ended before the savepoint was taken.
    """

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
    """The manifest of a savepoint; None where there is none. Raises ExecutionError SS428 where it cannot be read."""
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
    """Returns the error SS428 for a file of a savepoint whose content is not what was written."""
    message = f'file "{path}" of a savepoint cannot be read'
    return ExecutionError(INVALID, message, detail=f"{type(error).__name__}: {error}", hint=_HINT)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``savepoint.json``, which makes the folder a savepoint."""
    with (folder / FILE).open("w", encoding="utf-8") as file:
        json.dump({"version": VERSION, **asdict(manifest)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def require_whole(folder: Path, manifest: Manifest) -> None:
    """Raises ExecutionError SS428 that names the first file that is missing, or differs from what was written."""
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
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def copied(source: Path, target: Path) -> CopiedFile:
    """Copies a file and returns the copy's size and checksum. Missing folders are created."""
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


NOT_TAKEN = "SS426"

OWN_FILES = (PLAN, LAYOUT, WATERMARKS)
"""What of a checkpoint beside Spark's goes into a savepoint; not the word of the run: who goes on is another one."""

_SETTING = "'execution.checkpointing.savepoint-dir'"


def create_savepoint(storage: Storage, target: str, job: str, *, drained: bool = False) -> str:
    """Copies the last epoch of a checkpoint into the new folder ``target`` and returns the folder's absolute path. No
    micro-batch may be running.

    ``job``: the job's name. ``drained``: the input was ended before. Raises ExecutionError SS426 where the checkpoint
    is not on this machine, has no complete epoch, or cannot be copied to ``target``.
    """
    if not isinstance(storage, LocalStorage):
        raise _not_taken(
            job, f"Its checkpoint {storage.location()} is not on this machine.", "Copy the checkpoint there."
        )
    try:
        folder = _target(target, job)
    except (OSError, ValueError) as error:
        raise _not_taken(job, str(error), "Give it another path.") from None
    epoch = last_epoch(storage.root / "spark")
    if epoch is None:
        raise _not_taken(job, "No micro-batch is complete yet.", "Wait until the first rows have been read.")
    if not are_closed(storage.root):
        raise _not_taken(job, "Messages are still received for it.", "Try again.")
    hidden = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    try:
        files = dict(_copied(storage.root, hidden, epoch))
        manifest = Manifest(
            job=job,
            checkpoint=str(storage.root),
            epoch=epoch,
            partitions=partitions_of(storage.root / "spark", epoch),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            drained=drained,
            sqlstream=__version__,
            spark=spark_version,
            files=files,
        )
        write_manifest(hidden, manifest)
        hidden.rename(folder)
    except OSError as error:
        raise _not_taken(job, str(error), "Look at the place and the permissions of the directory.") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return str(folder)


def default_savepoint(checkpoint: str, job: str, parent: str | None = None) -> str:
    """The path of a savepoint for which the user gave none: a new folder in ``parent``, or next to the checkpoint if
    that is None.
    """
    stamp = f"{job}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:4]}"
    return f"{savepoint_folder(checkpoint, parent)}/{stamp}"


def savepoint_folder(checkpoint: str, parent: str | None) -> str:
    """Where savepoints are for which the user gave no path."""
    return (parent or f"{checkpoint.rstrip('/')}/../savepoints").rstrip("/")


def epoch_of(root: Path, epoch: int) -> Iterator[str]:
    """Yields the paths, relative to the checkpoint directory ``root``, of all files that a job needs to continue after
    ``epoch``.
    """
    yield from (name for name in OWN_FILES if (root / name).is_file())
    yield from (str(path.relative_to(root)) for path in root.glob(f"control*/**/{END_FILE}"))
    yield from ranges_to_copy(root)
    yield from spools_to_copy(root)
    yield from (f"spark/{name}" for name in files_of_epoch(root / "spark", epoch))


def partitions_of(spark: Path, epoch: int) -> int:
    """Returns the number of shuffle partitions, which Spark stores with the offsets of an epoch. ``spark``: the folder
    of Spark's checkpoint.
    """
    lines = (spark / "offsets" / str(epoch)).read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[1])["conf"]["spark.sql.shuffle.partitions"])


def _copied(root: Path, target: Path, epoch: int) -> Iterator[tuple[str, CopiedFile]]:
    for name in epoch_of(root, epoch):
        try:
            file = copied(root / name, target / name)
        except FileNotFoundError:
            if not name.startswith(f"{RANGES}/"):
                raise
            continue  # the job has removed it: all of it was read
        yield name, file


def _target(target: str, job: str) -> Path:
    storage = local_storage_at(target)
    if storage is None:
        raise _not_taken(job, f"The path {target} is not on this machine.", f"Give a local path, or SET {_SETTING}.")
    folder = storage.root.resolve()
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise _not_taken(job, f"{folder} is there already.", "Give each savepoint a directory of its own.")
    return folder


def require_sink(job: str, has_sink: bool) -> None:
    """Raises ExecutionError SS426 for queries without a sink: no other job could continue where the caller stopped
    reading.
    """
    if not has_sink:
        raise _not_taken(job, "It is a query, whose rows go to its caller.", "Write INSERT INTO a table.")


def _not_taken(job: str, detail: str, hint: str) -> ExecutionError:
    return ExecutionError(NOT_TAKEN, f'no savepoint of job "{job}" could be taken', detail=detail, hint=hint)
