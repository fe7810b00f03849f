"""The sink of ``filesystem``: Spark's exactly-once file sink, a folder per micro-batch, or one file of current rows."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlstream.connectors.connector import PATH_ERROR, SinkWriteRange
from sqlstream.connectors.file_tables import is_hidden, local_path, shown_path, unusable
from sqlstream.errors import ConnectorError, ExecutionError, SqlStreamError, repeating
from sqlstream.planner.catalog import Table
from sqlstream.secrets import shown_value

if TYPE_CHECKING:
    pass


def truncate_directory(table: Table) -> None:
    """Removes the contents of a table's directory. Raises ConnectorError SS508 if the path is not a directory on this
    machine.
    """
    path = table.option("path") or ""
    local = local_path(path)
    if local is None or glob.has_magic(local) or Path(local).is_file():
        message = f'path "{shown_value("path", path)}" of table "{table.name}" is no directory of this machine'
        raise ConnectorError(PATH_ERROR, message, hint="Remove the files where they are.")
    try:
        for entry in [*Path(local).iterdir()] if Path(local).exists() else []:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    except OSError as error:
        raise SqlStreamError.of([unusable(table, local, error)]) from None


def require_directory_above(local: str, table: Table) -> None:
    """Raises ConnectorError SS508 where a parent of the table's path is a file instead of a directory."""
    above = next(parent for parent in Path(local).absolute().parents if parent.exists())
    if not above.is_dir():
        message = f'path "{shown_path(local)}" of table "{table.name}" cannot be used: "{above}" is no directory'
        raise ConnectorError(PATH_ERROR, message, hint='Correct the option "path".')


# --- checks of a directory when a job continues ----------------------------------------------------------------

SINK_LOG_GONE = repeating("SS420")
OTHER_SINK = "SS434"

_LOOKS = 3
_PAUSE_SECONDS = 0.1
"""Spark may be replacing entries by a compact one, so a missing entry is looked for again."""


def require_log(table: Table, folder: Path, written: SinkWriteRange | None, after: int, streamed: bool) -> None:
    """Checks a directory before a job continues writing to it. Raises SS508 where it has files of another job, SS420 or
    SS434 where the files or the log of this job are missing or were written in another way.

    ``written``: the micro-batches that the job has written there; None if none. ``after``: the last complete
    micro-batch of the checkpoint. ``streamed``: Spark's file sink writes the directory and keeps a log of valid files
    in it; otherwise each micro-batch has a folder.
    """
    there = folder.is_dir() and any(not is_hidden(path.name) and _is_or_holds_file(path) for path in folder.iterdir())
    logged, batches = (newest_logged(folder), newest_folder(folder)) if folder.is_dir() else (None, None)
    nothing_logged = logged is None and batches is None
    if written is None:
        if there or not nothing_logged:
            raise not_empty(table, folder)
        return
    if batches is not None if streamed else logged is not None:
        raise _written_otherwise(table, folder, streamed)
    until = after if written.until is None else written.until
    if streamed and ((there and nothing_logged) or (written.since < until and (logged is None or logged < until))):
        raise _log_gone(table, folder, until)


def holds_files(folder: Path) -> bool:
    """True where there is a file below the folder. Empty folders, such as ALTER TABLE … ADD PARTITION makes, do not
    count.
    """
    return any(path.is_symlink() or not path.is_dir() for path in folder.rglob("*"))


def _is_or_holds_file(path: Path) -> bool:
    return not path.is_dir() or path.is_symlink() or holds_files(path)


def require_logged(table: Table, folder: Path, batch: int) -> None:
    """Raises ExecutionError SS420 where Spark's log in the directory lacks micro-batch ``batch``. I/O errors are
    ignored.
    """
    for _ in range(_LOOKS):
        try:
            logged = newest_logged(folder)
        except OSError:
            return
        if logged is not None and logged >= batch - 1:  # between micro-batches, the number is that of the next
            return
        time.sleep(_PAUSE_SECONDS)
    raise _log_gone(table, folder, batch)


def _log_gone(table: Table, folder: Path, batch: int) -> ExecutionError:
    message = f'"{folder / LOG}" of table "{table.name}" does not tell of its files up to micro-batch {batch}'
    detail = "It says which files count; without it, rows that are written already would be in the table no longer."
    hint = (
        "Give it back from a copy. Else keep the files elsewhere, and let the job write what comes now to another, "
        "empty directory."
    )
    return ExecutionError(SINK_LOG_GONE, message, detail=detail, hint=hint)


def _written_otherwise(table: Table, folder: Path, streamed: bool) -> ExecutionError:
    """SS434: a reader uses the log if there is one, else folders, and so sees only a part of the rows."""
    ways = (f'the log "{LOG}"', 'folders "sqlstream_batch=…"')
    before, now = reversed(ways) if streamed else ways
    message = f'path "{folder}" of table "{table.name}" holds {before}, and the query now writes {now}'
    detail = (
        "Statement sets, and queries with LATE DATA TO or ON ERROR TO, write folders. Readers see one of both only."
    )
    return ExecutionError(OTHER_SINK, message, detail=detail, hint="Let the query write to another, empty directory.")


def not_empty(table: Table, folder: Path) -> ConnectorError:
    """Returns the error SS508 for a directory that already has files of another job."""
    message = f'path "{folder}" of table "{table.name}" is not an empty directory'
    hint = "Each job writes to a directory of its own: remove the files of the earlier one or change the path."
    return ConnectorError(PATH_ERROR, message, hint=hint)


# --- the log of Spark's file sink -----------------------------------------------------------------------------

# ``_spark_metadata`` has an entry per micro-batch. Each tenth is a compact one, for which Spark needs all entries since
# the previous compact one (``CompactibleFileStreamLog``). Spark skips micro-batches that the log has already. A job
# that continues in another directory, or after a gap, must begin the log anew.

LOG = "_spark_metadata"

_BATCH = re.compile(r"sqlstream_batch=(\d+)")
_HEADER = "v1"
_COMPACT = ".compact"
_IN_PATHS = "/!$&'()*+,;=:@"  # what Java leaves as it is
_BLOCK_SIZE = 1 << 25  # of local files, for Hadoop
_INTERVAL = 10  # Spark's default of spark.sql.streaming.fileSink.log.compactInterval


def newest_batch(folder: Path) -> int | None:
    """Returns the number of the last micro-batch written into a directory; None where there is none."""
    newest = (newest_logged(folder), newest_folder(folder))
    return max((number for number in newest if number is not None), default=None)


def newest_logged(folder: Path) -> int | None:
    """Returns the last micro-batch in Spark's log of a directory. None without a log, or if entries after the last
    compact one are missing.
    """
    entries = _entries(folder / LOG)
    newest = max(entries, default=-1)
    start = max((n for n, name in entries.items() if name.endswith(_COMPACT)), default=0)
    return newest if newest >= 0 and all(n in entries for n in range(start, newest + 1)) else None


def newest_folder(folder: Path) -> int | None:
    """Returns the number of the last micro-batch that has a folder of its own; None where there is none."""
    return max((int(match[1]) for path in folder.iterdir() if (match := _BATCH.fullmatch(path.name))), default=None)


def begin_after(folder: Path, batch: int) -> None:
    """Adds empty entries to Spark's log up to micro-batch ``batch``, so that Spark's file sink continues with the next
    one.
    """
    log = folder / LOG
    entries = _entries(log)
    newest = max(entries, default=-1)
    if newest >= batch:
        return
    log.mkdir(parents=True, exist_ok=True)
    if newest < 0:
        whole = (batch + 1) // _INTERVAL * _INTERVAL - 1
        if whole >= 0:
            _write(log, f"{whole}{_COMPACT}", [])
        newest = whole
    interval = _interval(entries)
    for number in range(newest + 1, batch + 1):
        if (number + 1) % interval == 0:
            _write(log, f"{number}{_COMPACT}", _known(log))
        else:
            _write(log, str(number), [])


def log_batch(folder: Path, batch: int, files: Sequence[tuple[Path, int, int]]) -> None:
    """Adds the entry of micro-batch ``batch``, the one after the newest, to Spark's log of a directory, by one step of
    the file system. ``files``: their paths, sizes in bytes, and modification times in milliseconds.
    """
    log = folder / LOG
    log.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(_entry(*file), separators=(",", ":")) for file in files]
    is_compact = (batch + 1) % _interval(_entries(log)) == 0
    name, whole = (f"{batch}{_COMPACT}", [*_known(log), *lines]) if is_compact else (str(batch), lines)
    next_ = log / f".{name}.tmp"
    with next_.open("w", encoding="utf-8") as file:
        file.write("\n".join([_HEADER, *whole]))
        file.flush()
        os.fsync(file.fileno())
    next_.rename(log / name)


def _entry(path: Path, size: int, modified: int) -> dict[str, object]:
    """A file as Spark's ``SinkFileStatus``."""
    place = {
        "path": f"file://{quote(str(path), safe=_IN_PATHS)}",
        "size": size,
        "isDir": False,
        "modificationTime": modified,
    }
    return place | {"blockReplication": 1, "blockSize": _BLOCK_SIZE, "action": "add"}


def logged_lines(folder: Path) -> list[str]:
    """Returns the JSON lines of Spark's log, one per valid file; empty without a log."""
    return [line for line in _known(folder / LOG) if line]


def _entries(log: Path) -> dict[int, str]:
    """The names of entries by number; where a number has a compact and a plain one, the compact."""
    if not log.is_dir():
        return {}
    names = sorted(p.name for p in log.iterdir() if p.name.removesuffix(_COMPACT).isdecimal())
    return {int(name.removesuffix(_COMPACT)): name for name in names}


def _interval(entries: dict[int, str]) -> int:
    """The interval of compaction, derived from the compact entries as Spark does."""
    compact = sorted(number for number, name in entries.items() if name.endswith(_COMPACT))
    if not compact:
        return _INTERVAL
    if len(compact) > 1:
        return compact[-1] - compact[-2]
    length = compact[0] + 1
    if length // 2 <= _INTERVAL:
        return length
    return next((i for i in range(_INTERVAL, length // 2 + 1) if length % i == 0), length)


def _known(log: Path) -> list[str]:
    """The lines of the last compact entry and of all entries after it."""
    entries = _entries(log)
    start = max((n for n, name in entries.items() if name.endswith(_COMPACT)), default=0)
    names = (name for number, name in sorted(entries.items()) if number >= start)
    return [line for name in names for line in (log / name).read_text(encoding="utf-8").splitlines()[1:]]


def _write(log: Path, name: str, lines: list[str]) -> None:
    (log / name).write_text("\n".join([_HEADER, *lines]), encoding="utf-8")
