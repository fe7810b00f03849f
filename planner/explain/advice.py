"""What is worth knowing about a plan before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime
from sqlstream.planner.properties import Remark, Topic
from sqlstream.planner.rules import STAGES, Stage, optimize


def advice(plan: Node, rules: Sequence[Stage] = STAGES) -> list[str]:
    """Sentences about a bound plan, most important first."""
    optimized = optimize(plan, rules)
    remarks = [*_said(optimized), *((Topic.UNUSED_WATERMARKS, text) for text in _unused_watermarks(plan, optimized))]
    return [text for _, text in sorted(remarks, key=lambda remark: remark[0])]


def latency(plan: Node) -> Iterator[str]:
    """The latency floor of each windowed operator: no result can come earlier."""
    return (text for topic, text in _said(plan) if topic is Topic.LATENCY)


def _said(plan: Node) -> Iterator[Remark]:
    """The remarks on all nodes, top down; those on latency once, as nodes may share their windows."""
    floors: set[str] = set()
    for topic, text in chain.from_iterable(node.remarks() for node in plan.walk()):
        if topic is not Topic.LATENCY or text not in floors:
            yield topic, text
        if topic is Topic.LATENCY:
            floors.add(text)


def _unused_watermarks(plan: Node, optimized: Node) -> Iterator[str]:
    used = {(n.table, n.column) for n in optimized.walk() if isinstance(n, AssignTime)}
    seen: set[tuple[str, str]] = set()
    for node in plan.walk():
        if isinstance(node, AssignTime) and node.domain is TimeDomain.EVENT:
            key = (node.table, node.column)
            if key not in used and key not in seen:
                yield f'The watermark of "{node.table}" on "{node.column}" is not used: no window waits for it.'
            seen.add(key)
