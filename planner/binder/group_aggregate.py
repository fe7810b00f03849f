"""GROUP BY without a window: one row per group, updated as rows come."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.grammar.trees import clauses_of
from sqlstream.planner.binder.aggregate_calls import Groups
from sqlstream.planner.binder.clauses import refuse_clauses, with_emit
from sqlstream.planner.binder.context import Context, Relation
from sqlstream.planner.binder.expressions import ClauseContext
from sqlstream.planner.binder.group_results import having_of, projected, result_of, with_keys
from sqlstream.planner.binder.grouping import Grouping
from sqlstream.planner.binder.processing_time import is_marker
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.select_list import Selected, expand
from sqlstream.planner.binder.window_properties import GroupNames
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Scan
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.windows import DEFAULT_COLUMNS


def bind_group_aggregate(
    select: exp.Select, grouping: Grouping, scope: Scope, ttl_ms: int, context: Context
) -> Relation:
    """The plan of a SELECT whose groups have no window, and the names of its columns. ``ttl_ms`` as in the node."""
    refuse_clauses(clauses_of(select), context)
    below, keys = with_keys(grouping.keys, scope)
    reserved = Names([f.name for f in below.node.schema])
    grouping_id = reserved.unique("grouping_id") if grouping.sets is not None else None
    selected = expand(select.expressions, below, context)
    clock, selected = _with_clock(selected, below.node, reserved)
    hidden = frozenset(name for name in (grouping_id, clock and clock[0]) if name)
    groups = Groups(below.node.schema, keys, hidden, context, Names([*keys.values(), *hidden]))
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
    node: Node = GroupAggregate(below.node, names, groups.items, sets, grouping_id, ttl_ms)
    node = node if having is None else Filter(node, having)
    node = node if clock is None else AssignTime(node, clock[0], 0, TimeDomain.PROCESSING, clock[1])
    relation = projected(node, selected, results, below, context)
    return Relation(with_emit(clauses_of(select).emit, relation.node, select, context), relation.names)


def _with_clock(selected: list[Selected], below: Node, names: Names) -> tuple[tuple[str, str] | None, list[Selected]]:
    """The field of PROCTIME() and the table whose clock it is, where the select list has it and there is one table;
    the select list with the field."""
    tables = {node.table.name for node in below.walk() if isinstance(node, Scan)}
    if not any(map(is_marker, selected)) or len(tables) != 1:
        return None, selected
    name, (table,) = names.unique("proctime"), tables
    return (name, table), [replace(c, bound=field_of(name)) if is_marker(c) else c for c in selected]
