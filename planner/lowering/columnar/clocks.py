"""Which clocks a plan on the columnar gear needs: watermarks of event time, the clock of processing time, ticks of it.

Spark has one watermark per query. Where windows wait for event time, processing time comes as ticks, rows that reach
every key group; otherwise the clock itself is Spark's watermark. Lookups that defer rows need micro-batches in which
they are asked for again, and rows held by barriers such in which they say so, so ticks make some.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.firing import (
    AfterProcessingTime,
    AfterSilence,
    EveryInterval,
    Trigger,
    UserTrigger,
    simple_triggers,
)
from sqlstream.planner.lowering.gears import keeps_state
from sqlstream.planner.lowering.lower import watermarked_nodes
from sqlstream.planner.nodes import (
    AlignBarriers,
    AssignWindows,
    CountWindow,
    Lookup,
    Node,
    ProcessTable,
    UserWindow,
    WindowAggregate,
)
from sqlstream.udfs.spark.clocks import Watermark

WindowNode = AssignWindows | WindowAggregate
StatefulNode = WindowNode | AlignBarriers | Lookup | ProcessTable


def stateful_nodes(plan: Node) -> Iterator[StatefulNode]:
    """The nodes that keep state, top down: windows that fire, barriers, lookups that defer, process functions."""
    for node in plan.walk():
        if isinstance(node, (AssignWindows, WindowAggregate, AlignBarriers, Lookup, ProcessTable)) and keeps_state(
            node
        ):
            yield node


def defers(plan: Node) -> bool:
    """True where rows of the plan may wait in state, and hold the watermark: for lookups, or for barriers."""
    return waits_for_lookups(plan) or any(map(_aligns, plan.walk()))


def waits_for_lookups(plan: Node) -> bool:
    """True where they may wait for lookups, and go on without further input."""
    return any(isinstance(node, Lookup) for node in stateful_nodes(plan))


def _aligns(node: Node) -> bool:
    return isinstance(node, AlignBarriers) and not node.at_least_once


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


def uses_processing_time(node: StatefulNode) -> bool:
    """True where windows of the node may fire by the clock, its function needs it, or it waits for the end of input
    that only the clock may tell."""
    if isinstance(node, Lookup):
        return False
    if isinstance(node, AlignBarriers):
        return _aligns(node) or node.timeout_ms is not None
    if isinstance(node, ProcessTable):
        return node.clock
    if node.domain is TimeDomain.PROCESSING and not isinstance(node.window, CountWindow):
        return True
    trigger = node.firing.trigger if isinstance(node, WindowAggregate) else None
    return isinstance(node.window, UserWindow) or any(map(_by_clock, simple_triggers(trigger)))


def _by_clock(trigger: Trigger) -> bool:
    match trigger:
        case AfterProcessingTime() | AfterSilence() | UserTrigger():
            return True
        case EveryInterval(domain=domain):
            return domain is TimeDomain.PROCESSING
    return False
