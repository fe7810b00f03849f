"""EXPLAIN: which stage of a plan, in which format.

PHYSICAL and SPARK are stages of the lowering, which has a function of its own for them; the session asks one or the
other by ``PLANNER_STAGES``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlstream.grammar.depth import on_deep_stack
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.changes import Changes, changes_of
from sqlstream.planner.explain.text import json_text, mermaid, plan_tree, tree, with_properties
from sqlstream.planner.explain.to_json import VERSION, encode, to_json
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime
from sqlstream.planner.properties import Remark, ShownNames, Topic, changelog_text
from sqlstream.planner.rules import STAGES, Stage, optimize, trace

# --- ADVICE ----------------------------------------------------------------------------------------------------


def advice(plan: Node, rules: Sequence[Stage] = STAGES) -> list[str]:
    """The sentences of EXPLAIN ADVICE about a bound plan, most important first."""
    optimized = optimize(plan, rules)
    remarks = [*_said(optimized), *((Topic.UNUSED_WATERMARKS, text) for text in _unused_watermarks(plan, optimized))]
    return [text for _, text in sorted(remarks, key=lambda remark: remark[0])]


def latency(plan: Node) -> Iterator[str]:
    """Yields a sentence on the minimum latency of each windowed operator: no result can be emitted earlier."""
    return (text for topic, text in _said(plan) if topic is Topic.LATENCY)


def _said(plan: Node) -> Iterator[Remark]:
    """The remarks on all nodes, top down; those on latency once, as nodes may share their windows."""
    floors: set[str] = set()
    for topic, text in _remarks(plan, {}):
        if topic is not Topic.LATENCY or text not in floors:
            yield topic, text
        if topic is Topic.LATENCY:
            floors.add(text)


def _remarks(plan: Node, shown: ShownNames) -> Iterator[Remark]:
    waiting = [(plan, shown)]
    while waiting:
        node, shown = waiting.pop()
        yield from node.remarks(shown)
        below = node.shown_below(shown)
        waiting.extend((input_, below) for input_ in reversed(node.inputs))


def _unused_watermarks(plan: Node, optimized: Node) -> Iterator[str]:
    used = {(n.table, n.column) for n in optimized.walk() if isinstance(n, AssignTime)}
    seen: set[tuple[str, str]] = set()
    for node in plan.walk():
        if isinstance(node, AssignTime) and node.domain is TimeDomain.EVENT:
            key = (node.table, node.column)
            if key not in used and key not in seen:
                yield f'The watermark of "{node.table}" on "{node.column}" is not used: no window waits for it.'
            seen.add(key)


PLANNER_STAGES = ("LOGICAL", "OPTIMIZED", "TRACE", "CHANGELOG_MODE", "ADVICE")


def formats_of(stage: str) -> tuple[str, ...]:
    """The formats (TEXT, JSON, …) in which EXPLAIN can show a stage of ``PLANNER_STAGES``. A stage that is not a single
    plan has no diagram.
    """
    return ("TEXT", "JSON") if stage in ("TRACE", "ADVICE") else ("TEXT", "JSON", "MERMAID")


@on_deep_stack
def explain(
    plan: Node,
    format: str = "TEXT",  # noqa: A002
    stage: str = "OPTIMIZED",
    rules: Sequence[Stage] = STAGES,
) -> str:
    """Returns the text of EXPLAIN for a bound plan, as it is at one of ``PLANNER_STAGES``. ``format`` must be one of
    ``formats_of(stage)``; ``rules`` optimize the plan.
    """
    assert stage in PLANNER_STAGES and format in formats_of(stage), f"EXPLAIN {format} {stage} is not the planner's"
    if format == "JSON":
        return json_text(_document(plan, stage, rules))
    if format == "MERMAID":
        if stage == "CHANGELOG_MODE":
            return mermaid(changes_of(optimize(plan, rules)), with_properties)
        return mermaid(plan if stage == "LOGICAL" else optimize(plan, rules), lambda node: node.describe())
    return _text(plan, stage, rules)


def _text(plan: Node, stage: str, rules: Sequence[Stage]) -> str:
    match stage:
        case "LOGICAL":
            return plan_tree(plan)
        case "TRACE":
            return "\n\n".join(f"{name}:\n{plan_tree(after)}" for name, after in trace(plan, rules))
        case "CHANGELOG_MODE":
            return tree(changes_of(optimize(plan, rules)), with_properties)
        case "ADVICE":
            return "\n".join(advice(plan, rules)) or "Nothing to say about this plan."
    optimized = optimize(plan, rules)
    return "\n".join([plan_tree(optimized), *latency(optimized)])


def _document(plan: Node, stage: str, rules: Sequence[Stage]) -> dict[str, Any]:
    match stage:
        case "LOGICAL":
            return to_json(plan)
        case "TRACE":
            return {"version": VERSION, "stages": [{"name": n, "plan": encode(p)} for n, p in trace(plan, rules)]}
        case "CHANGELOG_MODE":
            optimized = optimize(plan, rules)
            return {**to_json(optimized), "properties": [_properties(c) for c in changes_of(optimized).walk()]}
        case "ADVICE":
            return {"version": VERSION, "advice": advice(plan, rules)}
    return to_json(optimize(plan, rules))


def _properties(changes: Changes) -> dict[str, Any]:
    """In the order of the tree, top down."""
    node = changes.node
    return {
        "node": type(node).__name__,
        "changelog_mode": changelog_text(changes.kinds),
        "drops_before": changes.drops,
        "upsert": [sorted(key) for key in sorted(node.upsert_keys, key=sorted)],
        "time": [f.name for f in node.schema if f.time is not None],
        "unique": [sorted(key) for key in sorted(node.unique_keys, key=sorted)],
        "bounded": node.bounded,
        "order": node.arrival_order.value,
    }
