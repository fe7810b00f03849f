"""Forms of a plan's tree: lines with the root first, Mermaid, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from sqlstream.planner.changes import Changes, changelog_texts
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node


class HasInputs(Protocol):
    """A node of a logical or a physical plan, as ``tree`` can print it."""

    @property
    def inputs(self: T) -> tuple[T, ...]: ...

    def walk(self: T) -> Iterator[T]: ...


T = TypeVar("T", bound=HasInputs)


def plan_tree(plan: Node) -> str:
    """The text of EXPLAIN: the nodes of a plan as an indented tree, each in one line."""
    return tree(plan, lambda node: node.describe())


def tree(root: T, label: Callable[[T], str]) -> str:
    """The text of a tree: one line per node, made by ``label``, with its inputs indented below it."""
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
    """The line of a node in EXPLAIN with its properties: changelog, time, keys."""
    return f"{changes.node.describe()}  {properties_text(changes)}"


def properties_text(changes: Changes) -> str:
    """The properties of a node: ``[append] time ts (event time), watermark delay 5 s, unique (k), unbounded, order
    source``.
    """
    node = changes.node
    parts = [f"[{changes.text}]", *changelog_texts(changes)]
    delay = node.watermark_delay_ms
    times = [f"{f.name} ({f.time.value})" for f in node.time_attributes if f.time is not None]
    parts += [f"time {', '.join(times)}"] if times else []
    parts += [f"watermark delay {readable(delay)}"] if delay is not None else []
    parts += [f"unique ({', '.join(sorted(key))})" for key in sorted(node.unique_keys, key=sorted)]
    parts += ["bounded" if node.bounded else "unbounded", f"order {node.arrival_order.value}"]
    return ", ".join(parts).replace("], ", "] ", 1)


# --- Mermaid ---------------------------------------------------------------------------------------------------
# A flowchart, sources at the top.

_ESCAPES = {"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "`": "&#96;"}


def mermaid(root: T, label: Callable[[T], str]) -> str:
    """The tree as a Mermaid ``flowchart TD`` with a box per node and an arrow from each input to its reader."""
    nodes = list(root.walk())
    ids = {id(node): f"n{i}" for i, node in enumerate(nodes)}
    lines = [f'    {ids[id(node)]}["{_escaped(label(node))}"]' for node in nodes]
    arrows = [f"    {ids[id(child)]} --> {ids[id(node)]}" for node in nodes for child in node.inputs]
    return "\n".join(["flowchart TD", *lines, *arrows])


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in text)


# --- JSON ------------------------------------------------------------------------------------------------------
# On several lines, as ``json.dumps`` with an indent of two, whose generators resume at each depth.

_STEP = "  "


def json_text(document: Any) -> str:
    """The JSON text of a document of dictionaries, lists and JSON's scalar values."""
    parts: list[str] = []
    _write(document, "\n", parts)
    return "".join(parts)


def _write(value: Any, line: str, parts: list[str]) -> None:
    """``line``: a line break and the indent that the value stands at."""
    inner = line + _STEP
    match value:
        case {}:
            before = "{"
            for key, member in value.items():
                parts += (before, inner, json.dumps(key, ensure_ascii=False), ": ")
                _write(member, inner, parts)
                before = ","
            parts += (line, "}") if value else ("{}",)
        case list() | tuple():
            before = "["
            for member in value:
                parts += (before, inner)
                _write(member, inner, parts)
                before = ","
            parts += (line, "]") if value else ("[]",)
        case _:
            parts.append(json.dumps(value, ensure_ascii=False))
