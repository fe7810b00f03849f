"""An aggregate by session over the session table function becomes one node that assigns and aggregates.

Unfused, the rows of a session are kept until it closes; fused, only their aggregates are.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.binder.naming import Names, field_of
from sqlstream.planner.nodes import AssignWindows, Item, Node, Project, Session, WindowAggregate
from sqlstream.planner.rewriting import bottom_up, columns_of


def fuse_session_into_aggregate(plan: Node) -> Node:
    return bottom_up(plan, lambda node: _fused(node) if isinstance(node, WindowAggregate) else node)


def _fused(node: WindowAggregate) -> Node:
    match node.input:
        case AssignWindows(window=Session() as session) as assign:
            names = {f.name: f.name for f in assign.schema}
            if _may_fuse(node, assign, names):
                return replace(node, input=assign.input, session=session, time=assign.time)
        case Project(input=AssignWindows(window=Session() as session) as assign) as project:
            names = {i.name: i.expression.name for i in project.items if isinstance(i.expression, exp.Column)}
            if _may_fuse(node, assign, names) and _computes_without_window(project, assign):
                below, time = _without_window(project, assign)
                return replace(node, input=below, session=session, time=time)
    return node


def _may_fuse(node: WindowAggregate, assign: AssignWindows, names: dict[str, str]) -> bool:
    """UNSAFE where keys differ from PARTITION BY, since a session is one of equal keys, and where an aggregate reads
    the window, which is known only at the end. A filter in between also prevents it: filtered rows still hold their
    session together, and a session without any other row would appear."""
    columns = (node.columns.start, node.columns.end, node.columns.time)
    if node.session is not None or node.grouping_sets is not None:
        return False
    if tuple(names.get(c) for c in columns) != (assign.columns.start, assign.columns.end, assign.columns.time):
        return False
    keys = [names.get(k) for k in node.keys]
    read = set().union(*(columns_of(a.expression) for a in node.aggregates)) if node.aggregates else set()
    return len(keys) == len(assign.partition_by) and set(keys) == set(assign.partition_by) and not read & set(columns)


def _computes_without_window(project: Project, assign: AssignWindows) -> bool:
    own = {assign.columns.start, assign.columns.end, assign.columns.time}
    return all(isinstance(i.expression, exp.Column) or not columns_of(i.expression) & own for i in project.items)


def _without_window(project: Project, assign: AssignWindows) -> tuple[Project, str]:
    """The projection below the window, which therefore passes on the time column, and the name of that."""
    own = {assign.columns.start, assign.columns.end, assign.columns.time}
    items = tuple(i for i in project.items if not (isinstance(i.expression, exp.Column) and i.expression.name in own))
    time = next(f for f in assign.input.schema if f.name == assign.time)
    name = Names(i.name for i in project.items).unique(time.name)
    passed = Item(name, field_of(time.name), time.type, time.nullable, time.time)
    return Project(assign.input, (*items, passed)), name
