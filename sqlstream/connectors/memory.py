"""``memory``: tables of a session, stored as Parquet files in its scratch folder, one folder per job.

Spark's file sink has one log per directory, so jobs that write to the same table need a directory each. A table with a
PRIMARY KEY has one folder for all jobs (``on_spark.keyed_rows``).
"""

from __future__ import annotations

import shutil
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import (
    BatchWriter,
    Source,
    StreamSink,
    UpsertSink,
    columns_of,
    declared_or_upserts,
    folder_of_batch,
)
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import quoted, schema_ddl
from sqlstream.connectors.stored_tables import SessionTable
from sqlstream.errors import UnsupportedError
from sqlstream.paths import as_segment
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.spark.running import shares_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


NOT_HERE = "SS347"


class Memory(Source, UpsertSink, StreamSink, SessionTable):
    """Tables whose rows are files in the session's scratch folder. Raises UnsupportedError SS347 where Spark runs on
    another machine.
    """

    name = "memory"
    doc = (
        "Rows kept until the session closes: written by INSERT, by PRIMARY KEY where there is one; read as a bounded "
        "source of what is there."
    )

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        _require_shared_files(environment, table)
        folder = _folder(environment.directory, table)
        empty = folder / "empty"
        empty.mkdir(parents=True, exist_ok=True)
        reader = environment.reader.schema(schema_ddl(table.physical_columns))
        written = (
            _written(folder)
            if not _is_keyed(table)
            else [path for path in [on_spark.keyed_rows.newest(folder)] if path is not None]
        )
        streams = [reader.parquet(str(path)) for path in written or [empty]]
        names = [quoted(c.name) for c in columns_of(table, columns)]
        return reduce(lambda left, right: left.unionAll(right), streams).select(*names)

    def bounded(self, table: Table) -> bool:
        return True

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        return declared_or_upserts(table)

    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        if _is_keyed(table):
            return rows.writeStream.foreachBatch(self.write_batches(environment, table))
        return rows.writeStream.format("parquet").option("path", _folder_of_job(environment, table))

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        folder = _folder_of_job(environment, table)
        if _is_keyed(table):
            return partial(
                on_spark.keyed_rows.add_version,
                _folder(environment.directory, table),
                table.primary_key,
                environment.run,
            )
        return lambda batch, number: batch.write.mode("overwrite").parquet(folder_of_batch(folder, number))

    def drop(self, directory: Path, table: Table) -> None:
        shutil.rmtree(_folder(directory, table), ignore_errors=True)

    def rename(self, directory: Path, before: Table, after: Table) -> None:
        """Moves the folder of a renamed table, and replaces its path in the logs that Spark keeps in it."""
        old, new = _folder(directory, before), _folder(directory, after)
        if not old.exists():
            return
        old.rename(new)
        for entry in new.glob("*/_spark_metadata/*"):
            if entry.name.startswith("."):
                entry.unlink()  # the checksum of an entry
            else:
                entry.write_bytes(entry.read_bytes().replace(_in_logs(old), _in_logs(new)))


def _require_shared_files(environment: Environment, table: Table) -> None:
    if not shares_files(environment.spark):
        message = f'table "{table.name}" is in files of this machine, which Spark on another one does not see'
        raise UnsupportedError(NOT_HERE, message, hint="Use the connector filesystem with a path of the server.")


def _folder(directory: Path, table: Table) -> Path:
    return directory / "memory" / as_segment(table.name.lower())


def _written(folder: Path) -> list[Path]:
    """The folders of jobs with a complete batch: Spark's log says so, or its mark in the folder of a batch."""
    logged = {log.parent for log in folder.glob("*/_spark_metadata")}
    return sorted(logged | {mark.parent.parent for mark in folder.glob("*/*/_SUCCESS")})


def _is_keyed(table: Table) -> bool:
    return bool(table.primary_key) and table.changelog == APPEND_ONLY


def _folder_of_job(environment: Environment, table: Table) -> str:
    _require_shared_files(environment, table)
    return str(_folder(environment.directory, table) / as_segment(environment.job))


def _in_logs(folder: Path) -> bytes:
    return f"{folder.absolute().as_uri().removeprefix('file://')}/".encode()
