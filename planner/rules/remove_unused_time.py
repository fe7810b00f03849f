"""Watermarks that no window above waits for are not computed, and do not stop filters and pruning."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import FieldNames
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Project


def remove_unused_time(plan: Node) -> Node:
    return _remove(plan, frozenset())


def _remove(node: Node, needed: FieldNames) -> Node:
    """``needed``: the fields of ``node`` that windows above are built on.

    Columns of PROCTIME() and INGESTION_TIME() stay as long as somebody reads them; pruning removes them.
    """
    below = node.watermark_fields_needed(needed)
    rebuilt = node.with_inputs(tuple(_remove(child, below) for child in node.inputs))
    if isinstance(rebuilt, AssignTime) and rebuilt.domain is TimeDomain.EVENT and rebuilt.column not in needed:
        return _without_field(rebuilt.input, rebuilt.follows)
    return rebuilt.without_unused_time(needed)


def _without_field(node: Node, name: str | None) -> Node:
    """The node without the field that only the watermark follows."""
    if name is None:
        return node
    if isinstance(node, Project):
        return replace(node, items=tuple(i for i in node.items if i.name != name))
    return Project(node, tuple(f.as_item for f in node.schema if f.name != name))
