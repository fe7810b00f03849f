"""Count windows by hand on ``transformWithState``, one call per key: the baseline of the benchmark of windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class CountWindow(StatefulProcessor):
    """Keeps the last ``size`` prices of a key and emits COUNT, SUM and MAX of them at every ``slide``-th."""

    def __init__(self, size: int, slide: int) -> None:
        self._size, self._slide = size, slide

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._kept = handle.getValueState("kept", "seen BIGINT, prices ARRAY<BIGINT>")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        kept = self._kept.get()
        seen, prices = (kept[0], list(kept[1])) if kept else (0, [])
        for row in rows:
            prices.append(row.price)
            seen += 1
            if seen % self._slide == 0:
                prices = prices[-self._size :]
                yield Row(auction=key[0], bids=len(prices), total=sum(prices), best=max(prices))
        self._kept.update((seen, prices[-self._size :]))

    def close(self) -> None: ...


def count_windows(spark: SparkSession, folder: Path, checkpoint: Path, *, size: int, slide: int) -> StreamingQuery:
    """Starts it; it ends when the files do."""
    rows = spark.readStream.schema("auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP")
    bids = rows.option("maxFilesPerTrigger", 1).parquet(str(folder)).select("auction", "price")
    windows = bids.groupBy("auction").transformWithState(
        statefulProcessor=CountWindow(size, slide),
        outputStructType="auction BIGINT, bids BIGINT, total BIGINT, best BIGINT",
        outputMode="append",
        timeMode="none",
    )
    writer = windows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).outputMode("append")
    return writer.trigger(availableNow=True).start()
