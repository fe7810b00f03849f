"""The rows of a ``memory`` table by its PRIMARY KEY: one Parquet file per version of the table, in one folder.

A micro-batch makes the next version of the newest one and its changes, and notes its number there; so what has been
written already changes nothing when it runs again, and readers see all of a micro-batch or nothing. The whole table
goes through the driver each time: such tables are small.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from sqlstream.planner.catalog import RowKind
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.texts import json_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_VERSIONS, _ROWS, _EPOCHS = "versions", "rows.parquet", "_epochs.json"
_KEPT_S = 60.0
"""So long readers may take that have found a version which is no longer the newest."""

_NUMBER = "__number"
_GONE = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
"""Where a row is updated, the one that takes its place follows."""

_writing = Lock()


def newest(folder: Path) -> Path | None:
    """The folder of the newest version; None where nothing has been written."""
    return max(_versions(folder), default=None, key=_number_of)


def replace_rows(folder: Path, keys: tuple[str, ...], run: str, batch: DataFrame, number: int) -> None:
    """Make the next version of the table in ``folder``, of the newest one and the changes of micro-batch ``number``.

    ``run``: whose numbers they are (``Environment.run``).
    """
    changes = batch.toArrow()  # computed always, because operators with state have to see a batch again, too
    with _writing:
        last = newest(folder)
        epochs: dict[str, int] = {} if last is None else json_of((last / _EPOCHS).read_text())
        if epochs.get(run, -1) < number:
            _write(folder, last, with_changes(_rows(last), changes, keys), epochs | {run: number})
            _forget(folder)


def with_changes(rows: pa.Table | None, changes: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """The rows, one for each of the keys, after changes, which have their kinds in ROW_KIND unless all are inserts."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if ROW_KIND not in changes.column_names:
        changes = changes.append_column(ROW_KIND, pa.array([RowKind.INSERT.value] * changes.num_rows, pa.string()))
    if rows is not None:
        kinds = pa.array([RowKind.INSERT.value] * rows.num_rows, pa.string())
        before = rows.append_column(ROW_KIND, kinds).select(changes.column_names).cast(changes.schema)
        changes = pa.concat_tables([before, changes])
    numbered = changes.select(list(keys)).append_column(_NUMBER, pa.array(np.arange(changes.num_rows)))
    last = numbered.group_by(list(keys)).aggregate([(_NUMBER, "max")])[f"{_NUMBER}_max"]
    newest = changes.take(last.sort())
    there = pc.invert(pc.is_in(newest[ROW_KIND], pa.array(_GONE)))
    return newest.filter(there).drop_columns([ROW_KIND])


def _rows(version: Path | None) -> pa.Table | None:
    import pyarrow.parquet as pq

    return None if version is None else pq.read_table(version / _ROWS)


def _write(folder: Path, last: Path | None, rows: pa.Table, epochs: dict[str, int]) -> None:
    import pyarrow.parquet as pq

    target = folder / _VERSIONS / str(0 if last is None else _number_of(last) + 1)
    hidden = target.with_name(f".{target.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir(parents=True)
    pq.write_table(rows, hidden / _ROWS)
    (hidden / _EPOCHS).write_text(json.dumps(epochs))
    hidden.rename(target)


def _forget(folder: Path) -> None:
    """Remove the versions that nobody reads any more; the one before the newest may just have been found."""
    before = time.time() - _KEPT_S
    for version in sorted(_versions(folder), key=_number_of)[:-2]:
        if version.stat().st_mtime < before:
            shutil.rmtree(version, ignore_errors=True)


def _versions(folder: Path) -> Iterator[Path]:
    return (path for path in (folder / _VERSIONS).glob("*") if path.name.isdigit())


def _number_of(version: Path) -> int:
    return int(version.name)
