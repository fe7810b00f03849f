"""A plan as a tree of lines, roots first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from sqlstream.planner.changes import Changes, changes_told
from sqlstream.planner.durations import readable
from sqlstream.planner.node import Node


class HasInputs(Protocol):
    """A node of a tree: of a plan, or a step of a physical one."""

    @property
    def inputs(self: T) -> tuple[T, ...]: ...

    def walk(self: T) -> Iterator[T]: ...


T = TypeVar("T", bound=HasInputs)


def plan_tree(plan: Node) -> str:
    """The nodes of a plan, each as it describes itself."""
    return tree(plan, lambda node: node.describe())


def tree(root: T, label: Callable[[T], str]) -> str:
    """One line per node, its inputs below it."""
    lines: list[str] = []
    waiting = [(root, "", "")]
    while waiting:
        node, first, rest = waiting.pop()
        lines.append(first + label(node))
        for position, child in enumerate(reversed(node.inputs)):
            branch, below = ("├─ ", "│  ") if position else ("└─ ", "   ")
            waiting.append((child, rest + branch, rest + below))
    return "\n".join(lines)


def with_properties(changes: Changes) -> str:
    """The line of a node and its properties."""
    return f"{changes.node.describe()}  {properties_text(changes)}"


def properties_text(changes: Changes) -> str:
    """``[append] time ts (event time), watermark delay 5 s, unique (k), unbounded, order source``."""
    node = changes.node
    parts = [f"[{changes.text}]", *changes_told(changes)]
    delay = node.watermark_delay_ms
    times = [f"{f.name} ({f.time.value})" for f in node.time_attributes if f.time is not None]
    parts += [f"time {', '.join(times)}"] if times else []
    parts += [f"watermark delay {readable(delay)}"] if delay is not None else []
    parts += [f"unique ({', '.join(sorted(key))})" for key in sorted(node.unique_keys, key=sorted)]
    parts += ["bounded" if node.bounded else "unbounded", f"order {node.arrival_order.value}"]
    return ", ".join(parts).replace("], ", "] ", 1)
