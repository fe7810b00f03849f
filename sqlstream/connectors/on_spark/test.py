"""``test``: tables that a ``sqlstream.testing.StreamTest`` feeds and reads.

A source is a folder of Parquet files, one per micro-batch, which Spark's file stream reads in the order of their
modification times. The hidden column ``__processing_time`` is the test's clock when the row was fed. A sink is a folder
of Arrow files, one per micro-batch, named by its number: a batch that runs again replaces its file. The answers of a
lookup table are rows of such Parquet files, too, in the order in which the test has fed them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from sqlstream.connectors.connector import BatchWriter, columns_of
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import quoted, schema_ddl
from sqlstream.errors import ConnectorError
from sqlstream.paths import as_segment
from sqlstream.planner.catalog import APPEND_ONLY, Column, Table
from sqlstream.types import STRING as STRING_TYPE
from sqlstream.types import TIMESTAMP
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.sources.fed import Asked, asked
from sqlstream.udfs.spark.internals import arrow_schema
from sqlstream.udfs.spark.steps import RowsOfStep, StepFolder

OUTSIDE_A_TEST = "SS515"

_TICKS = "ticks"
_TICK_DDL = "processing_time_ms BIGINT"
_CLOCK = Column("__processing_time", TIMESTAMP)
_KIND = Column(ROW_KIND, STRING_TYPE)

Arrival = tuple[Sequence[Any], int, str]


def _inputs(directory: Path, table: Table) -> Path:
    return directory / "inputs" / as_segment(table.name.lower())


def _outputs(directory: Path, table: Table) -> Path:
    return directory / "outputs" / as_segment(table.name.lower())


def _require_test(folder: Path, table: Table) -> None:
    if not folder.is_dir():
        message = f'table "{table.name}" with the connector "test" is used outside a test'
        hint = "Run the script with sqlstream.testing.StreamTest, or choose another connector (SHOW CONNECTORS)."
        raise ConnectorError(OUTSIDE_A_TEST, message, hint=hint)


# --- the test's side ------------------------------------------------------------------------------------------


def open_tables(directory: Path, tables: Iterable[Table]) -> None:
    """Creates the folders below ``directory`` in which a test's tables are read and written."""
    for table in tables:
        for folder in (_inputs(directory, table), _outputs(directory, table)):
            folder.mkdir(parents=True, exist_ok=True)


def feed(directory: Path, table: Table, number: int, rows: Sequence[Arrival], suffix: str = "") -> None:
    """Writes one file of input rows for a table. ``number`` orders the files.

    A row consists of the physical column values as Arrow accepts them, its processing time in milliseconds since 1970,
    and its kind. ``suffix``: WITHDRAWN if the rows are to be removed from a lookup table.
    """
    columns = (*table.physical_columns, _CLOCK, _KIND)
    records = (
        (*values, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=clock), kind)
        for values, clock, kind in rows
    )
    arrays = [
        pa.array(values, c.type.to_arrow()) for values, c in zip(zip(*records, strict=True), columns, strict=True)
    ]
    target = _inputs(directory, table) / f"{number:09d}{suffix}.parquet"
    hidden = target.with_name(f".{target.name}")
    pq.write_table(pa.table(arrays, names=[c.name for c in columns]), hidden)
    # Spark sorts files by modification time: seconds that follow the numbers keep the order of quick writes.
    os.utime(hidden, (number, number))
    hidden.rename(target)


def written(directory: Path, table: Table, after: int = -1) -> Iterator[tuple[int, pa.Table]]:
    """Yields the micro-batches that a sink has written: pairs of number and rows, ascending, with numbers greater than
    ``after``.
    """
    for path in sorted(_outputs(directory, table).glob("*.arrow")):
        if int(path.stem) > after:
            with pa.ipc.open_file(path) as file:
                yield int(path.stem), file.read_all()


def asked_keys(directory: Path, table: Table) -> tuple[Asked, ...]:
    """Returns the keys that were requested from a lookup table, as texts, one entry per request."""
    return tuple(asked(_inputs(directory, table)))


def tick(directory: Path, number: int, clock_ms: int) -> None:
    """Sets the processing-time clock to ``clock_ms`` (milliseconds since 1970) at step ``number`` of the test."""
    folder = directory / _TICKS
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"processing_time_ms": [clock_ms]}), folder / f"{number:09d}.parquet")


# --- the job's side ------------------------------------------------------------------------------------------


def read(environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
    """Returns a test's input rows as a streaming DataFrame. Raises ConnectorError SS515 outside of a test."""
    folder = inputs_of_test(environment.directory, table)
    schema = schema_ddl((*table.physical_columns, _CLOCK, _KIND))
    return environment.spark.readStream.schema(schema).parquet(str(folder)).select(*_names(table, columns))


def writer(environment: Environment, table: Table) -> BatchWriter:
    """Returns the function that stores a micro-batch where the test reads it. Raises ConnectorError SS515 outside of a
    test.
    """
    folder = _outputs(environment.directory, table)
    _require_test(folder, table)
    return partial(_keep, folder)


def inputs_of_test(directory: Path, table: Table) -> Path:
    """Returns the folder of a table's input rows. Raises ConnectorError SS515 outside of a test."""
    folder = _inputs(directory, table)
    _require_test(folder, table)
    return folder


def read_step(spark: SparkSession, table: Table, columns: tuple[str, ...], steps: StepFolder) -> DataFrame:
    """Returns a batch DataFrame of the current step's input rows. It reads the current step anew at each execution."""
    schema = schema_ddl((*table.physical_columns, _CLOCK, _KIND))
    return _of_step(spark, _inputs(Path(steps.path), table), schema, steps).select(*_names(table, columns))


def ticks_of_step(spark: SparkSession, steps: StepFolder) -> DataFrame:
    """Returns a batch DataFrame with the current step's tick (processing time), with the schema of
    ``ControlRows.clock``.
    """
    return _of_step(spark, Path(steps.path) / _TICKS, _TICK_DDL, steps)


def _of_step(spark: SparkSession, folder: Path, ddl: str, steps: StepFolder) -> DataFrame:
    schema = spark.createDataFrame([], ddl).schema
    rows = RowsOfStep(steps, str(folder), arrow_schema(schema))
    return spark.range(0, 1, 1, 1).mapInArrow(rows.rows, schema)


def _names(table: Table, columns: tuple[str, ...]) -> list[str]:
    kinds = [_KIND] if table.changelog != APPEND_ONLY else []
    return [quoted(c.name) for c in (*columns_of(table, columns), _CLOCK, *kinds)]


def _keep(folder: Path, batch: DataFrame, number: int) -> None:
    rows = batch.toArrow()
    if rows.num_rows == 0:
        return
    target = folder / f"{number:09d}.arrow"
    hidden = target.with_name(f".{target.name}")
    with pa.ipc.new_file(hidden, rows.schema) as file:
        file.write_table(rows)
    hidden.rename(target)
