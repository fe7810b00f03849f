"""Row numbers as a Spark data source, paced by the clock: the source of ``datagen``.

Unlike Spark's ``rate``, it ends after ``rows`` rows, and continues after a restart where it stopped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from sqlstream.spark.internals import register_source

try:  # as in ``spark.streams``, but this module goes to workers by value
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1, whose sources in Python know neither triggers nor where a micro-batch starts

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


_SECOND = 1_000_000  # microseconds
_SMALLEST_TASK = 10_000  # rows; more tasks than that cost more than they bring
_CHUNK = 100_000  # rows of an Arrow batch


class RowNumbers(DataSource):
    """A Spark data source of consecutive row numbers, from which DataGen computes rows.

    Options: ``rate`` (rows per second), ``rows`` (the total number; unlimited if absent), ``partitions``, and ``due``
    (if present, rows have the column ``due``: when the row should be produced, in microseconds since 1970).
    """

    @classmethod
    def name(cls) -> str:
        return "sqlstream_row_numbers"

    def schema(self) -> str:
        return "id BIGINT, due BIGINT" if "due" in self.options else "id BIGINT"

    def streamReader(self, schema: object) -> RowNumberReader:  # noqa: N802
        end = self.options.get("rows")
        partitions, with_due = int(self.options["partitions"]), "due" in self.options
        return RowNumberReader(int(self.options["rate"]), None if end is None else int(end), partitions, with_due)


class Range(InputPartition):
    """An input partition: the row numbers from ``start`` to before ``end``. ``origin``: when row 0 was due, in
    microseconds since 1970.
    """

    def __init__(self, start: int, end: int, origin: int) -> None:
        self.start, self.end, self.origin = start, end, origin


class RowNumberReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads row numbers: each micro-batch has the rows that became due since the previous one, the first those of one
    second.

    If the number of rows is limited, a bounded run (AvailableNow) waits until all rows are due. Otherwise it reads only
    one micro-batch, so that drained and paused jobs terminate.

    Offsets consist of ``row``, the next row number, and ``origin``, the time at which row 0 would have been due. With
    both, the due time of a row does not depend on where micro-batches end, also when one is repeated. Each start of a
    job sets a new origin, so that rows after a pause are due after the pause.

    PySpark 4.1 does not say at which offset a micro-batch starts. The reader then continues from the end of the
    previous one, and gives a limited number of rows all at once, without waiting until they are due.
    """

    def __init__(self, rate: int, end: int | None, partitions: int, with_due: bool = False) -> None:
        self._rate, self._end, self._partitions, self._with_due = rate, end, partitions, with_due
        self._due: float | None = None
        self._origin = 0
        self._what_is_there = False
        self._seen = 0

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._what_is_there = True

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def latestOffset(self, start: dict[str, int] | None = None, limit: object = None) -> dict[str, int]:  # noqa: N802
        if start is None:
            return self._latest_without_start()
        row = int(start["row"])
        if self._what_is_there and self._end is None and self._due is not None:
            return start
        if self._end is not None and row >= self._end:
            return start
        if self._due is None:  # the rows of the first micro-batch have become due within the last second
            self._origin = (time.time_ns() // 1000) - _SECOND - row * _SECOND // self._rate
        row += self._due_rows()
        return {"row": row if self._end is None else min(row, self._end), "origin": self._origin}

    def _latest_without_start(self) -> dict[str, int]:
        """For PySpark 4.1."""
        latest = self.latestOffset({"row": self._seen, "origin": self._origin}, None)
        self._seen = latest["row"] if self._end is None else self._end
        return {**latest, "row": self._seen}

    def _due_rows(self) -> int:
        """Rows due at whole seconds since the first call; a bounded run waits for some, a batch is then not empty."""
        now = time.monotonic()
        if self._due is None:
            self._due = now
        elif self._what_is_there and now < self._due:
            time.sleep(self._due - now)
        seconds = max(0, int(time.monotonic() - self._due) + 1)
        self._due += seconds
        return seconds * self._rate

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first, last = int(start["row"]), int(end["row"])
        self._seen = last
        step = max(_SMALLEST_TASK, -(-(last - first) // self._partitions))
        origin = int(end.get("origin", 0))
        return [Range(row, min(row + step, last), origin) for row in range(first, last, step)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        for row in range(partition.start, partition.end, _CHUNK):
            ids = numpy.arange(row, min(row + _CHUNK, partition.end), dtype=numpy.int64)
            if self._with_due:
                due = partition.origin + ids // self._rate * _SECOND + ids % self._rate * _SECOND // self._rate
                yield pa.RecordBatch.from_arrays([pa.array(ids), pa.array(due)], names=["id", "due"])
            else:
                yield pa.RecordBatch.from_arrays([pa.array(ids)], names=["id"])


def row_numbers(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    """Returns a streaming DataFrame of ``RowNumbers`` with the given options. The number of partitions is chosen from
    Spark's settings.
    """
    # The workers of a remote cluster need not have this package installed.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    register_source(spark, RowNumbers)
    reader = spark.readStream.format(RowNumbers.name()).options(**options)
    return reader.option("partitions", spark.conf.get("spark.sql.shuffle.partitions")).load()
