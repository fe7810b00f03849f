"""Whether the directory that a job writes to is as the job has left it, before it goes on there."""

from __future__ import annotations

import time
from pathlib import Path

from sqlstream.connectors.connector import PATH_ERROR, SinkWriteRange
from sqlstream.connectors.file_columns import is_hidden
from sqlstream.connectors.file_sink_log import LOG, newest_folder, newest_logged
from sqlstream.connectors.upsert_files import ROWS, is_foreign
from sqlstream.errors import ConnectorError, ExecutionError, repeating
from sqlstream.planner.catalog import Table

SINK_LOG_GONE = repeating("SS420")
OTHER_SINK = "SS434"

_LOOKS = 3
_PAUSE_SECONDS = 0.1
"""Spark may write a compact entry, and remove those in it, while somebody looks."""


def require_log(table: Table, folder: Path, written: SinkWriteRange | None, after: int, streamed: bool) -> None:
    """Errors where a job that goes on after a micro-batch would lose rows that it has written to the folder, or write
    among those of somebody else: SS420, SS434, SS508. The rest is as in ``RecoverableSink.require_intact``."""
    there = folder.is_dir() and any(not is_hidden(path.name) and _is_or_holds_file(path) for path in folder.iterdir())
    logged, batches = (newest_logged(folder), newest_folder(folder)) if folder.is_dir() else (None, None)
    nothing_told = logged is None and batches is None
    if written is None:
        if there or not nothing_told:
            raise not_empty(table, folder)
        return
    if batches is not None if streamed else logged is not None:
        raise _written_otherwise(table, folder, streamed)
    until = after if written.until is None else written.until
    if streamed and ((there and nothing_told) or (written.since < until and (logged is None or logged < until))):
        raise _log_gone(table, folder, until)


def holds_files(folder: Path) -> bool:
    """Whether there is more than empty folders, which ALTER TABLE … ADD PARTITION makes."""
    return any(path.is_symlink() or not path.is_dir() for path in folder.rglob("*"))


def _is_or_holds_file(path: Path) -> bool:
    return not path.is_dir() or path.is_symlink() or holds_files(path)


def require_rows(table: Table, folder: Path, written: SinkWriteRange | None) -> None:
    """Errors as those of ``require_log``, for a directory that holds the rows of now."""
    has_written = written is not None and written.until is not None and written.since < written.until
    if has_written and not (folder / ROWS).exists():
        message = f'"{folder / ROWS}" of table "{table.name}" is gone, with the rows that were written'
        hint = "Give it back from a copy, or start the job anew, without its checkpoint."
        raise ExecutionError(SINK_LOG_GONE, message, hint=hint)
    if folder.exists() and (not folder.is_dir() or is_foreign(folder)):
        raise not_empty(table, folder)


def require_logged(table: Table, folder: Path, batch: int) -> None:
    """ExecutionError SS420 where the log of a running job is gone. What cannot be seen is left to Spark."""
    for _ in range(_LOOKS):
        try:
            logged = newest_logged(folder)
        except OSError:
            return
        if logged is not None and logged >= batch - 1:  # between micro-batches, reports have the number of the next
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
    """A reader goes by the log where there is one, and by folders else, and sees only the rows of one of them."""
    ways = (f'the log "{LOG}"', 'folders "sqlstream_batch=…"')
    before, now = reversed(ways) if streamed else ways
    message = f'path "{folder}" of table "{table.name}" holds {before}, and the query now writes {now}'
    detail = (
        "Statement sets, and queries with LATE DATA TO or ON ERROR TO, write folders. Readers see one of both only."
    )
    return ExecutionError(OTHER_SINK, message, detail=detail, hint="Let the query write to another, empty directory.")


def not_empty(table: Table, folder: Path) -> ConnectorError:
    """The error that a job would write among the files of another one."""
    message = f'path "{folder}" of table "{table.name}" is not an empty directory'
    hint = "Each job writes to a directory of its own: remove the files of the earlier one or change the path."
    return ConnectorError(PATH_ERROR, message, hint=hint)
