"""Streaming clauses that stand where no window is, and EMIT behind a query whose windows are below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sqlstream.grammar.nodes import Emit, EmitKind, StreamClauses
from sqlstream.planner.binder.apart import apart
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.firing import bind_firing
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.triggers import Fired
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Project, Union
from sqlstream.planner.operators.over import Over
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.window_join import WindowJoin
from sqlstream.planner.operators.windows import AssignWindows


def refuse_clauses(clauses: StreamClauses, context: Context) -> None:
    """TRIGGER, EVICT and LATE DATA of a SELECT that aggregates nothing in windows."""
    for name, clause in (("TRIGGER", clauses.trigger), ("EVICT", clauses.evict), ("LATE DATA", clauses.late_data)):
        if clause is not None:
            hint = "Add a window such as TUMBLE to GROUP BY."
            context.wrong("SS211", f"{name} needs a window", clause.span, hint)


def with_emit(emit: Emit | None, node: Node, select: exp.Expr, context: Context) -> Node:
    """The plan of a query whose EMIT speaks of the windows in its subqueries."""
    if emit is None:
        return node
    if emit.kind is EmitKind.ON_WINDOW_CLOSE and emit.interval is None:
        return _closing(emit, node, context)
    if not any(isinstance(n, WindowAggregate | AssignWindows) for n in node.walk()):
        if emit.kind is not EmitKind.CHANGES:
            context.refuse("emit without window", emit.span)
        return node
    return _emitting(emit, node, select, context)


def _closing(emit: Emit, node: Node, context: Context) -> Node:
    """Windows below emit when they close; without any, rows wait until the watermark has passed their time."""
    aggregates = [n for n in node.walk() if isinstance(n, WindowAggregate)]
    if any(n.firing.trigger is not None for n in aggregates):
        context.wrong("SS229", "TRIGGER and EMIT both say when windows fire", emit.span, "Keep one of the two.")
    assigned = any(isinstance(n, AssignWindows) for n in node.walk()) and node.changelog_mode == APPEND_ONLY
    return node if aggregates or assigned else _held(emit, node, context)


def _held(emit: Emit, node: Node, context: Context) -> Node:
    """The rows that are left when the watermark has passed them. Operators that wait for it have done so already."""
    final = node if node.changelog_mode == APPEND_ONLY else node.append_only_variant()
    if final is not None and all(map(_waits, _sources(final))):
        return final
    held = node if final is None else final
    time = next((f.name for f in held.schema if f.time in (TimeDomain.EVENT, TimeDomain.INGESTION)), None)
    if time is None:
        context.refuse("emit on close", emit.span)
        return node
    keys = sorted(held.upsert_keys, key=lambda key: (len(key), sorted(key)))
    return check_changes(TemporalSort(held, time, keys=tuple(sorted(keys[0])) if keys else ()), context, emit.span)


def _sources(node: Node) -> Iterator[Node]:
    """The operators with state, and the tables, whose rows come out through operators without state."""
    if node.keeps_state or not node.inputs:
        yield node
    else:
        yield from (source for child in node.inputs for source in _sources(child))


def _waits(source: Node) -> bool:
    """Do its results come out when the watermark has passed them?"""
    return isinstance(source, Over | TemporalSort | WindowJoin) and TimeDomain.EVENT in source.awaited_domains


def _emitting(emit: Emit, node: Node, select: exp.Expr, context: Context) -> Node:
    match node:
        case WindowAggregate():
            return _aggregate_emitting(emit, node, select, context)
        case Project() | Filter() | Union():
            return node.with_inputs(tuple(_emitting(emit, child, select, context) for child in node.inputs))
    context.refuse("emit", emit.span)
    return node


def _aggregate_emitting(emit: Emit, node: WindowAggregate, select: exp.Expr, context: Context) -> Node:
    if node.firing.trigger is not None:
        raise bind_error("SS229", "TRIGGER and EMIT both say when windows fire", emit.span, "Keep one of the two.")
    info = node.window_info
    assert info is not None
    timed = node.time is not None or any(isinstance(n, AssignWindows) and n.time for n in node.walk())
    fired = Fired(info.window, node.columns, node.domain, timed, Scope(node.input, ()), context, emit.span)
    asked = bind_firing(StreamClauses(), emit, fired)
    late = replace(node.firing.late, allow_ms=max(node.firing.late.allow_ms, asked.late.allow_ms))
    firing = replace(node.firing, trigger=asked.trigger, accumulation=asked.accumulation, late=late)
    return apart(replace(node, firing=firing), select)
