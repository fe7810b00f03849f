"""The results of a query for its caller: an Arrow table per micro-batch, through a bounded queue."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sqlstream.planner.lowering.hidden_columns import quoted
from sqlstream.udfs.kernel import ROW_KIND

if TYPE_CHECKING:
    from sqlstream.jobs.lifecycle.sinks import SideSinks


_WAITING = 16  # tables; more make Spark wait for the caller
_POLL_SECONDS = 0.2


def with_kind_first(rows: DataFrame) -> DataFrame:
    """Returns the rows with the hidden column ROW_KIND, if they have it, as the first column."""
    if ROW_KIND not in rows.columns:
        return rows
    return rows.select(ROW_KIND, *(quoted(name) for name in rows.columns if name != ROW_KIND))


class ResultQueue:
    """A queue that passes the results of a query from Spark's thread to the caller, who may stop reading at any time.

    ``side`` writes the rows of side outputs to their tables.
    """

    def __init__(self, names: tuple[str, ...], side: SideSinks | None = None) -> None:
        self._names = list(names)
        self._side = side
        self._tables: queue.Queue[pa.Table] = queue.Queue(_WAITING)
        self._closed = Event()
        self._written = -1

    def sink(self, rows: DataFrame) -> DataStreamWriter:
        """Returns Spark's writer, not yet started, that puts the rows of each micro-batch into the queue."""
        return rows.writeStream.foreachBatch(self._side.with_main(self._write) if self._side else self._write)

    def _write(self, batch: DataFrame, number: int) -> None:
        """Once each: after a failure Spark may run again the batch that it wrote last."""
        if number > self._written:
            self.put(with_kind_first(batch).toArrow())
            self._written = number

    def on_progress(self, last_batch: int) -> None:
        """Called when Spark has reported new micro-batches, up to number ``last_batch``. Does nothing here, because the
        rows are already in the queue.
        """

    def put(self, table: pa.Table) -> None:
        """Add a table; blocks while the queue is full, and returns at once after ``close``."""
        while table.num_rows and not self._closed.is_set():
            try:
                return self._tables.put(table.rename_columns(self._names), timeout=_POLL_SECONDS)
            except queue.Full:
                continue
        return None

    def close(self) -> None:
        """Ends the queue: after the last table, or because the caller stops reading."""
        self._closed.set()

    def __iter__(self) -> Iterator[pa.Table]:
        while True:
            try:
                yield self._tables.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if self._closed.is_set() and self._tables.empty():
                    return


# --- Results through Spark Connect, stored as Parquet files ----------------------------------------------------


_FILE = "__file"


class StoredResults(ResultQueue):
    """Passes the results of a query through files. It is for Spark Connect, where the server writes the micro-batches
    and not this process.

    ``location`` is a folder that the server writes and reads; only the files of complete micro-batches are read.
    """

    def __init__(self, names: tuple[str, ...], spark: SparkSession, location: str) -> None:
        super().__init__(names)
        self._spark = spark
        self._location = location
        self._seen: list[str] = []

    def sink(self, rows: DataFrame) -> DataStreamWriter:
        """Returns Spark's writer, not yet started, that stores the rows of each micro-batch as Parquet files."""
        rows = with_kind_first(rows)
        plain = rows.toDF(*(f"c{i}" for i in range(len(rows.columns))))  # Parquet does not take every name
        return plain.writeStream.format("parquet").option("path", self._location)

    def on_progress(self, last_batch: int) -> None:
        """Read the new files up to ``last_batch`` into the queue."""
        try:
            rows = self._spark.read.parquet(self._location)
            with_file = rows.select("*", F.col("_metadata.file_name").alias(_FILE))
            new_rows = with_file.where(~F.col(_FILE).isin(self._seen)).toArrow()
        except AnalysisException:
            return  # nothing has been written yet; Connect notices only when rows are fetched
        self._seen += set(new_rows.column(_FILE).to_pylist())
        self.put(new_rows.drop_columns([_FILE]))
