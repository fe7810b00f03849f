"""An aggregate over a window table function becomes one node that assigns the windows and aggregates."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner.nodes import Node
from sqlstream.planner.rewriting import bottom_up


def fuse_windows_into_aggregate(plan: Node) -> Node:
    return bottom_up(plan, with_windows)


@singledispatch
def with_windows(node: Node) -> Node:
    """An aggregate that assigns the windows of a table function below it; other nodes as they are."""
    return node
