"""What a physical plan says of Spark's plan, and what is in that: sources, operators with state, watermarks, Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from sqlstream.planner.catalog import ONE_ROW
from sqlstream.planner.node import Node
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.physical.shared_operators import branches
from sqlstream.planner.physical.steps import Ask, Compute, Mark, NativeState, Operator, Read, Step, WatermarkSource
from sqlstream.planner.properties import WaitsFor
from sqlstream.udfs.spark import Watermark

_OPERATORS = {
    "TransformWithStateInPySpark": "kernels",
    "Aggregate": "aggregations of Spark",
    "MapInArrow": "calls of Python",
    "EventTimeWatermark": "watermarks",
}
_SOURCE = re.compile(r"StreamingExecutionRelation \w+\[[^\]]*/([^/\]]+/[^/\]]+)\]")


def expected(plan: PhysicalPlan) -> Counter[str]:
    """How often each thing must be there; a source that is read twice counts once."""
    counts = Counter(_things(plan))
    return Counter({thing: 1 if "/" in thing else count for thing, count in counts.items()})


def _things(plan: PhysicalPlan) -> Iterator[str]:
    ticking = Watermark.CLOCK is plan.clocks.watermark and not plan.marks
    for step in plan.root.walk():
        match step:
            case Read(node=scan) if scan.table != ONE_ROW:  # whose source is no folder
                yield f"inputs/{scan.table.name}"
            case Mark(watermark_source=WatermarkSource.BY_ROWS | WatermarkSource.BY_BLOBS, node=mark):
                yield from ("watermarks", f"control/{mark.table}")
            case Operator(link=None, ticks=ticks, lookup=lookup, ports=ports):
                together = len(step.inputs) - len(branches(step))
                yield from ("kernels", *(["calls of Python"] * (len(ports) - together + 1)))
                yield from ["checkpoint/control-clock"] if ticks else []
                yield from ["watermarks"] if ticks and ticking else []
                yield from _asking((step.node,)) if lookup is not None else ()
            case NativeState():
                yield "aggregations of Spark"
            case Ask(lookups=lookups):
                yield from _asking(lookup for _, lookup in lookups)
            case Compute(arrow=True):
                yield "calls of Python"
        yield from _calls_of_every_key_group(step)


def _asking(lookups: Iterable[Node]) -> Iterator[str]:
    yield "calls of Python"
    if any(lookup.side_table is not None for lookup in lookups):
        yield "calls of Python"


def _calls_of_every_key_group(step: Step) -> Iterator[str]:
    """Kernels that hold rows are called in every micro-batch."""
    holds = isinstance(step, Operator) and step.node.waits_for is WaitsFor.ANSWERS
    holds = holds or getattr(step.node, "holds", False)
    if holds:
        yield from ("calls of Python", "checkpoint/control-clock")


def seen(query: Any) -> Counter[str]:
    """The same of a running query."""
    text = str(query._jsq.streamingQuery().logicalPlan().toString())
    counted = Counter(_SOURCE.findall(text))
    operators = (line.lstrip(" :+-~").split(" ", 1)[0] for line in text.splitlines())
    counts = Counter(_OPERATORS[name] for name in operators if name in _OPERATORS)
    return Counter(dict.fromkeys(counted, 1)) + counts
