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
    below = needed_below(node, needed)
    rebuilt = with_inputs(node, tuple(_remove(child, below) for child in node.inputs))
    if isinstance(rebuilt, AssignTime) and rebuilt.domain is TimeDomain.EVENT and rebuilt.column not in needed:
        return _without_field(rebuilt.input, rebuilt.follows)
    return without_unused(rebuilt, needed)


def _without_field(node: Node, name: str | None) -> Node:
    """The node without the field that only the watermark follows."""
    if name is None:
        return node
    if isinstance(node, Project):
        return replace(node, items=tuple(i for i in node.items if i.name != name))
    return Project(node, tuple(passed(f) for f in node.schema if f.name != name))


@singledispatch
def without_unused(node: Node, needed: Names) -> Node:
    """The node, whose inputs are rebuilt already, without time attributes among its fields that nobody needs or that
    are none any more."""
    return node


@singledispatch
def needed_below(node: Node, needed: Names) -> Names:
    """The fields of the inputs of ``node`` whose watermark it or a node above needs, which needs ``needed``."""
    return needed


@needed_below.register
def _(node: Project, needed: Names) -> Names:
    read = (i.expression for i in node.items if i.name in needed)
    return frozenset(e.name for e in read if isinstance(e, exp.Column))


@without_unused.register
def _(project: Project, needed: Names) -> Node:
    """Columns are time attributes, and not null, only as far as those below still are."""
    below = {f.name: f for f in project.input.schema}

    def marked(item: Item) -> Item:
        if not isinstance(item.expression, exp.Column) or item.time is None:
            return item
        field = below[item.expression.name]
        return replace(item, time=field.time, nullable=field.nullable)

    return replace(project, items=tuple(marked(i) for i in project.items))
