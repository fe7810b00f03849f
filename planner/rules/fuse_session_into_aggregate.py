"""An aggregate by session over the session table function becomes one node that assigns and aggregates.

Unfused, the rows of a session are kept until it closes; fused, only their aggregates are.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.binder.naming import Names, passed
from sqlstream.planner.nodes import AssignWindows, Item, Node, Project, Session, WindowAggregate, WindowColumns
from sqlstream.planner.rewriting import bottom_up, columns_of


def fuse_session_into_aggregate(plan: Node) -> Node:
    return bottom_up(plan, lambda node: _fused(node) if isinstance(node, WindowAggregate) else node)


def _fused(node: WindowAggregate) -> Node:
    match node.input:
        case AssignWindows(window=Session() as session) as assign:
            names = {f.name: f.name for f in assign.schema}
            if _may_fuse(node, assign, names):
                return replace(node, input=assign.input, window=session, time=assign.time)
        case Project(input=AssignWindows(window=Session() as session) as assign) as project:
            names = {i.name: i.expression.name for i in project.items if isinstance(i.expression, exp.Column)}
            kept = tuple(i for i in project.items if i.name not in _columns(node.columns))
            if _may_fuse(node, assign, names) and not any(_reads(i, assign.columns) for i in kept):
                below, time = _below_window(kept, assign)
                return replace(node, input=below, window=session, time=time)
    return node


def _columns(columns: WindowColumns) -> set[str]:
    return {columns.start, columns.end, columns.time}


def _reads(item: Item, columns: WindowColumns) -> bool:
    return bool(columns_of(item.expression) & _columns(columns))


def _may_fuse(node: WindowAggregate, assign: AssignWindows, names: dict[str, str]) -> bool:
    """``names`` maps the input's fields to those of ``assign`` that they pass on.

    UNSAFE where keys differ from PARTITION BY, since a session is one of equal keys, and where an aggregate reads
    the window, which is known only at the end. A filter in between also prevents it: filtered rows still hold their
    session together, and a session without any other row would appear.
    """
    if node.window is not None or node.grouping_sets is not None:
        return False
    # The third column, window_time, follows from the end whether it was passed on or computed again.
    bounds = (names.get(node.columns.start), names.get(node.columns.end))
    if bounds != (assign.columns.start, assign.columns.end):
        return False
    keys = [names.get(k) for k in node.keys]
    same = len(keys) == len(assign.partition_by) and set(keys) == set(assign.partition_by)
    return same and not any(_reads(a, node.columns) for a in node.aggregates)


def _below_window(kept: tuple[Item, ...], assign: AssignWindows) -> tuple[Project, str]:
    """The projection below the window, which therefore passes on the time column, and the name of that."""
    time = next(f for f in assign.input.schema if f.name == assign.time)
    name = Names(i.name for i in kept).unique(time.name)
    return Project(assign.input, (*kept, replace(passed(time), name=name))), name
