"""The sink of ``filesystem``: Spark's exactly-once file sink, a folder per micro-batch, or one file of current rows."""

from __future__ import annotations

import glob
import re
import shutil
import time
from pathlib import Path

from sqlstream.connectors.connector import PATH_ERROR, folder_of_batch
from sqlstream.connectors.environment import SinkWriteRange
from sqlstream.connectors.files.tables import ROWS, holds_rows_now, is_hidden, local_path, shown_path, unusable
from sqlstream.errors import ConnectorError, ExecutionError, SqlStreamError, repeating
from sqlstream.planner.catalog import Table
from sqlstream.secrets import shown_value
from sqlstream.udfs.files.sink_log import LOG, newest_logged
from sqlstream.udfs.files.sink_log import bytes_of_batch as logged_bytes


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


def ahead_of_savepoint(table: Table, folder: str, newest: int, after: int) -> ConnectorError:
    """Returns the error SS508 for a folder with micro-batches that a job writes again after its savepoint."""
    message = f'path "{folder}" of table "{table.name}" holds the micro-batch {newest}'
    detail = f"The job goes on after micro-batch {after}, that of its savepoint."
    hint = "Write to another directory, which then has what comes after the savepoint."
    return ConnectorError(PATH_ERROR, message, detail=detail, hint=hint)


def not_empty(table: Table, folder: Path) -> ConnectorError:
    """Returns the error SS508 for a directory that already has files of another job."""
    message = f'path "{folder}" of table "{table.name}" is not an empty directory'
    hint = "Each job writes to a directory of its own: remove the files of the earlier one or change the path."
    return ConnectorError(PATH_ERROR, message, hint=hint)


# --- bytes, for metrics ----------------------------------------------------------------------------------------


def bytes_of_batch(table: Table, number: int, begin_ms: int) -> int | None:
    """Returns the bytes of the files that a micro-batch has written into a directory of this machine, as
    ``Sink.bytes_of_batch`` has it. The file of current rows counts whole, because it is written whole.
    """
    local = local_path(table.option("path") or "")
    if local is None:
        return None
    folder, own = Path(local), Path(folder_of_batch(local, number))
    try:
        if holds_rows_now(table):
            return (folder / ROWS).stat().st_size
        if own.is_dir():
            files = (path for path in own.rglob("*") if not is_hidden(path.name) and path.is_file())
            return sum(path.stat().st_size for path in files)
        return logged_bytes(folder, number, begin_ms)
    except (OSError, ValueError):  # figures do not fail a job
        return None


# --- micro-batches in a directory -----------------------------------------------------------------------------

_BATCH = re.compile(r"sqlstream_batch=(\d+)")


def newest_batch(folder: Path) -> int | None:
    """Returns the number of the last micro-batch written into a directory; None where there is none."""
    newest = (newest_logged(folder), newest_folder(folder))
    return max((number for number in newest if number is not None), default=None)


def newest_folder(folder: Path) -> int | None:
    """Returns the number of the last micro-batch that has a folder of its own; None where there is none."""
    return max((int(match[1]) for path in folder.iterdir() if (match := _BATCH.fullmatch(path.name))), default=None)
