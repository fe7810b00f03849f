"""An aggregate over a window table function becomes one node that assigns the windows and aggregates."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner.nodes import Node
from sqlstream.planner.rewriting import bottom_up


def fuse_windows_into_aggregate(plan: Node) -> Node:
    return bottom_up(plan, lambda node: node.with_windows_fused())
