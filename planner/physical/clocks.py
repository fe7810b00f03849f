"""Which clocks a plan needs: watermarks of event time, the clock of processing time, ticks of it.

Spark has one watermark per query. Where windows wait for event time, processing time comes as ticks, rows that reach
every key group; otherwise the clock itself is Spark's watermark. Lookups that defer rows need micro-batches in which
they are asked for again, and rows held by barriers such in which they say so, so ticks make some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, StatementSet
from sqlstream.planner.properties import WaitsFor
from sqlstream.udfs.spark.watermark import Watermark


@dataclass(frozen=True)
class PlanClocks:
    """``watermark`` is what Spark's watermark is. ``ticks``: processing time comes as ticks, as no watermark of a table
    is the clock. ``waiting``: what rows of the plan may wait for. ``ends_by_tick``: the end of a bounded input is told
    by a tick, as no table has a watermark.

    On the native gear nothing but the watermark tells time.
    """

    watermark: Watermark = Watermark.NONE
    ticks: bool = False
    waiting: frozenset[WaitsFor] = frozenset()
    ends_by_tick: bool = False

    @property
    def rows_wait(self) -> bool:
        """True where rows of the plan may wait in state, and hold the watermark."""
        return bool(self.waiting)

    @property
    def needs_ticks(self) -> bool:
        """True where ticks must come, as processing time or to call what holds rows."""
        return self.ticks or self.rows_wait


def clocks_of(plan: Node, marks: tuple[AssignTime, ...]) -> PlanClocks:
    """The clocks on the columnar gear."""
    stateful = list(stateful_nodes(plan))
    by_clock = any(each.uses_processing_time for each in stateful)
    event_time = any(mark.domain is not TimeDomain.PROCESSING for mark in marks)
    ticks = by_clock and (event_time or not marks)
    by_time = Watermark.CLOCK if by_clock else Watermark.NONE
    return PlanClocks(
        Watermark.EVENT_TIME if event_time else by_time,
        ticks,
        frozenset(domain for node in stateful if (domain := node.waits_for) is not None),
        ends_by_tick=ticks and not marks,
    )


def stateful_nodes(plan: Node) -> Iterator[Node]:
    """The nodes that keep state, top down."""
    return (node for node in plan.walk() if node.keeps_state)


def watermarked_nodes(plan: Node, awaited: frozenset[TimeDomain] = frozenset()) -> Iterator[AssignTime]:
    """The time attributes that get a watermark: those that an operator above waits for."""
    waiting = [(plan, awaited)]
    while waiting:
        node, domains = waiting.pop()
        if isinstance(node, AssignTime) and node.domain in domains:
            yield node
        below = domains | node.awaited_domains
        waiting += ((child, below) for child in reversed(node.inputs))


def observes_watermarks(plan: Node) -> bool:
    """True where several watermarks make one: Spark's checkpoint then holds the least of them only.

    The queries of a statement set read each table as one source, so that all its watermarks are the same.
    """
    nodes = list(watermarked_nodes(plan))
    return len({node.table for node in nodes} if isinstance(plan, StatementSet) else nodes) > 1
