"""Which files of Spark's checkpoint make up one epoch, by their paths below it.

Layout: ``offsets/N`` and ``commits/N`` per micro-batch, ``sources/S/N`` and ``N.compact`` as logs of sources, and below
``state/operator/partition`` (and a store's name, where an operator has several) versions of state: ``V.zip`` or
``V.snapshot`` are whole, ``V.changelog`` or ``V.delta`` what has changed since V - 1. Micro-batch N leaves the version
N + 1. A zip of RocksDB lists the files of ``SSTs`` and ``logs`` that belong to it.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile

from sqlstream.jobs.checkpoints.checkpoint import PLAN, RUN
from sqlstream.jobs.checkpoints.fingerprint import LAYOUT_FILE as LAYOUT
from sqlstream.jobs.checkpoints.storage import (
    RESTORE_HINT,
    START_ANEW,
    LocalStorage,
    Storage,
    damaged,
    is_json,
    missing,
)
from sqlstream.jobs.records.record import read_record
from sqlstream.udfs.files.listed import RANGES, end_of_log, offsets_of
from sqlstream.udfs.texts import json_of

WHOLE = {".zip", ".snapshot"}
CHANGES = {".changelog", ".delta"}

_VERSION = re.compile(r"(\d+)(?:_[0-9a-f-]+)?(\.\w+)")
_LOGGED = re.compile(r"(\d+)(\.compact)?")


def last_epoch(spark: Path) -> int | None:
    """The number of the last complete micro-batch in ``spark``, the folder of Spark's checkpoint; None if there is
    none.
    """
    complete = set(_numbers(spark / "commits")) & set(_numbers(spark / "offsets"))
    return max(complete, default=None)


def files_of_epoch(spark: Path, epoch: int) -> tuple[str, ...]:
    """The files of Spark's checkpoint (the folder ``spark``) that a query needs to continue after the micro-batch
    ``epoch``, sorted.
    """
    return tuple(sorted({"metadata", *_logs(spark, epoch), *_sources(spark, epoch), *_state(spark, epoch)}))


def newest(folder: Path) -> int:
    """Returns the highest number among the file names in ``folder``, the log of Spark's offsets or commits; -1 if there
    is none.
    """
    return max(_numbers(folder), default=-1)


def _numbers(folder: Path) -> list[int]:
    return [int(p.name) for p in folder.iterdir() if p.name.isdecimal()] if folder.is_dir() else []


def _logs(spark: Path, epoch: int) -> Iterator[str]:
    """Spark reads the offsets before the last ones, too: where the last micro-batch began."""
    for folder in ("offsets", "commits"):
        yield from (f"{folder}/{n}" for n in _numbers(spark / folder) if n in (epoch - 1, epoch))


# --- sources --------------------------------------------------------------------------------------------------


def _sources(spark: Path, epoch: int) -> Iterator[str]:
    lines, folders = offsets_of(spark, epoch), _folders(spark / "sources")
    for folder, line in zip(folders, _lines_of(folders, _histories(spark, len(lines))), strict=True):
        offset = lines[line] if line < len(lines) else "-"
        for name in _of_source(folder, offset):
            yield f"sources/{folder.name}/{name}"


def _histories(spark: Path, lines: int) -> list[tuple[str, ...]]:
    """The history of each line of offsets, newest first, over the known micro-batches of this query."""
    offsets_of_batches = (offsets_of(spark, n) for n in sorted(_numbers(spark / "offsets"), reverse=True))
    return [*zip(*(offsets for offsets in offsets_of_batches if len(offsets) == lines), strict=True)]


def _lines_of(folders: list[Path], histories: list[tuple[str, ...]]) -> list[int]:
    """The line of offsets for each folder of a source.

    Sources are numbered as they come first in a query; one that a query reads in several places, as a statement set
    does, has a line for each. Lines that have always been equal are taken for those of one source, unless there are
    more sources than that leaves: then the newest entries of their logs tell. Sources of which nothing tells which is
    which have been read as far as each other.
    """
    sources = max((int(folder.name) for folder in folders), default=-1) + 1
    first = sorted({history: line for line, history in reversed([*enumerate(histories)])}.values())
    if len(histories) <= sources:
        return [int(folder.name) for folder in folders]
    if len(first) >= sources:
        return [first[int(folder.name)] for folder in folders]
    lines: list[int] = []
    for folder in folders:
        after = lines[-1] + 1 if lines else 0
        ends = {newest_entry(folder), newest_entry(folder) - 1}  # an entry comes before its offsets
        fits = [line for line in range(after, len(histories)) if (end_of_log(histories[line][0]) or 0) in ends]
        lines.append(fits[0] if fits else after)
    return lines


def newest_entry(folder: Path) -> int:
    """The number of the last entry in the log of a source; -1 if there is none."""
    names = (_LOGGED.fullmatch(path.name) for path in folder.iterdir())
    return max((int(name[1]) for name in names if name is not None), default=-1)


def _of_source(folder: Path, offset: str) -> list[str]:
    """All files of a source; of a log of files only what the epoch knows, or Spark takes the rest for read."""
    names = [p.name for p in folder.iterdir() if p.is_file() and not _is_checksum(p.name)]
    end = end_of_log(offset)
    if end is None and not any(map(_is_log_of_files, (folder / name for name in names))):
        return names
    logged = [
        name for name in names if (match := _LOGGED.fullmatch(name)) and int(match[1]) <= (-1 if end is None else end)
    ]
    return logged if _is_whole(logged, end) else names


def _is_log_of_files(path: Path) -> bool:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return len(lines) > 1 and lines[1].startswith('{"path":')


def _is_whole(names: list[str], end: int | None) -> bool:
    """False where Spark has compacted entries into a file that lies behind the end."""
    if end is None:
        return True
    last = max((int(n.removesuffix(".compact")) for n in names if n.endswith(".compact")), default=-1)
    return all(str(n) in names for n in range(last + 1, end + 1))


# --- state ----------------------------------------------------------------------------------------------------


def _state(spark: Path, epoch: int) -> Iterator[str]:
    for operator in _folders(spark / "state"):
        partitions = _folders(operator)
        stores = (p for partition in partitions for p in (partition, *_subfolders(partition)) if not _is_hidden(p))
        for store in stores:
            yield from (str((store / name).relative_to(spark)) for name in _of_store(store, epoch + 1))
        for described in (operator, *partitions):
            yield from (str(p.relative_to(spark)) for p in _descriptions(described, epoch))


def _descriptions(folder: Path, epoch: int) -> Iterator[Path]:
    """Spark's descriptions of operators and of the schemas of their state; their versions are numbers of
    micro-batches."""
    for hidden in filter(_is_hidden, _subfolders(folder)):
        files = (p for p in hidden.rglob("*") if p.is_file() and not _is_checksum(p.name))
        yield from (p for p in files if hidden.name != "_metadata" or not p.name.isdecimal() or int(p.name) <= epoch)


def _of_store(store: Path, version: int) -> Iterator[str]:
    """The newest whole version up to ``version``, and all changes since."""
    versions: dict[str, int] = {}
    for path in store.iterdir():
        match = _VERSION.fullmatch(path.name)
        if match is not None and path.is_file() and match[2] in WHOLE | CHANGES and int(match[1]) <= version:
            versions[path.name] = int(match[1])
    whole = max((n for name, n in versions.items() if Path(name).suffix in WHOLE), default=0)
    for name, number in versions.items():
        if Path(name).suffix in WHOLE and number == whole:
            yield name
            yield from _of_zip(store / name)
        elif Path(name).suffix in CHANGES and number > whole:
            yield name


def _of_zip(path: Path) -> Iterator[str]:
    """The files beside a zip of RocksDB that hold its data."""
    if path.suffix != ".zip":
        return
    with zipfile.ZipFile(path) as archive:
        lines = archive.read("metadata").decode().splitlines()
    index = json_of(lines[-1])
    yield from (f"SSTs/{f['dfsSstFileName']}" for f in index.get("sstFiles") or ())
    yield from (f"logs/{f['dfsLogFileName']}" for f in index.get("logFiles") or ())


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder whose names are numbers, in order."""
    folders = [p for p in folder.iterdir() if p.is_dir() and p.name.isdecimal()] if folder.is_dir() else []
    return sorted(folders, key=lambda p: int(p.name))


def _subfolders(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_dir()]


def _is_hidden(folder: Path) -> bool:
    return folder.name.startswith("_")


def _is_checksum(name: str) -> bool:
    return name.startswith(".") or name.endswith(".crc")


# --- Damaged files ---------------------------------------------------------------------------------------------
# Spark's file system writes a hidden file of checksums beside each file (Hadoop's ``ChecksumFileSystem``): one CRC32
# for each 512 bytes. Their number and the last one tell a file that has been cut off, however large it is, for the
# price of two small reads; what is damaged in the middle Spark finds when it reads it. Files without checksums, those
# of restored savepoints, are checked as far as they are logs, whose lines are JSON.


_HEADER = 8
_MAGIC = b"crc\0"
_REPEAT = f"Remove it and its checksums: the micro-batch runs again. Or {START_ANEW}."


def require_whole_checkpoint(storage: Storage) -> None:
    """Raises ExecutionError SS459 that names the first file of a checkpoint that is missing or truncated.

    Checkpoints on other machines are not checked: their file systems have checksums and copies of their own.
    """
    if isinstance(storage, LocalStorage) and newest(storage.root / "spark" / "offsets") >= 0:
        if not (storage.root / PLAN).is_file():
            raise missing(storage.root / PLAN)
        _require_logs(storage.root / "spark")
        _require_epoch(storage.root / "spark")
        _require_control(storage.root)
        _require_ranges(storage.root)


def require_begun_files(storage: Storage) -> None:
    """Raises ExecutionError SS459 that names a missing file, if the checkpoint's record says that its job has begun.

    Without one of these files the job would start from the beginning, or number its micro-batches like another job's.
    """
    record = read_record(storage)
    if record is None or not record.id or not record.life.kept:
        return
    for name in (PLAN, LAYOUT, RUN, "spark/metadata"):
        if storage.read(name) is None:
            raise missing(storage.location(name).removeprefix("file://"))
    if not isinstance(storage, LocalStorage):
        return
    if record.life.progress.last_batch >= 0 and newest(storage.root / "spark" / "offsets") < 0:
        raise missing(storage.root / "spark" / "offsets")


def _require_logs(spark: Path) -> None:
    """The offsets of micro-batches and what says that they are complete: the newest ones, and none that is missing."""
    _require_file(spark / "metadata")
    offsets, commits = newest(spark / "offsets"), newest(spark / "commits")
    if commits > offsets:
        raise missing(spark / "offsets" / str(commits))
    if offsets > commits + 1:
        raise missing(spark / "commits" / str(offsets - 1))
    for number in range(max(commits, 0), offsets + 1):
        _require_file(spark / "offsets" / str(number))
    if commits >= 0:
        _require_file(spark / "commits" / str(commits), _REPEAT)


def _require_epoch(spark: Path) -> None:
    """The other files of the last complete micro-batch must be there: logs of sources and state."""
    epoch = last_epoch(spark)
    if epoch is None:
        return
    try:
        names = files_of_epoch(spark, epoch)
    except (ValueError, KeyError, OSError, IndexError, UnicodeError, BadZipFile):
        names = tuple(str(p.relative_to(spark)) for p in sorted(spark.rglob("*")) if p.is_file() and p.name[0] != ".")
    for name in names:
        _require_file(spark / name)
    for log in (spark / "sources").glob("*/[0-9]*"):  # one may be behind the epoch, and is read all the same
        _require_file(log)


def _require_control(root: Path) -> None:
    for path in (*root.glob("control/*/*.json"), *root.glob("control-clock/*.json")):
        if path.name[0] != "." and not is_json(path.read_bytes()):
            raise damaged(path, "It is no JSON.")


def _require_ranges(root: Path) -> None:
    for path in root.glob(f"{RANGES}/*/*/[!.]*"):
        text = path.read_bytes()
        if not text.endswith(b"\n") or not is_json(text.splitlines()[-1]):
            raise damaged(path, "It ends within a line.")


def _require_file(path: Path, hint: str = RESTORE_HINT) -> None:
    if not path.is_file():
        raise missing(path)
    sums = _checksums(path)
    if sums is not None:
        if not _fits(path, *sums):
            raise damaged(path, f"It has {path.stat().st_size:,} bytes, which do not fit its checksums.", hint)
    elif path.parent.name in ("offsets", "commits", "spark"):
        lines = path.read_bytes().splitlines()
        if not lines or (lines[-1] not in (b"-", b"0") and not is_json(lines[-1])):
            raise damaged(path, "Its last line is no JSON.", hint)


def _checksums(path: Path) -> tuple[int, bytes] | None:
    """The bytes that a checksum is of, and all checksums; None where there are none."""
    try:
        text = path.with_name(f".{path.name}.crc").read_bytes()
    except FileNotFoundError:
        return None
    if len(text) < _HEADER or not text.startswith(_MAGIC):
        return None  # Spark, too, reads the file without them then
    return int.from_bytes(text[4:_HEADER], "big"), text[_HEADER:]


def _fits(path: Path, chunk: int, sums: bytes) -> bool:
    size = path.stat().st_size
    count = -(-size // chunk)
    if len(sums) != 4 * count:
        return False
    if not count:
        return True
    with path.open("rb") as file:
        file.seek((count - 1) * chunk)
        return zlib.crc32(file.read()) == int.from_bytes(sums[-4:], "big")
