"""A plan as a Mermaid flowchart, sources at the top."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream.planner.explain.text import T

_ESCAPES = {"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "`": "&#96;"}


def mermaid(root: T, label: Callable[[T], str]) -> str:
    """``flowchart TD`` with a box per node and an arrow from each input to its reader."""
    nodes = list(root.walk())
    ids = {id(node): f"n{i}" for i, node in enumerate(nodes)}
    lines = [f'    {ids[id(node)]}["{_escaped(label(node))}"]' for node in nodes]
    arrows = [f"    {ids[id(child)]} --> {ids[id(node)]}" for node in nodes for child in node.inputs]
    return "\n".join(["flowchart TD", *lines, *arrows])


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in text)
