"""Tables that hold one row per PRIMARY KEY in Parquet files: those of ``memory``, and directories of ``filesystem``.

A micro-batch writes the whole table anew, from the rows before it and its changes, and stores its number with them. A
micro-batch that runs again therefore changes nothing, and readers see all of a micro-batch or nothing. The table
passes through the driver each time.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from sqlstream.connectors.files.tables import ROWS
from sqlstream.planner.catalog import RowKind
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.texts import json_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_VERSIONS, _ROWS, _EPOCHS = "versions", "rows.parquet", "_epochs.json"
_KEPT_S = 60.0
"""Seconds that a version is kept after it was replaced, for readers that have found it."""

_NUMBER = "__number"
_GONE = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
"""Rows of these kinds are removed. Where a row is updated, its new version follows."""

_writing = Lock()


def newest(folder: Path) -> Path | None:
    """Returns the folder of the newest version of a memory table; None if there is no version."""
    return max(_versions(folder), default=None, key=_number_of)


def add_version(folder: Path, keys: tuple[str, ...], run: str, batch: DataFrame, number: int) -> None:
    """Applies the changes of micro-batch ``number`` to the newest version of a memory table, and writes the result as
    a new version.

    A micro-batch that is already applied is ignored. ``run``: the checkpoint that counts the micro-batches
    (``Environment.run``).
    """
    changes = batch.toArrow()  # computed always, because operators with state have to see a batch again, too
    with _writing:
        last = newest(folder)
        epochs: dict[str, int] = {} if last is None else json_of((last / _EPOCHS).read_text())
        if epochs.get(run, -1) < number:
            _write(folder, last, with_changes(_rows(last), changes, keys), epochs | {run: number})
            _forget(folder)


def with_changes(rows: pa.Table | None, changes: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Applies changes to rows and returns the resulting rows, one per key. Without the column ROW_KIND all changes are
    inserts.
    """
    if ROW_KIND not in changes.column_names:
        changes = changes.append_column(ROW_KIND, pa.array([RowKind.INSERT.value] * changes.num_rows, pa.string()))
    if rows is not None:
        kinds = pa.array([RowKind.INSERT.value] * rows.num_rows, pa.string())
        before = rows.append_column(ROW_KIND, kinds).select(changes.column_names).cast(changes.schema)
        changes = pa.concat_tables([before, changes])
    newest = last_changes(changes, keys)
    there = pc.invert(pc.is_in(newest[ROW_KIND], pa.array(_GONE)))
    return newest.filter(there).drop_columns([ROW_KIND])


def last_changes(changes: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Returns the last change of each key, in their order, with the column ROW_KIND, without which all are inserts."""
    if ROW_KIND not in changes.column_names:
        changes = changes.append_column(ROW_KIND, pa.array([RowKind.INSERT.value] * changes.num_rows, pa.string()))
    numbered = changes.select(list(keys)).append_column(_NUMBER, pa.array(np.arange(changes.num_rows)))
    last = numbered.group_by(list(keys)).aggregate([(_NUMBER, "max")])[f"{_NUMBER}_max"]
    return changes.take(last.sort())


def _rows(version: Path | None) -> pa.Table | None:
    return None if version is None else pq.read_table(version / _ROWS)


def _write(folder: Path, last: Path | None, rows: pa.Table, epochs: dict[str, int]) -> None:
    target = folder / _VERSIONS / str(0 if last is None else _number_of(last) + 1)
    hidden = target.with_name(f".{target.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir(parents=True)
    pq.write_table(rows, hidden / _ROWS)
    (hidden / _EPOCHS).write_text(json.dumps(epochs))
    hidden.rename(target)


def _forget(folder: Path) -> None:
    """Remove old versions. A reader may have just found the one before the newest, so that stays."""
    before = time.time() - _KEPT_S
    for version in sorted(_versions(folder), key=_number_of)[:-2]:
        if version.stat().st_mtime < before:
            shutil.rmtree(version, ignore_errors=True)


def _versions(folder: Path) -> Iterator[Path]:
    return (path for path in (folder / _VERSIONS).glob("*") if path.name.isdigit())


def _number_of(version: Path) -> int:
    return int(version.name)


# --- directories of filesystem tables -------------------------------------------------------------------------

# All rows are in one file, which pandas, Spark and our own reader read as an ordinary table. The next version replaces
# it in one step of the file system. The numbers of micro-batches are in the footer of the file, so a crash leaves the
# file of a complete micro-batch.

_NEXT, _LOCK = "_next.parquet", "_lock"
"""Names that readers of directories skip."""

_FOOTER_KEY = b"sqlstream.epochs"


def replace_file(folder: Path, keys: tuple[str, ...], run: str, batch: DataFrame, number: int) -> None:
    """Applies the changes of micro-batch ``number`` to the Parquet file in ``folder`` that holds a table's current
    rows.

    A micro-batch that is already applied is ignored. ``run``: the checkpoint that counts the micro-batches
    (``Environment.run``).
    """
    changes = batch.toArrow()  # computed always, because operators with state have to see a batch again, too
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        epochs = epochs_of(folder)
        if epochs.get(run, -1) < number:
            _write_file(folder, with_changes(_rows_of_file(folder), changes, keys), epochs | {run: number})


def epochs_of(folder: Path) -> dict[str, int]:
    """Returns a dictionary from each checkpoint that wrote into the folder to its newest applied micro-batch; empty
    before the first write.
    """
    if not (folder / ROWS).exists():
        return {}
    epochs = (pq.read_schema(folder / ROWS).metadata or {}).get(_FOOTER_KEY)
    return {} if epochs is None else {str(run): int(number) for run, number in json_of(epochs).items()}


def is_foreign(folder: Path) -> bool:
    """True where the folder has files that ``replace_file`` did not write."""
    files = [path for path in folder.iterdir() if not path.name.startswith(("_", "."))]
    return bool(files) and ([path.name for path in files] != [ROWS] or not epochs_of(folder))


def _rows_of_file(folder: Path) -> pa.Table | None:
    return pq.read_table(folder / ROWS).replace_schema_metadata() if (folder / ROWS).exists() else None


def _write_file(folder: Path, rows: pa.Table, epochs: dict[str, int]) -> None:
    named = rows.replace_schema_metadata({_FOOTER_KEY: json.dumps(epochs).encode()})
    with (folder / _NEXT).open("wb") as file:
        pq.write_table(named, file)
        file.flush()
        os.fsync(file.fileno())
    (folder / _NEXT).replace(folder / ROWS)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps other jobs on this machine from writing into the folder."""
    with (folder / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
