"""Watermarks that no window above waits for are not computed, and do not stop filters and pruning."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.nodes import AssignTime, AssignWindows, Item, Node, ProcessTable, Project, WindowAggregate
from sqlstream.planner.rewriting import with_inputs

Names = frozenset[str]


def remove_unused_time(plan: Node) -> Node:
    return _remove(plan, frozenset())


def _remove(node: Node, needed: Names) -> Node:
    """``needed``: the fields of ``node`` that windows above are built on.

    Columns of PROCTIME() and INGESTION_TIME() stay as long as somebody reads them; pruning removes them.
    """
    below = _needed_below(node, needed)
    rebuilt = with_inputs(node, tuple(_remove(child, below) for child in node.inputs))
    if isinstance(rebuilt, AssignTime) and rebuilt.domain is TimeDomain.EVENT and rebuilt.column not in needed:
        return rebuilt.input
    return _marked_as_below(rebuilt) if isinstance(rebuilt, Project) else rebuilt


def _needed_below(node: Node, needed: Names) -> Names:
    match node:
        case AssignWindows(time=str() as time):
            return frozenset({time})
        case WindowAggregate(time=str() as time):
            return frozenset({time})
        case AssignWindows() | WindowAggregate():
            return frozenset()
        case ProcessTable(arguments=arguments):
            return frozenset(a.time for a in arguments if a.time is not None)
        case Project():
            read = (i.expression for i in node.items if i.name in needed)
            return frozenset(e.name for e in read if isinstance(e, exp.Column))
    return needed


def _marked_as_below(project: Project) -> Project:
    """Columns are time attributes, and not null, only as far as those below still are."""
    below = {f.name: f for f in project.input.schema}

    def marked(item: Item) -> Item:
        if not isinstance(item.expression, exp.Column) or item.time is None:
            return item
        field = below[item.expression.name]
        return replace(item, time=field.time, nullable=field.nullable)

    return replace(project, items=tuple(marked(i) for i in project.items))
