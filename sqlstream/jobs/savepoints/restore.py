"""Starting from a savepoint, or from the checkpoint of another job: its epoch becomes a new checkpoint."""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.checkpoint import PLAN, require_compatible
from sqlstream.jobs.checkpoints.control import END_FILE
from sqlstream.jobs.checkpoints.fingerprint import FingerprintPart, StateLayout, require_same, stored_layout
from sqlstream.jobs.checkpoints.own_files import remove_checkpoint
from sqlstream.jobs.checkpoints.storage import LocalStorage, local_storage_at, storage_at, write_errors_reported
from sqlstream.jobs.checkpoints.trust import require_trusted
from sqlstream.jobs.records.record import read_record
from sqlstream.jobs.savepoints.create import (
    OWN_FILES,
    copied,
    epoch_of,
    partitions_of,
    read_manifest,
    require_whole,
    unreadable,
)
from sqlstream.jobs.savepoints.epoch_files import last_epoch, require_whole_checkpoint
from sqlstream.spark.running import is_connect
from sqlstream.udfs.files.listed import RANGES
from sqlstream.udfs.spool import RECEIVED
from sqlstream.udfs.texts import json_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# --- File names in manifests: each must stay inside its folder -------------------------------------------------


LEADS_OUT = "SS418"

_FOLDERS = ("spark", "control", "control-clock", "control-end", RANGES, RECEIVED)
_HINT = "Do not use it: no savepoint that sqlstream has written is like that. Start from another one."


def require_confined(folder: Path, names: Iterable[str]) -> None:
    """Checks the ``names`` of the files to copy from a savepoint. Raises ExecutionError SS418 for a file that is
    outside of the folder, by name or by link, for one that is not part of any savepoint, and for an archive with such
    names.
    """
    root = folder.resolve()
    for name in names:
        first, *rest = PurePosixPath(name).parts or ("",)
        is_own = name in OWN_FILES or (first in _FOLDERS and rest)
        if not is_own or not _is_plain(name) or not _is_inside(folder / name, root):
            raise _leads_out(folder, name)
        if name.endswith(".zip") and (folder / name).is_file():
            require_inside(folder / name, _in_archive(folder / name))


def require_inside(file: Path, names: Iterable[str]) -> None:
    """Raises ExecutionError SS418 if one of the ``names``, which the content of ``file`` mentions, leads out of its
    folder.
    """
    for name in names:
        if not _is_plain(name):
            raise _leads_out(file, name)


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return str(path) == name and "\0" not in name and not path.is_absolute() and not {".", ".."} & {*path.parts}


def _is_inside(file: Path, root: Path) -> bool:
    """False also of names that no file can have here: too long ones, and such of surrogates."""
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            file.stat()
        return file.resolve().is_relative_to(root)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a link to itself
        return False


def _in_archive(path: Path) -> list[str]:
    """The names in an archive; none if it is no archive, which Spark notices when it reads it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return []


def _leads_out(where: Path, name: str) -> ExecutionError:
    message = f'"{name}" in "{where}" is no name of a file of a savepoint'
    return ExecutionError(LEADS_OUT, message, detail="It would be read or written somewhere else.", hint=_HINT)


# --- Another number of partitions ------------------------------------------------------------------------------


NOT_SPREAD = "SS457"

_REPARTITION_HINT = "RESET 'parallelism.default' to keep the partitions of the savepoint; cores may differ in any case."


def repartition(spark: SparkSession, storage: LocalStorage, partitions: int) -> None:
    """Redistribute the state of a checkpoint to ``partitions`` partitions. Raises ExecutionError SS457 where Spark
    cannot.
    """
    message = f"the state of the savepoint cannot be spread over {partitions} partitions"
    if is_connect(spark):
        raise ExecutionError(
            NOT_SPREAD, message, detail="Spark Connect has no way to ask for it.", hint=_REPARTITION_HINT
        )
    try:
        spark._streamingCheckpointManager.repartition(storage.location("spark"), partitions)
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise ExecutionError(NOT_SPREAD, message, detail=reason, hint=_REPARTITION_HINT) from error


OWN_CHECKPOINT = "SS427"
DRAINED = "SS429"
NO_SAVEPOINT = "SS455"
NOT_LOCAL = "SS456"
STILL_RUNS = "SS458"

_SETTING = "'execution.state-recovery.path'"
_RESET = f"RESET {_SETTING}"


PartsOf = Callable[[StateLayout | None], tuple[FingerprintPart, ...]]


@dataclass(frozen=True)
class RestoreOrigin:
    """The savepoint or checkpoint from which a job starts: its directory, and the files of one epoch."""

    folder: Path
    what: str
    epoch: int
    partitions: int
    files: tuple[str, ...]
    drained: bool = False


def restore(
    source: str,
    target: str,
    parts_of: PartsOf,
    spark: SparkSession,
    engine: str,
    key_groups: int | None,
    partitions: int | None = None,
    *,
    trusted: bool = True,
) -> int:
    """Copies an epoch of the savepoint or checkpoint ``source`` to ``target``, as the checkpoint of a new job, and
    returns the epoch's number. After an error nothing is left at ``target``.

    ``parts_of`` gets a layout of state (None: that of a checkpoint older than layouts) and returns the fingerprint of
    the job's plan with it. ``engine``, ``key_groups``: the layout that the settings require. ``partitions``: the new
    number of state partitions, None for the present one. ``trusted``: files of any owner are accepted.

    Raises ExecutionError SS427 where ``target`` has a checkpoint already; SS428 and SS455 where the source is no
    savepoint or checkpoint, SS418 where its file names lead out of it, SS419 where its files have another owner, SS429
    where its input has ended, SS421, SS424 and SS425 where its state is not the plan's, SS458 where it is the
    checkpoint of a running job; SS456 where files are not on this machine, SS457 where the state cannot be
    redistributed, SS416 and SS465 where files cannot be written.
    """
    storage = storage_at(target, spark)
    if not isinstance(storage, LocalStorage):
        raise _not_local(target)
    _require_new(storage, target)
    origin = origin_at(source)
    _require_fits(origin, parts_of, engine, key_groups)
    if not trusted:
        require_trusted(LocalStorage(origin.folder), origin.what)
    remove_checkpoint(storage)  # what was copied before is no checkpoint without its plan
    try:
        with write_errors_reported(storage.root):
            _fill(storage.root, origin)
        epoch = origin.epoch
        if partitions not in (None, origin.partitions) and any((storage.root / "spark/state").glob("[0-9]*")):
            repartition(spark, storage, partitions)
            last = last_epoch(storage.root / "spark")
            assert last is not None, "the savepoint had an epoch"
            epoch = last
        storage.write(PLAN, (origin.folder / PLAN).read_text(encoding="utf-8"))  # the last: now it is a checkpoint
    except BaseException:
        with suppress(ExecutionError):
            remove_checkpoint(storage)
        raise
    return epoch


def origin_at(source: str) -> RestoreOrigin:
    """Returns the savepoint or checkpoint at ``source``, from which a job is to start, after checking its files. Raises
    ExecutionError SS428 and SS459 for missing or damaged files, SS418 for file names that lead out of the folder, SS455
    where there is no savepoint or checkpoint, SS456 where it is not on this machine, SS458 where its job is running.
    """
    storage = local_storage_at(source)
    if storage is None:
        raise _not_local(source)
    manifest = read_manifest(storage.root)
    if manifest is not None:
        files = tuple(manifest.files)
        require_confined(storage.root, files)
        require_whole(storage.root, manifest)
        return RestoreOrigin(storage.root, "savepoint", manifest.epoch, manifest.partitions, files, manifest.drained)
    epoch = last_epoch(storage.root / "spark")
    if epoch is None or not (storage.root / PLAN).is_file():
        detail = "It has no savepoint.json." if storage.root.is_dir() else "The directory does not exist."
        hint = f"SET {_SETTING} = '…' to the path that SAVEPOINT JOB or STOP JOB … WITH SAVEPOINT has told."
        raise ExecutionError(
            NO_SAVEPOINT, f'"{source}" is neither a savepoint nor a checkpoint', detail=detail, hint=hint
        )
    _require_ended(storage)
    require_whole_checkpoint(storage)
    partitions = partitions_of(storage.root / "spark", epoch)
    files = tuple(epoch_of(storage.root, epoch))
    require_confined(storage.root, files)
    drained = any(Path(file).name == END_FILE for file in files)
    return RestoreOrigin(storage.root, "checkpoint", epoch, partitions, files, drained)


def _require_ended(storage: LocalStorage) -> None:
    """Files of the checkpoint of a running job come and go."""
    record = read_record(storage)
    if record is not None and record.is_running:
        message = f'the checkpoint "{storage.root}" is that of the job "{record.name}", which runs'
        hint = "Start from a savepoint of it (SAVEPOINT JOB), or stop it first."
        raise ExecutionError(STILL_RUNS, message, hint=hint)


def _require_new(storage: LocalStorage, target: str) -> None:
    if storage.read(PLAN) is not None:
        message = f'the job has a checkpoint of its own, "{target}", and cannot start from another one'
        hint = f"{_RESET} to go on from it, or give the job a new 'pipeline.name' or 'execution.checkpointing.dir'."
        raise ExecutionError(OWN_CHECKPOINT, message, hint=hint)


def _require_fits(origin: RestoreOrigin, parts_of: PartsOf, engine: str, key_groups: int | None) -> None:
    layout = stored_layout(LocalStorage(origin.folder))
    plan = parts_of(layout)
    require_compatible(str(origin.folder), (origin.folder / PLAN).read_text(encoding="utf-8"), plan, origin.what)
    if layout is not None:
        require_same(str(origin.folder), layout, engine, key_groups)
    if origin.drained and any(operator.kind != "source" for operator in plan):
        how = "was taken with DRAIN" if origin.what == "savepoint" else "is that of a job whose input has ended"
        message = f'{origin.what} "{origin.folder}" {how}: all of its windows and timers have fired'
        hint = f"Start from one of a job that has not ended its input, or anew: {_RESET}."
        raise ExecutionError(
            DRAINED, message, detail="Its time is at an end, and all rows to come would be late.", hint=hint
        )


def _fill(root: Path, origin: RestoreOrigin) -> None:
    for name in origin.files:
        if name != PLAN:
            copied(origin.folder / name, root / name)
    (root / "spark/metadata").write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")  # another query
    _move_schemas(root / "spark", (root / "spark/state").glob("*/_metadata/v2/*"))


def _move_schemas(spark: Path, files: Iterable[Path]) -> None:
    """Spark keeps absolute paths of the schemas of state; they become those of the new place."""
    for file in files:
        try:
            version, text = file.read_text(encoding="utf-8").split("\n", 1)
            document = json_of(text)
            for store in document["stateStoreInfo"]:
                names = [path.rpartition("/state/")[2] for path in store.get("stateSchemaFilePaths", [])]
                require_inside(file, names)
                store["stateSchemaFilePaths"] = [f"file:{spark}/state/{name}" for name in names]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise unreadable(file, error) from error
        file.write_text(f"{version}\n{json.dumps(document)}", encoding="utf-8")


def _not_local(path: str) -> ExecutionError:
    message = f'"{path}" is not on this machine, where jobs start from savepoints'
    return ExecutionError(NOT_LOCAL, message, hint="Copy the savepoint to a local path or to a mounted one.")
