"""Taking a savepoint: one epoch of a checkpoint, copied under a temporary name and then renamed."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pyspark import __version__ as spark_version

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.checkpoint import PLAN
from sqlstream.jobs.checkpoints.control import END_FILE
from sqlstream.jobs.checkpoints.storage import LocalStorage, Storage, local_storage_at
from sqlstream.jobs.checkpoints.watermarks import FILE as WATERMARKS
from sqlstream.jobs.identity.layout import FILE as LAYOUT
from sqlstream.jobs.savepoints.epoch_files import files_of_epoch, last_epoch
from sqlstream.jobs.savepoints.manifest import CopiedFile, Manifest, copied, write_manifest
from sqlstream.version import __version__

NOT_TAKEN = "SS426"

OWN_FILES = (PLAN, LAYOUT, WATERMARKS)
"""What of a checkpoint beside Spark's goes into a savepoint; not the word of the run: who goes on is another one."""

_SETTING = "'execution.checkpointing.savepoint-dir'"


def create_savepoint(storage: Storage, target: str, job: str, *, drained: bool = False) -> str:
    """Copy the last epoch of a checkpoint, which nobody writes to meanwhile, to ``target``; its absolute path.

    ExecutionError SS426 where nothing can be copied, or not to there.
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
    """The path of a savepoint that has been given none: below ``parent``, else beside the checkpoint."""
    stamp = f"{job}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:4]}"
    above = parent or f"{checkpoint.rstrip('/')}/../savepoints"
    return f"{above.rstrip('/')}/{stamp}"


def epoch_of(root: Path, epoch: int) -> Iterator[str]:
    """The files of a checkpoint directory that make up an epoch, by their paths below it."""
    yield from (name for name in OWN_FILES if (root / name).is_file())
    yield from (str(path.relative_to(root)) for path in root.glob(f"control*/**/{END_FILE}"))
    yield from (f"spark/{name}" for name in files_of_epoch(root / "spark", epoch))


def partitions_of(spark: Path, epoch: int) -> int:
    """The partitions of shuffles, which Spark keeps with the offsets."""
    lines = (spark / "offsets" / str(epoch)).read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[1])["conf"]["spark.sql.shuffle.partitions"])


def _copied(root: Path, target: Path, epoch: int) -> Iterator[tuple[str, CopiedFile]]:
    for name in epoch_of(root, epoch):
        yield name, copied(root / name, target / name)


def _target(target: str, job: str) -> Path:
    storage = local_storage_at(target)
    if storage is None:
        raise _not_taken(job, f"The path {target} is not on this machine.", f"Give a local path, or SET {_SETTING}.")
    folder = storage.root.resolve()
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise _not_taken(job, f"{folder} is there already.", "Give each savepoint a directory of its own.")
    return folder


def require_sink(job: str, has_sink: bool) -> None:
    """ExecutionError SS426 for queries on their own: nothing could go on where a caller has stopped to read."""
    if not has_sink:
        raise _not_taken(job, "It is a query, whose rows go to its caller.", "Write INSERT INTO a table.")


def _not_taken(job: str, detail: str, hint: str) -> ExecutionError:
    return ExecutionError(NOT_TAKEN, f'no savepoint of job "{job}" could be taken', detail=detail, hint=hint)
