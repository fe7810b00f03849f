"""Watermarks that no window above waits for are not computed, and do not stop filters and pruning."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.naming import passed
from sqlstream.planner.nodes import AssignTime, Item, Node, Project
from sqlstream.planner.rewriting import with_inputs

Names = frozenset[str]


def remove_unused_time(plan: Node) -> Node:
    return _remove(plan, frozenset())


def _remove(node: Node, needed: Names) -> Node:
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
    return Project(node, tuple(passed(f) for f in node.schema if f.name != name))
