"""Columns that nobody reads are not read, computed or carried along."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.firing import UserEvictor, UserTrigger, simple_triggers
from sqlstream.planner.naming import passed
from sqlstream.planner.nodes import (
    LOOKUP_ERROR,
    AlignBarriers,
    AssignTime,
    AssignWindows,
    Correlate,
    Filter,
    Item,
    Lookup,
    Node,
    ProcessInput,
    ProcessTable,
    Project,
    Scan,
    StatementSet,
    Unary,
    Union,
    UserWindow,
    WindowAggregate,
)
from sqlstream.planner.rewriting import columns_of, read_by_firing, read_by_window, with_inputs

Names = frozenset[str]


def prune_columns(plan: Node) -> Node:
    return pruned(plan, _all(plan))


def _all(node: Node) -> Names:
    return frozenset(f.name for f in node.schema)


@singledispatch
def pruned(node: Node, required: Names) -> Node:
    """``node`` with at least the ``required`` fields. Roots need all fields of their input."""
    assert isinstance(node, Unary), f"no pruning for {type(node).__name__}"
    return replace(node, input=pruned(node.input, _all(node.input)))


@pruned.register
def _(node: Scan, required: Names) -> Node:
    # Predicates are evaluated over the columns that are read.
    needed = required.union(*(columns_of(p) for p in node.predicates))
    kept = tuple(c for c in node.columns if c in needed)
    return replace(node, columns=kept or node.columns[:1])


@pruned.register
def _(node: Filter, required: Names) -> Node:
    return replace(node, input=pruned(node.input, required | columns_of(node.condition)))


@pruned.register
def _(node: Project, required: Names) -> Node:
    # Rows are counted by what is left, so one column stays.
    items = tuple(i for i in node.items if i.name in required) or node.items[:1]
    needed = frozenset().union(*(columns_of(i.expression) for i in items))
    return replace(node, items=items, input=pruned(node.input, needed))


@pruned.register
def _(node: Union, required: Names) -> Node:
    names = [f.name for f in node.schema if f.name in required] or [node.schema[0].name]
    return replace(node, branches=tuple(_exactly(pruned(b, frozenset(names)), names) for b in node.branches))


def _exactly(branch: Node, names: list[str]) -> Node:
    """Branches of a union must agree, so what a filter still carries is projected away."""
    if [f.name for f in branch.schema] == names:
        return branch
    fields = {f.name: f for f in branch.schema}
    chosen = (fields[n] for n in names)
    return Project(branch, tuple(map(passed, chosen)))


@pruned.register
def _(node: AssignTime, required: Names) -> Node:
    if node.domain is TimeDomain.EVENT:
        return replace(node, input=pruned(node.input, required | {node.column}))
    if node.column not in required:
        return pruned(node.input, required)
    return replace(node, input=pruned(node.input, required - {node.column}))


@pruned.register
def _(node: Correlate, required: Names) -> Node:
    # The outputs belong together: a generator makes all or none of them.
    outputs = {f.name for f in node.outputs}
    return replace(node, input=pruned(node.input, (required - outputs) | columns_of(node.function)))


@pruned.register
def _(node: Lookup, required: Names) -> Node:
    wanted = required | columns_of(node.condition) if node.condition is not None else required
    # Rows are counted by what is left, so one output stays; a key is known without reading more.
    outputs = tuple(o for o in node.outputs if o.name in wanted) or (_cheapest(node),)
    read = frozenset().union(*(columns_of(o.expression) for o in outputs))
    asked = frozenset().union(*(columns_of(k.expression) for k in node.keys))
    failed = frozenset().union(*(columns_of(v) for v in node.failed.values)) if node.failed else frozenset()
    below = ((wanted - {o.name for o in node.outputs}) | asked | failed) - {LOOKUP_ERROR}
    rebuilt = replace(node, outputs=outputs, read=tuple(f for f in node.read if f.name in read))
    return replace(rebuilt, input=pruned(node.input, below))


def _cheapest(node: Lookup) -> Item:
    keys = {k.name for k in node.keys}
    return next((o for o in node.outputs if columns_of(o.expression) <= keys), node.outputs[0])


@pruned.register
def _(node: AlignBarriers, required: Names) -> Node:
    read = frozenset().union(*map(columns_of, node.expressions))
    return replace(node, input=pruned(node.input, (required - {node.output.name}) | read))


@pruned.register
def _(node: StatementSet, required: Names) -> Node:
    return with_inputs(node, tuple(pruned(insert, _all(insert)) for insert in node.inserts))


@pruned.register
def _(node: AssignWindows, required: Names) -> Node:
    own = {node.columns.start, node.columns.end, node.columns.time}
    read = {*node.partition_by, *_time(node), *read_by_window(node.window), *_shown_to_classes(node)}
    return replace(node, input=pruned(node.input, (required - own) | read))


@pruned.register
def _(node: WindowAggregate, required: Names) -> Node:
    aggregates = tuple(a for a in node.aggregates if a.name in required)
    own = {node.columns.start, node.columns.end, node.columns.time}
    read = frozenset(node.keys).union(*(columns_of(a.expression) for a in aggregates), read_by_firing(node.firing))
    read |= _shown_to_classes(node)
    # Late rows carry the bounds of the window that this node assigns.
    read = (read | _time(node) | read_by_window(node.window)) - own if node.window is not None else read | own
    pane, pane_index = (name if name in required else None for name in (node.pane, node.pane_index))
    rebuilt = replace(node, aggregates=aggregates, pane=pane, pane_index=pane_index)
    return replace(rebuilt, input=pruned(node.input, read))


@pruned.register
def _(node: ProcessTable, required: Names) -> Node:
    # What the function reads of its rows, nobody knows.
    tables = (pruned(table, _given(argument)) for table, argument in zip(node.tables, node.arguments, strict=True))
    return replace(node, tables=tuple(tables))


def _given(argument: ProcessInput) -> Names:
    """The fields of a table that a process function is given."""
    time = [argument.time] if argument.time is not None else []
    return frozenset({*argument.fields, *argument.partition_by, *argument.passed, *time})


def _time(node: AssignWindows | WindowAggregate) -> Names:
    return frozenset({node.time} if node.time else ())


def _shown_to_classes(node: AssignWindows | WindowAggregate) -> Names:
    """Python classes of users see whole rows: which columns they read, nobody knows."""
    seen = isinstance(node.window, UserWindow)
    if isinstance(node, WindowAggregate):
        firing = node.firing
        seen |= any(isinstance(found, UserTrigger) for found in simple_triggers(firing.trigger))
        seen |= firing.eviction is not None and isinstance(firing.eviction.evictor, UserEvictor)
    return _all(node.input) if seen else frozenset()
