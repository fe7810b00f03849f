"""Completeness: every plan node has a lowering and a description."""

from __future__ import annotations

import inspect

import pytest

from sqlstream.planner import nodes
from sqlstream.planner.lowering.lower import lower_node

CONCRETE = [
    kind
    for _, kind in inspect.getmembers(nodes, inspect.isclass)
    if issubclass(kind, nodes.Node) and kind not in (nodes.Node, nodes.Unary)
]


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_every_node_has_a_lowering(kind):
    assert lower_node.dispatch(kind) is not lower_node.dispatch(object)
