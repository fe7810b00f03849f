"""Aggregation: the groups of GROUP BY, with a window or without one, then HAVING, then a projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.grammar.nodes import EmitKind
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import aggregate_name, check_aggregate_types
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import WRITTEN_NAME, ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.firing import FiringContext, bind_firing, refuse_clauses, with_emit, with_own_windows
from sqlstream.planner.binder.grouping import (
    GroupedWindow,
    Grouping,
    GroupNames,
    Key,
    aliased,
    bind_grouping,
    has_timed_window,
)
from sqlstream.planner.binder.hints import ttl_ms_of
from sqlstream.planner.binder.no_rows import with_result_of_no_rows
from sqlstream.planner.binder.scope import Scope, Selected, Visible, expand, is_proctime, scope_of
from sqlstream.planner.binder.windows import WINDOW_COLUMNS, assign_windows, with_times_of_distinct
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import as_expression, columns_of, with_children_changed
from sqlstream.planner.fields import Item, Schema, UniqueNames, field_name, field_of
from sqlstream.planner.firing import Firing
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Project, Scan, extended
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.properties import WindowInfo
from sqlstream.planner.type_inference import Types
from sqlstream.planner.windows import CLOSES_AT_ONCE, DEFAULT_COLUMNS, AlignedWindow, Hop, Tumble, Window, WindowColumns
from sqlstream.types import TIMESTAMP


def bind_aggregation(select: exp.Select, scope: Scope, context: Context) -> Relation:
    """Binds a SELECT with GROUP BY, HAVING or aggregates. Returns its plan with the names of its columns."""
    if has_timed_window(select):
        scope = with_times_of_distinct(scope)
    return _bind_groups(select, bind_grouping(select, scope, context), scope, scope.tables, context)


def bind_distinct(relation: Relation, at: exp.Expr, tables: Sequence[str], context: Context) -> Relation:
    """Binds SELECT DISTINCT as GROUP BY all columns. ``relation`` is the SELECT without DISTINCT, which reads
    ``tables``; ``at`` is the syntax that requires distinct rows, for messages.
    """
    scope = scope_of(relation, None)
    keys = tuple(Key(at, field_of(f.name), f.name) for f in relation.fields)
    return _bind_groups(exp.select("*").group_by(at.copy()), Grouping(keys, None, None), scope, tables, context)


def _bind_groups(
    select: exp.Select, grouping: Grouping, scope: Scope, tables: Sequence[str], context: Context
) -> Relation:
    """Groups by the window of GROUP BY or by that of the input; without a window, results are updated without end."""
    if grouping.window is None and not _groups_by_window(grouping, scope):
        grouping = _closed_by_time(select, grouping, scope)
    if grouping.window is not None:
        return _aggregate(select, grouping, _window_from_clause(grouping, scope), context)
    if _groups_by_window(grouping, scope):
        return _aggregate(select, grouping, _window_from_input(select, grouping, scope, context), context)
    return bind_group_aggregate(select, grouping, scope, ttl_ms_of(tables, context), context)


def _closed_by_time(select: exp.Select, grouping: Grouping, scope: Scope) -> Grouping:
    """With EMIT ON WINDOW CLOSE, groups with an event time among their keys close when the watermark passes it: they
    get a window of one millisecond."""
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
    """Whether GROUP BY names columns of a window in the input."""
    attached = scope.node.window_info
    names = {k.bound.name for k in grouping.keys if isinstance(k.bound, exp.Column)}
    return attached is not None and bool(names & {c for c in attached.columns if c})


# --- groups in windows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windowed:
    """The input of an aggregation whose groups are windows.

    ``scope`` has the rows with the columns of their windows, ``below`` the same rows without them. ``keys`` maps each
    bound grouping expression to the name of its field, in the order of GROUP BY. ``time`` is the field by which rows
    are assigned to windows; None if the clock of processing time assigns them. ``grouped`` is the window written in
    GROUP BY; None if the window is a table function in FROM.
    """

    scope: Scope
    below: Scope
    keys: dict[exp.Expression, str]
    columns: WindowColumns
    window: Window
    time: str | None
    domain: TimeDomain
    grouped: GroupedWindow | None


def _aggregate(select: exp.Select, grouping: Grouping, windowed: Windowed, context: Context) -> Relation:
    scope, columns = windowed.scope, windowed.columns
    # The names of the grouping id and the panes must differ from all fields of the input.
    reserved = UniqueNames([f.name for f in scope.node.schema])
    grouping_id = reserved.unique("grouping_id") if grouping.sets is not None else None
    panes = (reserved.unique("window_pane"), reserved.unique("window_pane_index"))
    window_fields = {columns.start, columns.end, columns.time, *panes, *([grouping_id] if grouping_id else [])}
    names = UniqueNames([*windowed.keys.values(), *window_fields])
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
    node = with_own_windows(replace(node, firing=firing, pane=pane, pane_index=pane_index), select)
    node = check_changes(node, context, select.args.get("group") or select)
    return projected(Filter(node, having) if having is not None else node, selected, results, scope, context)


def _firing(select: exp.Select, windowed: Windowed, context: Context) -> Firing:
    clauses = clauses_of(select)
    window = windowed.window
    span = clauses.window.span if clauses.window is not None else span_of(select)
    has_time = windowed.time is not None
    fired = FiringContext(window, windowed.columns, windowed.domain, has_time, windowed.below, context, span)
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
    """The fields of each grouping set. Those of a window in the input are no keys and left out."""
    if grouping.sets is None:
        return None
    fields = [windowed.keys.get(k.bound) for k in grouping.keys]
    return tuple(tuple(f for i in s if (f := fields[i]) is not None) for s in grouping.sets)


def _window_per_set(node: WindowAggregate, windowed: Windowed, select: exp.Select) -> WindowAggregate:
    """Sessions and windows of rows depend on the keys of a grouping set, so the aggregate assigns them for each set."""
    attached = {node.columns.start, node.columns.end, node.columns.time}
    if any(columns_of(a.expression) & attached for a in node.aggregates):
        raise unsupported.refusal("window columns in aggregates", span_of(select))
    return replace(node, input=windowed.below.node, window=windowed.window, time=windowed.time)


# --- the window -----------------------------------------------------------------------------------------------


def _window_from_clause(grouping: Grouping, scope: Scope) -> Windowed:
    """A window clause assigns windows below the aggregation, as the window table function does."""
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
    """The window in the input whose columns GROUP BY names."""
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
    """The keys without the window's columns. SS213 unless these are part of every grouping set."""
    for i, key in enumerate(grouping.keys):
        if _names(key.bound, window) and any(i not in s for s in grouping.sets or ()):
            hint = "Write it beside the sets: GROUP BY GROUPING SETS (…), window_start, window_end."
            context.wrong("SS213", f'"{key.written.name}" must be part of every grouping set', key.written, hint)
    return tuple(k for k in grouping.keys if not _names(k.bound, window))


def _names(bound: exp.Expr, fields: set[str]) -> bool:
    return isinstance(bound, exp.Column) and bound.name in fields


# --- a window's columns in the input --------------------------------------------------------------------------


def complete_columns(
    scope: Scope, attached: WindowInfo, grouped: set[str], at: exp.Expr
) -> tuple[Scope, WindowColumns]:
    """Adds the missing ones of the three window columns (start, end, time) to a scope, computed from the others.
    Returns a pair: the scope, and the names of the columns' fields.

    ``attached`` is the window whose columns the rows have, ``grouped`` the fields in GROUP BY. The start and the end of
    a TUMBLE or HOP determine each other; for other windows both must be in GROUP BY (BindError SS213).
    """
    if not isinstance(attached.window, Tumble | Hop):
        _check_both(attached, grouped, at)
    unique = UniqueNames(f.name for f in scope.node.schema)
    present = dict(zip(WINDOW_COLUMNS, attached.columns, strict=True))
    names = {shown: field or unique.unique(shown) for shown, field in present.items()}
    columns = WindowColumns(*names.values())
    missing = [shown for shown, field in present.items() if field is None]
    if not missing:
        return scope, columns
    items = [_computed_column(shown, names[shown], attached) for shown in missing]
    node = extended(scope.node, items)
    visible_names = {c.name for c in scope.columns}
    tables = scope.tables
    table = tables[0] if len(tables) == 1 else None
    visible = tuple(Visible(s, names[s], table, starred=False) for s in missing if s not in visible_names)
    return scope.with_columns(node, visible), columns


def _check_both(attached: WindowInfo, grouped: set[str], at: exp.Expr) -> None:
    missing = [n for n, f in zip(WINDOW_COLUMNS[:2], attached.columns[:2], strict=True) if f not in grouped]
    if not missing:
        return
    kind = attached.window.sql_name
    present = "window_end" if missing == ["window_start"] else "window_start"
    message = f"GROUP BY {present} without {missing[0]} does not tell the windows of {kind} apart"
    if len(missing) == 2:
        message = f"GROUP BY window_time does not tell the windows of {kind} apart"
    raise bind_error("SS213", message, at, f"Add {' and '.join(missing)} to GROUP BY.")


def _computed_column(shown: str, name: str, attached: WindowInfo) -> Item:
    """A missing column of the window, computed from one that the query has."""
    time: TimeDomain | None = attached.domain if shown == "window_time" else None
    size = attached.window.size_ms if isinstance(attached.window, (Tumble, Hop)) else None
    # Milliseconds from each known column to the end of the window.
    for known, to_end in ((attached.end, 0), (attached.time, 1), (attached.start, size)):
        if known is not None and to_end is not None:
            from_end = {"window_start": -(size or 0), "window_end": 0, "window_time": -1}[shown]
            return Item(name, _shifted(known, to_end + from_end), TIMESTAMP, False, time)
    raise AssertionError(f"no column of the window is left to compute {shown} from")


def _shifted(field: str, milliseconds: int) -> exp.Expression:
    if milliseconds == 0:
        return field_of(field)
    seconds = f"{abs(milliseconds) // 1000}.{abs(milliseconds) % 1000:03}".rstrip("0").rstrip(".")
    interval = exp.Interval(this=exp.Literal.string(seconds), unit=exp.var("SECOND"))
    operator = exp.Add if milliseconds > 0 else exp.Sub
    return operator(this=field_of(field), expression=interval)


# --- groups without a window ----------------------------------------------------------------------------------


def bind_group_aggregate(
    select: exp.Select, grouping: Grouping, scope: Scope, ttl_ms: int, context: Context
) -> Relation:
    """Binds a SELECT whose groups have no window. Returns its plan with the names of its columns. ``ttl_ms`` is the
    time to live of a group's state in milliseconds, 0 for no limit.
    """
    refuse_clauses(clauses_of(select), context)
    below, keys = with_keys(grouping.keys, scope)
    reserved = UniqueNames([f.name for f in below.node.schema])
    grouping_id = reserved.unique("grouping_id") if grouping.sets is not None else None
    selected = expand(select.expressions, below, context)
    clock, selected = _with_proctime(selected, below.node, reserved)
    hidden = frozenset(name for name in (grouping_id, clock and clock[0]) if name)
    groups = Groups(below.node.schema, keys, hidden, context, UniqueNames([*keys.values(), *hidden]))
    special = GroupNames(below, DEFAULT_COLUMNS, None, tuple(keys), grouping_id, None, context)
    clause = ClauseContext("SELECT", True, special.column, special.call)
    results = [result_of(c, below, context, clause, groups) for c in selected]
    having = having_of(select, below, context, special, groups)
    context.stop_if_wrong()
    sets = (
        None if grouping.sets is None else tuple(tuple(keys[grouping.keys[i].bound] for i in s) for s in grouping.sets)
    )
    names = tuple(dict.fromkeys(keys.values()))
    if not names and not groups.items:  # as HAVING alone may have it: the only row is counted by something
        groups.rewrite(exp.Count(this=exp.Star()))
    aggregate = GroupAggregate(below.node, names, groups.items, sets, grouping_id, ttl_ms)
    node: Node = with_result_of_no_rows(aggregate) if context.settings.finished else aggregate
    node = node if having is None else Filter(node, having)
    node = node if clock is None else AssignTime(node, clock[0], 0, TimeDomain.PROCESSING, clock[1])
    relation = projected(node, selected, results, below, context)
    return Relation(with_emit(clauses_of(select).emit, relation.node, select, context), relation.names)


def _with_proctime(
    selected: list[Selected], below: Node, names: UniqueNames
) -> tuple[tuple[str, str] | None, list[Selected]]:
    """The field and the table of PROCTIME(), where the select list has it and there is one table; the select list that
    reads the field."""
    if not any(map(is_proctime, selected)):
        return None, selected
    tables = {node.table.name for node in below.walk() if isinstance(node, Scan)}
    if len(tables) != 1:
        return None, selected
    name, (table,) = names.unique("proctime"), tables
    return (name, table), [replace(c, bound=field_of(name)) if is_proctime(c) else c for c in selected]


# --- keys, aggregate calls, results and HAVING ----------------------------------------------------------------


def with_keys(grouping_keys: tuple[Key, ...], scope: Scope) -> tuple[Scope, dict[exp.Expression, str]]:
    """Makes every grouping key a field: a projection computes the keys that are expressions.

    Returns a pair: the scope over that projection, and a dictionary from each bound key to the name of its field.
    """
    keys: dict[exp.Expression, str] = {}
    unique = UniqueNames(f.name for f in scope.node.schema)
    computed: list[Item] = []
    types = Types(scope.node.schema)
    for key in grouping_keys:
        if isinstance(key.bound, exp.Column):
            keys[key.bound] = key.bound.name
        else:
            name = unique.unique(key.wish)
            computed.append(Item(name, key.bound, types.of(key.bound), types.nullable(key.bound)))
            keys[key.bound] = name
    return (scope.over(extended(scope.node, computed)) if computed else scope), keys


def result_of(
    column: Selected, scope: Scope, context: Context, clause: ClauseContext, groups: Groups
) -> exp.Expression:
    """Binds one column of the select list of a grouped SELECT. Returns an expression over the fields that the
    aggregation emits; the aggregate calls in it are collected in ``groups``.
    """
    bound = column.bound if column.bound is not None else bind(column.expression, scope, context, clause)
    return groups.rewrite(bound, column.aliases[0] if column.aliases else None)


def having_of(
    select: exp.Select, scope: Scope, context: Context, special: GroupNames, groups: Groups
) -> exp.Expression | None:
    """Binds HAVING. Returns the condition over the fields that the aggregation emits, None without HAVING. A name is
    looked up among the aliases of the select list first, then among the columns of FROM. ``special`` resolves what only
    grouped queries have, such as ``window_start``; aggregate calls are collected in ``groups``.
    """
    having = select.args.get("having")
    if having is None:
        return None
    inner = ClauseContext("HAVING", True, special.column, special.call)

    def names(column: exp.Column) -> exp.Expr | None:
        expression = None if column.table else aliased(column.name, select.expressions)
        return bind(expression, scope, context, inner) if expression is not None else special.column(column)

    bound = bind_condition(having.this, scope, context, ClauseContext("HAVING", True, names, special.call))
    return groups.rewrite(bound)


def projected(
    node: Node, selected: list[Selected], results: list[exp.Expression], scope: Scope, context: Context
) -> Relation:
    """Returns the projection of an aggregation (``node``) to the select list. A result that is nothing but a time
    attribute stays a time attribute.
    """
    types = types_of(scope.over(node), context)
    names, items = UniqueNames(), []
    for column, result in zip(selected, results, strict=True):
        source = types.fields.get(result.name) if isinstance(result, exp.Column) else None
        name = names.unique(field_name(column.name, column.expression))
        items.append(Item(name, result, types.of(result), types.nullable(result), source.time if source else None))
    return Relation(Project(node, tuple(items)), tuple(c.name for c in selected))


@dataclass
class Groups:
    """Collects the aggregate calls of one grouped SELECT, equal ones once, while its expressions are rewritten to read
    the results of the aggregation.

    ``keys`` maps bound grouping expressions to the names of their fields. ``known`` are other fields that may be read:
    those of the window and the grouping id.
    """

    schema: Schema
    keys: Mapping[exp.Expression, str]
    known: frozenset[str]
    context: Context
    names: UniqueNames
    calls: dict[exp.Expression, Item] = field(default_factory=dict)

    def rewrite(self, bound: exp.Expression, wish: str | None = None) -> exp.Expression:
        """Returns ``bound`` with its aggregate calls and grouping keys replaced by fields that the aggregation emits.
        ``wish`` is the preferred name of the field if the whole expression is one aggregate call.
        """
        key = self.keys.get(bound)
        if key is not None:
            return field_of(key)
        name = aggregate_name(bound, self.context.catalog)
        if name is not None:
            return field_of(self._aggregate(bound, wish or name))
        if isinstance(bound, exp.Column):
            self._check(bound)
            return bound
        return as_expression(with_children_changed(bound, lambda child: self.rewrite(as_expression(child))))

    @property
    def items(self) -> tuple[Item, ...]:
        """The aggregate calls collected so far, each with the name and type of its result."""
        return tuple(self.calls.values())

    def _aggregate(self, call: exp.Expression, wish: str) -> str:
        item = self.calls.get(call)
        if item is None:
            check_aggregate_types(call, self.schema, self.context)
            types = Types(self.schema, self.context.catalog.function)
            item = Item(self.names.unique(wish), call, types.of(call), types.nullable(call))
            self.calls[call] = item
        return item.name

    def _check(self, column: exp.Column) -> None:
        # NULL stands for a wrong key: then the column may be part of it.
        if column.name not in self.known and exp.Null() not in self.keys:
            written = column.meta.get(WRITTEN_NAME, column.name)
            name = written.rpartition(".")[2]
            message = f'column "{name}" is neither in GROUP BY nor inside an aggregate'
            value = name if name == column.name else written
            hint = f"Add it to GROUP BY, or use an aggregate such as MAX({value})."
            self.context.wrong("SS208", message, column, hint)
