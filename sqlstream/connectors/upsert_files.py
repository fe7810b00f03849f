"""Directories of ``filesystem`` tables with a PRIMARY KEY and the format parquet: each holds the rows of its table now.

All rows are in one file, ``rows.parquet``, which pandas, Spark and our own reader take for an ordinary table. A
micro-batch makes the next one of it and its changes, and puts it in its place by one step of the file system. The
numbers of the micro-batches that are in it stand in the footer of the file, so they come with its rows or not at all:
one that runs again changes nothing, and after a crash the file is that of a whole micro-batch.

The whole table goes through the driver in each micro-batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors.keyed_rows import with_changes
from sqlstream.planner.catalog import APPEND_ONLY, Table
from sqlstream.udfs.texts import json_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS = "rows.parquet"
_NEXT, _LOCK = "_next.parquet", "_lock"
"""Names with which readers of directories leave files alone."""

_EPOCHS = b"sqlstream.epochs"


def holds_rows_now(table: Table) -> bool:
    """True for tables whose directory holds, by PRIMARY KEY, the rows that they have now."""
    one_file = not (table.option("partition-by") or "").strip()
    parquet = (table.option("format") or "").strip().lower() == "parquet"
    return bool(table.primary_key) and parquet and one_file and table.changelog == APPEND_ONLY


def replace_rows(folder: Path, keys: tuple[str, ...], run: str, batch: DataFrame, number: int) -> None:
    """Put the changes of micro-batch ``number`` into the table in ``folder``. ``run``: as in ``Environment``."""
    changes = batch.toArrow()  # computed always, because operators with state have to see a batch again, too
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        epochs = epochs_of(folder)
        if epochs.get(run, -1) < number:
            _write(folder, with_changes(_rows(folder), changes, keys), epochs | {run: number})


def epochs_of(folder: Path) -> dict[str, int]:
    """The newest micro-batch of each run that is in the table; none where there is no table yet."""
    import pyarrow.parquet as pq

    if not (folder / ROWS).exists():
        return {}
    epochs = (pq.read_schema(folder / ROWS).metadata or {}).get(_EPOCHS)
    return {} if epochs is None else {str(run): int(number) for run, number in json_of(epochs).items()}


def is_foreign(folder: Path) -> bool:
    """True where somebody else's files are in the folder, or one that is no table of ours."""
    files = [path for path in folder.iterdir() if not path.name.startswith(("_", "."))]
    return bool(files) and ([path.name for path in files] != [ROWS] or not epochs_of(folder))


def _rows(folder: Path) -> pa.Table | None:
    import pyarrow.parquet as pq

    return pq.read_table(folder / ROWS).replace_schema_metadata() if (folder / ROWS).exists() else None


def _write(folder: Path, rows: pa.Table, epochs: dict[str, int]) -> None:
    import pyarrow.parquet as pq

    named = rows.replace_schema_metadata({_EPOCHS: json.dumps(epochs).encode()})
    with (folder / _NEXT).open("wb") as file:
        pq.write_table(named, file)
        file.flush()
        os.fsync(file.fileno())
    (folder / _NEXT).replace(folder / ROWS)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other job writes into the folder meanwhile, in whichever process of this machine."""
    import fcntl

    with (folder / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
