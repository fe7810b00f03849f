"""Rows of before are not kept where nobody above reads them: changes by key go as they are into a sink by this key."""

from __future__ import annotations

from sqlstream.planner.node import Node


def remove_normalize(plan: Node) -> Node:
    return _remove(plan, above=False)


def _remove(node: Node, above: bool) -> Node:
    """``above``: a node above needs rows of the kind -U."""
    rewritten = node if above else node.without_update_before()
    if rewritten is not node:
        return _remove(rewritten, above)
    inputs = enumerate(node.inputs)
    return node.with_inputs(tuple(_remove(child, node.reads_update_before(above, port)) for port, child in inputs))
