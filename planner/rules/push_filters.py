"""Conditions move towards the sources, as far as they cannot change what is computed on the way."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from itertools import islice

from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.firing import LateAction
from sqlstream.planner.nodes import (
    AlignedWindow,
    AssignTime,
    AssignWindows,
    Correlate,
    Filter,
    Lookup,
    Node,
    Project,
    Scan,
    Unary,
    Union,
    WindowAggregate,
)
from sqlstream.planner.rewriting import (
    both,
    bottom_up,
    columns_of,
    conjunction,
    conjuncts,
    is_repeatable,
    substituted,
    with_balanced_condition,
)
from sqlstream.planner.rules.merge_projects import Merging
from sqlstream.planner.type_inference import Types

Conditions = list[exp.Expression]


def push_filters(plan: Node) -> Node:
    """Projections are merged on the way, so that a condition passes one of them and not each."""
    merge = Merging()

    def rule(node: Node) -> Node:
        if isinstance(node, Filter):
            return _filter(node.input, conjuncts(node.condition))
        return merge(node) if isinstance(node, Project) else node

    return bottom_up(bottom_up(plan, rule), with_balanced_condition)


def _filter(node: Node, conditions: Conditions) -> Node:
    """``node`` filtered by all conditions, each as deep as it may go."""
    pushed, kept = _divided(node, conditions, guarded=False)
    below = _into(node, pushed) if pushed else node
    return Filter(below, conjunction(kept)) if kept else below


def _beside(node: Filter, conditions: Conditions) -> Node:
    """``node``, whose own conditions can go no deeper, filtered by more conditions."""
    pushed, kept = _divided(node.input, conditions, guarded=True)
    below = _into(node.input, pushed) if pushed else node.input
    return Filter(below, both(node.condition, conjunction(kept)) if kept else node.condition)


def _divided(node: Node, conditions: Conditions, guarded: bool) -> tuple[Conditions, Conditions]:
    """Those that go below ``node`` and those that stay.

    UNSAFE to let a condition that can fail (a division, a cast) overtake one that guards it and stays; ``guarded``:
    there is one already.
    """
    pushed: Conditions = []
    kept: Conditions = []
    types = Types(node.schema)
    for condition in conditions:
        below = is_repeatable(condition) and _stays_small(node, condition) and passes(node, columns_of(condition))
        if below and (not (guarded or kept) or _cannot_fail(condition, types)):
            pushed.append(condition)
        else:
            kept.append(condition)
    return pushed, kept


_MOST_ADDED = 30
"""Nodes that a condition may grow by on its way through a projection, which then computes the same."""


def _stays_small(node: Node, condition: exp.Expr) -> bool:
    """False where the condition would hold large expressions of a projection, or hold them often: each projection
    below might double it again."""
    if not isinstance(node, Project):
        return True
    values = {i.name: i.expression for i in node.items}
    added = 0
    for column in condition.find_all(exp.Column):
        value = values[column.name]
        if not isinstance(value, exp.Column):
            added += sum(1 for _ in islice(value.walk(), _MOST_ADDED + 1))
        if added > _MOST_ADDED:
            return False
    return True


@singledispatch
def passes(node: Node, read: set[str]) -> bool:
    """May a condition that reads these fields be evaluated below ``node``?"""
    return False


@passes.register(Scan)
@passes.register(Filter)
@passes.register(Union)
def _(node: Node, read: set[str]) -> bool:
    return True


@passes.register
def _(node: Project, read: set[str]) -> bool:
    values = {i.name: i.expression for i in node.items}
    return all(is_repeatable(values[name]) for name in read)


@passes.register
def _(node: AssignTime, read: set[str]) -> bool:
    """UNSAFE for event and ingestion time: the watermark follows all rows, so a filtered row still advances it."""
    return node.domain is TimeDomain.PROCESSING and node.column not in read


@passes.register
def _(node: Correlate, read: set[str]) -> bool:
    """UNSAFE with outer on the new fields; on the others a condition drops the same rows before as after."""
    return not read & {f.name for f in node.outputs}


@passes.register
def _(node: Lookup, read: set[str]) -> bool:
    """UNSAFE with outer on the new fields, as for Correlate; without, the rest of ON takes them."""
    return not node.outer or not read & {o.name for o in node.outputs}


@passes.register
def _(node: AssignWindows, read: set[str]) -> bool:
    if not isinstance(node.window, AlignedWindow):
        # UNSAFE but on keys: a filtered row still holds its session together, or fills its count.
        return bool(read) and read <= set(node.partition_by)
    return not read & {node.columns.start, node.columns.end, node.columns.time}


@passes.register
def _(node: WindowAggregate, read: set[str]) -> bool:
    """UNSAFE with grouping sets, where a key is NULL above only, on aggregates and windows, and where somebody gets the
    late rows of all keys."""
    keyed = bool(read) and read <= set(node.keys) and node.grouping_sets is None
    return keyed and node.firing.late.action is LateAction.DROP


def _into(node: Node, conditions: Conditions) -> Node:
    """``node`` with the conditions below it."""
    match node:
        case Scan():
            return replace(node, predicates=(*node.predicates, *conditions))
        case Filter():
            return _beside(node, conditions)
        case Union():
            branches = tuple(_filter(b, [c.copy() for c in conditions]) for b in node.branches)
            return replace(node, branches=branches)
        case Project():
            values = {i.name: i.expression for i in node.items}
            return replace(node, input=_filter(node.input, [substituted(c, values) for c in conditions]))
        case Lookup():
            return _into_lookup(node, conditions)
        case Unary():
            return replace(node, input=_filter(node.input, conditions))
    raise TypeError(f"no condition passes {type(node).__name__}")


def _into_lookup(node: Lookup, conditions: Conditions) -> Node:
    """Rows that the left side alone rules out are not asked for; the others are part of ON."""
    added = {o.name for o in node.outputs}
    below = [c for c in conditions if not columns_of(c) & added]
    rest = [c for c in conditions if columns_of(c) & added]
    given = conjuncts(node.condition) if node.condition is not None else []
    together = conjunction([*given, *rest]) if given or rest else None
    return replace(node, input=_filter(node.input, below) if below else node.input, condition=together)


_TOTAL = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ,
    exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Like,
)  # fmt: skip


def _cannot_fail(condition: exp.Expr, types: Types) -> bool:
    """Comparisons of fields and literals of one type; others may cast, divide or call what raises an error."""
    if not all(isinstance(node, _TOTAL) for node in condition.walk()):
        return False
    values = [n for n in condition.walk() if isinstance(n, (exp.Column, exp.Literal))]
    families = {"NUMBER" if (kind := types.of(v)).is_numeric else kind.name for v in values}
    return len(families) == 1 and "UNKNOWN" not in families
