"""What connectors are given to read and write, and what they give to the job that does so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors.fetched import FetchedBytes
from sqlstream.connectors.written import WrittenBytes
from sqlstream.planner.catalog import Table
from sqlstream.udfs.lookup.source import Comparison

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader


LATENCY_METRIC, LATENCIES = "latency", ("median_ms", "p99_ms", "most_ms")
"""The metric of a table that is read in real time is named ``latency/<table>``: how old its messages are when they are
read, in milliseconds.
"""


class Watch(ABC):
    """What a source does again and again while a job runs, such as looking for new files.

    ``interval_ms``: the time between two looks in milliseconds; None means once, at the start.
    """

    interval_ms: int | None

    @abstractmethod
    def look(self) -> None:
        """Called from any thread. A SqlStreamError that does not go away fails the job, any other error at once."""

    def require_start(self, watches: Sequence[Watch]) -> None:  # noqa: B027 - most watches let any job start
        """Called before the job starts, with what all of its sources do. Raises a SqlStreamError if it must not."""


@dataclass(frozen=True)
class Environment:
    """What a connector needs to read or write, besides the table.

    * ``directory``: the session's scratch folder, which is removed when the session closes.
    * ``job``: an identifier of the job, the same after a restart.
    * ``resumed``: the job continues from a checkpoint.
    * ``run``: an identifier of the checkpoint. Micro-batches are numbered from 0 again in a new checkpoint.
    * ``in_order``: the query depends on the order of rows. A source whose splits Spark interleaves must then add the
      hidden columns ``udfs.exchange.PARTS``, which define the order.
    * ``located``: a row may lack something that the query requires of it. A source of files then says where each row
      was read: in the hidden columns of ``udfs.bad_records``, as far as it knows, and with dead letters in BAD.
    * ``spark_reads``: Spark must read the files of a ``SplitSource``; the exchange does not read them itself.
    * ``after``: the number of the last complete micro-batch of the checkpoint that the job continues from.
    * ``begun``: the number of the last micro-batch that was started: ``after``, or the next one if it did not complete.
    * ``begun_at``: when that was; None if it is unknown.
    * ``anew``: the checkpoint was restored from a savepoint, and this is its first run.
    * ``logs``: the local folder in which Spark's checkpoint lists the files that its sources have found; None if the
      checkpoint is not on this machine.
    * ``finished``: bounded sources are read as batch DataFrames instead of streams.
    * ``watches``: sources add what must be done while the job runs; None where there is no job.
    * ``filters``: comparisons that rows of the scan must pass, of those for which ``LookupTable.filters`` is true. A
      source that ``prunes`` may leave out rows that fail one.
    * ``timed``: the names of the tables whose own watermark operators of the job wait for.
    * ``idle_timeout_ms``: after how long without rows a source, or a part of it, holds no watermark back; 0: never. A
      table may say another time (``idle_timeout_ms``).
    * ``wanted_ms``: how long a micro-batch should take at most while rows wait; 0: as long as it takes.
    * ``joined``: by table the other tables, with the columns that are read, whose rows are joined to its rows as they
      are.
    * ``first_rows``: the query ends with so many rows of its only table, whichever come first, so a source need not
      read many at once; None where it needs others, too.
    * ``real_time``: rows go through one by one, and the source measures how long that takes (``LATENCY_METRIC``).
    * ``written``: where a sink that knows the bytes of what it writes adds them, for metrics.
    * ``fetched``: what counts the bytes that tasks fetch of messages, for metrics.
    """

    spark: SparkSession
    directory: Path
    job: str = "job"
    resumed: bool = False
    run: str = "run"
    in_order: bool = False
    located: bool = False
    spark_reads: bool = False
    after: int | None = None
    begun: int | None = None
    begun_at: datetime | None = None
    anew: bool = False
    logs: str | None = None
    finished: bool = False
    watches: list[Watch] | None = None
    filters: tuple[Comparison, ...] = ()
    timed: frozenset[str] = frozenset()
    idle_timeout_ms: int = 0
    wanted_ms: int = 0
    joined: Mapping[str, Sequence[tuple[Table, tuple[str, ...]]]] = field(default_factory=dict)
    first_rows: int | None = None
    real_time: bool = False
    written: WrittenBytes = field(default_factory=WrittenBytes)
    fetched: FetchedBytes = field(default_factory=FetchedBytes)

    @property
    def reader(self) -> DataStreamReader | DataFrameReader:
        """Spark's reader: for batch DataFrames if ``finished``, else for streaming DataFrames."""
        return self.spark.read if self.finished else self.spark.readStream


@dataclass(frozen=True)
class SinkWriteRange:
    """The numbers of the micro-batches that a job has written to one location: greater than ``since``, up to
    ``until``. ``until`` is None if the job still writes there.
    """

    since: int
    until: int | None = None


UNKNOWN_RANGE = SinkWriteRange(-1, -1)
"""For checkpoints of versions that did not record where they write: anything may have been written."""
