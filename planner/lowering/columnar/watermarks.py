"""The watermark of rows, told by the blobs that the exchange makes of them.

Spark looks at the event time of each row on its way through ``withWatermark``, which no generated code does. Where all
rows of a time attribute reach one operator, the newest time of each blob says as much, and control rows become blobs
themselves. The physical plan says where (``BlobWatermark``).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columns import column, event_time, micros
from sqlstream.planner.lowering.event_times import required_time, time_of
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.lowering.time import EVENT_TIME, observed
from sqlstream.planner.physical.steps import BlobWatermark
from sqlstream.udfs.exchange import BLOBS, LATE_TABLE, Content

TIME = "__row_time"
"""The column of a kernel's input with the time of the row, in microseconds."""

_PLACE = ("partition", "number", "port")


def required_micros(told: BlobWatermark, *, passing: bool) -> str:
    """SQL text: the time of a row in microseconds; SS401 where it is NULL, SS430 where it is out of range.

    ``passing``: among the rows are some on their way to other tables, which have no time.
    """
    passes = f"{LATE_TABLE} IS NOT NULL" if passing else None
    return required_time(time_of(told.source), told.time, "{error}", micros(told.time), passes)


def told_column(told: BlobWatermark, runtime: Runtime) -> str | None:
    """The column of the exchange's input whose newest value is told; None where control rows alone move it."""
    return TIME if runtime.event_time_from_rows(told.source.table) else None


def with_watermark(told: BlobWatermark, blobs: DataFrame, key_group: int, runtime: Runtime) -> DataFrame:
    """The blobs behind ``withWatermark``, and those of control rows for a key group, which reads them not.

    Spark looks for new data from left to right: it never sees a control row without the rows written before.
    """
    lifted = F.expr(f"(watermark_ms + {told.source.delay_ms}L) * 1000L")
    values = {"key_group": F.lit(key_group), "content": F.lit(Content.LIFT.value), "clock": lifted}
    columns = (values.get(f.name, F.lit(0 if f.name in _PLACE else None)).cast(f.dataType) for f in blobs.schema)
    blobs = runtime.control(told.source.table).select(*columns).toDF(*blobs.columns).union(blobs)
    newest = f"CASE WHEN content = {Content.LIFT.value} THEN {event_time('clock')} END"
    timed = observed(blobs.select("*", F.expr(newest).alias(EVENT_TIME)), told.source, told.metric)
    timed = runtime.timed(timed, EVENT_TIME, told.source.delay_ms, told.source.table)
    return timed.select(*map(column, BLOBS.names))
