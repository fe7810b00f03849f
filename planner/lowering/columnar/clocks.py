"""Which clocks a plan on the columnar gear needs: watermarks of event time, the clock of processing time, ticks of it.

Spark has one watermark per query. Where windows wait for event time, processing time comes as ticks, rows that reach
every key group; otherwise the clock itself is Spark's watermark. Lookups that defer rows need micro-batches in which
they are asked for again, and rows held by barriers such in which they say so, so ticks make some.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.lower import watermarked_nodes
from sqlstream.planner.nodes import AlignBarriers, AssignWindows, Lookup, Node, WindowAggregate
from sqlstream.planner.properties import keeps_state, uses_processing_time
from sqlstream.udfs.spark.clocks import Watermark

WindowNode = AssignWindows | WindowAggregate


def stateful_nodes(plan: Node) -> Iterator[Node]:
    """The nodes that keep state, top down."""
    return filter(keeps_state, plan.walk())


def defers(plan: Node) -> bool:
    """True where rows of the plan may wait in state, and hold the watermark: for lookups, or for barriers."""
    return waits_for_lookups(plan) or any(isinstance(n, AlignBarriers) and n.holds for n in plan.walk())


def waits_for_lookups(plan: Node) -> bool:
    """True where they may wait for lookups, and go on without further input."""
    return any(isinstance(node, Lookup) for node in stateful_nodes(plan))


def watermark_of(plan: Node) -> Watermark:
    """What Spark's watermark is in the plan."""
    if any(node.domain is not TimeDomain.PROCESSING for node in watermarked_nodes(plan)):
        return Watermark.EVENT_TIME
    return Watermark.CLOCK if any(map(uses_processing_time, stateful_nodes(plan))) else Watermark.NONE


def clock_ticks(plan: Node) -> bool:
    """True where processing time comes as ticks: no watermark of a table is the clock."""
    if not any(map(uses_processing_time, stateful_nodes(plan))):
        return False
    return watermark_of(plan) is Watermark.EVENT_TIME or not list(watermarked_nodes(plan))


def needs_ticks(plan: Node) -> bool:
    """True where ticks must come, as processing time or to call what holds rows."""
    return clock_ticks(plan) or defers(plan)


def ends_by_tick(plan: Node) -> bool:
    """True where the end of a bounded input is told by a tick, because no table has a watermark."""
    return clock_ticks(plan) and not list(watermarked_nodes(plan))
