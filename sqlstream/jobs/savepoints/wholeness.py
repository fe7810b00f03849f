"""Whether the files are whole that a job goes on from, looked at before Spark reads any of them.

Spark's file system writes a hidden file of checksums beside each file (Hadoop's ``ChecksumFileSystem``): one CRC32 for
each 512 bytes. Their number and the last one tell a file that has been cut off, however large it is, for the price of
two small reads; what is damaged in the middle Spark finds when it reads it. Files without checksums, those of restored
savepoints, are checked as far as they are logs, whose lines are JSON.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from zipfile import BadZipFile

from sqlstream.jobs.checkpoints.checkpoint import PLAN, RUN
from sqlstream.jobs.checkpoints.damage import ANEW, HINT, damaged, is_json, missing
from sqlstream.jobs.checkpoints.storage import LocalStorage, Storage
from sqlstream.jobs.identity.layout import FILE as LAYOUT
from sqlstream.jobs.records.record import read_record
from sqlstream.jobs.savepoints.epoch_files import files_of_epoch, last_epoch, newest

_HEADER = 8
_MAGIC = b"crc\0"
_REPEAT = f"Remove it and its checksums: the micro-batch runs again. Or {ANEW}."


def require_whole_checkpoint(storage: Storage) -> None:
    """ExecutionError SS459 that names the first file of a checkpoint that is missing or cut off.

    Only on this machine: elsewhere file systems have checksums and copies of their own.
    """
    if isinstance(storage, LocalStorage) and newest(storage.root / "spark" / "offsets") >= 0:
        if not (storage.root / PLAN).is_file():
            raise missing(storage.root / PLAN)
        _require_logs(storage.root / "spark")
        _require_epoch(storage.root / "spark")
        _require_control(storage.root)


def require_begun_files(storage: Storage) -> None:
    """ExecutionError SS459 that names what is missing of a checkpoint of which the record says that a job has begun.

    Without one of these files the job would begin anew, or count its micro-batches as those of another one.
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


def _require_file(path: Path, hint: str = HINT) -> None:
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
