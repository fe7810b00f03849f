"""GROUP BY over windows: AssignWindows where a clause asks for it, WindowAggregate, HAVING, and a projection above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar.nodes import EmitKind
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.aggregate_calls import Groups
from sqlstream.planner.binder.apart import apart
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.context import Context, Relation
from sqlstream.planner.binder.expressions import ClauseContext
from sqlstream.planner.binder.firing import bind_firing
from sqlstream.planner.binder.group_aggregate import bind_group_aggregate
from sqlstream.planner.binder.group_results import having_of, projected, result_of, with_keys
from sqlstream.planner.binder.grouping import GroupedWindow, Grouping, Key, bind_grouping
from sqlstream.planner.binder.scope import Scope, scope_of
from sqlstream.planner.binder.select_list import expand
from sqlstream.planner.binder.state_ttl import ttl_ms_of
from sqlstream.planner.binder.triggers import Fired
from sqlstream.planner.binder.window_columns import complete_columns
from sqlstream.planner.binder.window_properties import GroupNames
from sqlstream.planner.binder.windows import WINDOW_COLUMNS, assign_windows
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Item
from sqlstream.planner.firing import Firing
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.windows import CLOSES_AT_ONCE, AlignedWindow, Tumble, Window, WindowColumns


@dataclass(frozen=True)
class Windowed:
    """The input of an aggregation. ``keys`` maps bound grouping expressions to fields, in order.

    ``grouped`` is the window if it stood in GROUP BY; its AssignWindows then is on top. ``below`` has the names of the
    rows without those of their windows; ``time`` is the field that gave them these, None for the clock.
    """

    scope: Scope
    below: Scope
    keys: dict[exp.Expression, str]
    columns: WindowColumns
    window: Window
    time: str | None
    domain: TimeDomain
    grouped: GroupedWindow | None


def bind_aggregation(select: exp.Select, scope: Scope, context: Context) -> Relation:
    """The plan of a SELECT with groups and the names of its columns."""
    return _bound(select, bind_grouping(select, scope, context), scope, scope.tables, context)


def bind_distinct(relation: Relation, at: exp.Expr, tables: Sequence[str], context: Context) -> Relation:
    """The distinct rows of a relation, made of ``tables``: GROUP BY all columns. ``at``: what asks for them."""
    scope = scope_of(relation, None)
    keys = tuple(Key(at, field_of(f.name), f.name) for f in relation.fields)
    return _bound(exp.select("*").group_by(at.copy()), Grouping(keys, None, None), scope, tables, context)


def _bound(select: exp.Select, grouping: Grouping, scope: Scope, tables: Sequence[str], context: Context) -> Relation:
    """By its window, or that of its input; else results are updated for ever. ``tables``: those of FROM."""
    if grouping.window is None and not _groups_by_window(grouping, scope):
        grouping = _closed_by_time(select, grouping, scope)
    if grouping.window is not None:
        return _aggregate(select, grouping, _window_from_clause(grouping, scope), context)
    if _groups_by_window(grouping, scope):
        return _aggregate(select, grouping, _window_from_input(select, grouping, scope, context), context)
    return bind_group_aggregate(select, grouping, scope, ttl_ms_of(tables, context), context)


def _closed_by_time(select: exp.Select, grouping: Grouping, scope: Scope) -> Grouping:
    """With EMIT ON WINDOW CLOSE groups of a time are closed when the watermark has passed it: those in its window of a
    millisecond."""
    emit = clauses_of(select).emit
    if emit is None or emit.kind is not EmitKind.ON_WINDOW_CLOSE:
        return grouping
    for number, key in enumerate(grouping.keys):
        field = scope.fields.get(key.bound.name) if isinstance(key.bound, exp.Column) else None
        in_all = all(number in numbers for numbers in grouping.sets or ())
        if field is not None and field.time is TimeDomain.EVENT and in_all:
            window = GroupedWindow(Tumble(CLOSES_AT_ONCE), field, spark=False, span=emit.span)
            return replace(grouping, window=window)
    return grouping


def _groups_by_window(grouping: Grouping, scope: Scope) -> bool:
    """Does GROUP BY name columns of the window that the input carries?"""
    attached = scope.node.window_info
    names = {k.bound.name for k in grouping.keys if isinstance(k.bound, exp.Column)}
    return attached is not None and bool(names & {c for c in attached.columns if c})


# --- the window -----------------------------------------------------------------------------------------------


def _window_from_clause(grouping: Grouping, scope: Scope) -> Windowed:
    """The window clause as the table function that means the same."""
    grouped = grouping.window
    assert grouped is not None
    below, keys = with_keys(grouping.keys, scope)
    partition_by = () if isinstance(grouped.window, AlignedWindow) else tuple(keys.values())
    assigned = assign_windows(below, grouped.window, grouped.time, partition_by)
    hidden = {c.name for c in below.columns} & set(WINDOW_COLUMNS)
    visible = tuple(c for c in assigned.columns if c in below.columns or c.name not in hidden)
    node = assigned.node
    assert isinstance(node, AssignWindows)
    scope = Scope(node, visible)
    return Windowed(scope, below, keys, node.columns, node.window, node.time, node.domain, grouped)


def _window_from_input(select: exp.Select, grouping: Grouping, scope: Scope, context: Context) -> Windowed:
    """The window whose columns the input carries and GROUP BY names."""
    attached = scope.node.window_info
    assert attached is not None
    names = {k.bound.name for k in grouping.keys if isinstance(k.bound, exp.Column)}
    rest = _other_keys(grouping, {c for c in attached.columns if c}, context)
    scope, columns = complete_columns(scope, attached, names, select.args["group"])
    scope, keys = with_keys(rest, scope)
    bounds = {columns.start, columns.end, columns.time}
    below = Scope(scope.node, tuple(c for c in scope.columns if c.field not in bounds))
    time = next((n.time for n in scope.node.walk() if isinstance(n, AssignWindows)), None)
    return Windowed(scope, below, keys, columns, attached.window, time, attached.domain, None)


def _other_keys(grouping: Grouping, window: set[str], context: Context) -> tuple[Key, ...]:
    """The keys but for the window's columns, which must be part of every grouping set."""
    for i, key in enumerate(grouping.keys):
        if _names(key.bound, window) and any(i not in s for s in grouping.sets or ()):
            hint = "Write it beside the sets: GROUP BY GROUPING SETS (…), window_start, window_end."
            context.wrong("SS213", f'"{key.written.name}" must be part of every grouping set', key.written, hint)
    return tuple(k for k in grouping.keys if not _names(k.bound, window))


def _names(bound: exp.Expr, fields: set[str]) -> bool:
    return isinstance(bound, exp.Column) and bound.name in fields


# --- the aggregation ------------------------------------------------------------------------------------------


def _aggregate(select: exp.Select, grouping: Grouping, windowed: Windowed, context: Context) -> Relation:
    scope, columns = windowed.scope, windowed.columns
    # The grouping id and the panes must not be mistaken for fields of the input.
    reserved = Names([f.name for f in scope.node.schema])
    grouping_id = reserved.unique("grouping_id") if grouping.sets is not None else None
    panes = (reserved.unique("window_pane"), reserved.unique("window_pane_index"))
    window_fields = {columns.start, columns.end, columns.time, *panes, *([grouping_id] if grouping_id else [])}
    names = Names([*windowed.keys.values(), *window_fields])
    groups = Groups(scope.node.schema, windowed.keys, frozenset(window_fields), context, names)
    below = windowed.below if windowed.grouped else scope
    special = GroupNames(below, columns, windowed.grouped, tuple(windowed.keys), grouping_id, panes, context)
    clause = ClauseContext("SELECT", True, special.column, special.call)
    selected = expand(select.expressions, scope, context)
    results = [result_of(c, scope, context, clause, groups) for c in selected]
    having = having_of(select, scope, context, special, groups)
    firing = _firing(select, windowed, context)
    context.stop_if_wrong()
    node = _node(windowed, grouping, groups.items, grouping_id, context, select)
    read = set().union(*map(columns_of, [*results, *([having] if having is not None else [])]))
    pane, pane_index = (name if name in read else None for name in panes)
    node = apart(replace(node, firing=firing, pane=pane, pane_index=pane_index), select)
    node = check_changes(node, context, select.args.get("group") or select)
    return projected(Filter(node, having) if having is not None else node, selected, results, scope, context)


def _firing(select: exp.Select, windowed: Windowed, context: Context) -> Firing:
    clauses = clauses_of(select)
    window = windowed.window
    span = clauses.window.span if clauses.window is not None else span_of(select)
    has_time = windowed.time is not None
    fired = Fired(window, windowed.columns, windowed.domain, has_time, windowed.below, context, span)
    return bind_firing(clauses, clauses.emit, fired)


def _node(
    windowed: Windowed,
    grouping: Grouping,
    aggregates: tuple[Item, ...],
    grouping_id: str | None,
    context: Context,
    select: exp.Select,
) -> WindowAggregate:
    keys, sets = tuple(windowed.keys.values()), _sets(windowed, grouping)
    node = WindowAggregate(
        windowed.scope.node, keys, aggregates, windowed.columns, None, None, sets, grouping_id, windowed.domain
    )
    if sets is not None and windowed.grouped is not None and not isinstance(windowed.window, AlignedWindow):
        return _window_per_set(node, windowed, select)
    return node


def _sets(windowed: Windowed, grouping: Grouping) -> tuple[tuple[str, ...], ...] | None:
    """The fields of each grouping set, without those of a window in the input, which are no keys."""
    if grouping.sets is None:
        return None
    fields = [windowed.keys.get(k.bound) for k in grouping.keys]
    return tuple(tuple(f for i in s if (f := fields[i]) is not None) for s in grouping.sets)


def _window_per_set(node: WindowAggregate, windowed: Windowed, select: exp.Select) -> WindowAggregate:
    """Such windows are those of the keys of each set, so they cannot be assigned before the sets are made."""
    attached = {node.columns.start, node.columns.end, node.columns.time}
    if any(columns_of(a.expression) & attached for a in node.aggregates):
        raise unsupported.refusal("window columns in aggregates", span_of(select))
    return replace(node, input=windowed.below.node, window=windowed.window, time=windowed.time)
