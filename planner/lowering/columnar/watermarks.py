"""The watermark of rows, told by the blobs that the exchange makes of them.

Spark looks at the event time of each row on its way through ``withWatermark``, which no generated code does. Where all
rows of a time attribute reach one operator, the newest time of each blob says as much, and control rows become blobs
themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.columns import column, event_time, micros
from sqlstream.planner.lowering.event_times import required_time, time_of
from sqlstream.planner.lowering.lower import watermarked_nodes
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.naming import below_projections
from sqlstream.planner.nodes import AssignTime, AssignWindows, Node, StatementSet, WindowAggregate
from sqlstream.udfs.exchange import BLOBS, LATE_TABLE, Content

TIME = "__row_time"
"""The column of a kernel's input with the time of the row, in microseconds."""

_SHIFTED = "__event_time"
_PLACE = ("partition", "number")


@dataclass(frozen=True)
class BlobWatermark:
    """The watermark of ``source``, whose time is the field ``time`` of the operator's input.

    ``passing``: among the rows are some on their way to other tables, which have no time.
    """

    source: AssignTime
    time: str
    passing: bool = False

    @property
    def micros(self) -> str:
        """SQL text: the time of a row in microseconds; SS401 where it is NULL, SS430 where it is out of range."""
        passes = f"{LATE_TABLE} IS NOT NULL" if self.passing else None
        return required_time(time_of(self.source), self.time, "{error}", micros(self.time), passes)

    def column(self, runtime: Runtime) -> str | None:
        """The column of the exchange's input whose newest value is told; None where control rows alone move it."""
        return TIME if runtime.event_time_from_rows(self.source.table) else None

    def of_blobs(self, blobs: DataFrame, key_group: int, runtime: Runtime) -> DataFrame:
        """The blobs behind ``withWatermark``, and those of control rows for a key group, which reads them not.

        Spark looks for new data from left to right: it never sees a control row without the rows written before.
        """
        lifted = F.expr(f"(watermark_ms + {self.source.delay_ms}L) * 1000L")
        known = {"key_group": F.lit(key_group), "content": F.lit(Content.LIFT.value), "clock": lifted}
        columns = (known.get(f.name, F.lit(0 if f.name in _PLACE else None)).cast(f.dataType) for f in blobs.schema)
        blobs = runtime.control(self.source.table).select(*columns).toDF(*blobs.columns).union(blobs)
        newest = f"CASE WHEN content = {Content.LIFT.value} THEN {event_time('clock')} END"
        timed = blobs.select("*", F.expr(newest).alias(_SHIFTED))
        timed = timed.withWatermark(_SHIFTED, f"{self.source.delay_ms} milliseconds")
        return timed.select(*map(column, BLOBS.names))


def blob_watermark(node: AssignWindows | WindowAggregate, plan: Node) -> BlobWatermark | None:
    """The watermark that the blobs of the node's exchange can tell: the only one of the plan, of rows that all come."""
    if node.window is None or node.time is None or node.domain is TimeDomain.PROCESSING:
        return None
    found = below_projections(node.input, node.time)
    if found is None:
        return None
    below, name = found
    if not isinstance(below, AssignTime) or below.column != name or not _is_the_only_one(below, plan):
        return None
    return BlobWatermark(below, node.time)


def _is_the_only_one(source: AssignTime, plan: Node) -> bool:
    """Of the plan; the queries of a statement set have the same one where they read the same table."""
    others = list(watermarked_nodes(plan))
    if isinstance(plan, StatementSet):
        return all(other.table == source.table for other in others)
    return others == [source]
