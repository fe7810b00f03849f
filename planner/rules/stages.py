"""The rules that need little more than what nodes answer, and the order of all rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlstream.grammar.depth import on_deep_stack
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import conjuncts
from sqlstream.planner.fields import FieldNames
from sqlstream.planner.node import Node, bottom_up
from sqlstream.planner.nodes import AssignTime, Filter, Project
from sqlstream.planner.properties import Accepts
from sqlstream.planner.rules.common_operators import prune_columns_together
from sqlstream.planner.rules.push_filters import (
    accepts_nothing,
    filtered,
    merge_projects,
    push_filters,
    push_lookup_filters,
)

# --- rules ----------------------------------------------------------------------------------------------------


def fold_constants(plan: Node) -> Node:
    """Compute constant expressions while planning, where NULLs, types and overflows cannot make a difference."""
    return bottom_up(plan, lambda node: node.with_constants_folded())


def remove_unread_operators(plan: Node) -> Node:
    """Remove operators that only add columns where these are not read.

    Operators below then need not wait for their watermark, and filters above can move down.
    """
    removable = _removable(plan)
    if not removable:
        return plan
    pruned = prune_columns(plan)
    return pruned if _removable(pruned) < removable else plan


def _removable(plan: Node) -> int:
    return sum(node.removed_if_unread for node in plan.walk())


def remove_unused_time(plan: Node) -> Node:
    """Remove watermarks that no operator above waits for, so that they do not block filters and pruning."""
    return _without_unused_time(plan, frozenset())


def _without_unused_time(node: Node, needed: FieldNames) -> Node:
    """``needed``: the fields of ``node`` that windows above are built on.

    Columns of PROCTIME() and INGESTION_TIME() are kept until pruning removes those that are not read.
    """
    below = node.watermark_fields_needed(needed)
    rebuilt = node.with_inputs(tuple(_without_unused_time(child, below) for child in node.inputs))
    if isinstance(rebuilt, AssignTime) and rebuilt.domain is TimeDomain.EVENT and rebuilt.column not in needed:
        return _without_field(rebuilt.input, rebuilt.follows)
    return rebuilt.without_unused_time(needed)


def _without_field(node: Node, name: str | None) -> Node:
    """The node without the field that only the watermark follows."""
    if name is None:
        return node
    if isinstance(node, Project):
        return replace(node, items=tuple(i for i in node.items if i.name != name))
    return Project(node, tuple(f.as_item for f in node.schema if f.name != name))


def remove_normalize(plan: Node) -> Node:
    """Remove Normalize, which stores previous rows for -U, where no operator above needs -U.

    A sink with this key then gets the changes unchanged.
    """
    return _without_update_before(plan, above=False)


def _without_update_before(node: Node, above: bool) -> Node:
    """``above``: a node above needs -U."""
    rewritten = node if above else node.without_update_before()
    if rewritten is not node:
        return _without_update_before(rewritten, above)
    inputs = enumerate(node.inputs)
    return node.with_inputs(
        tuple(_without_update_before(child, node.reads_update_before(above, port)) for port, child in inputs)
    )


def window_join_to_top_n(plan: Node) -> Node:
    """Replace joins of windows with the maximum or minimum of the same windows by a Top-N over these windows."""

    def rule(node: Node) -> Node:
        join, conditions = (node.input, conjuncts(node.condition)) if isinstance(node, Filter) else (node, [])
        return join.as_top_n(conditions, filtered) or node

    return bottom_up(plan, rule)


def fuse_windows_into_aggregate(plan: Node) -> Node:
    """Merge an aggregate and the window table function below it into one node."""
    return bottom_up(plan, lambda node: node.with_windows_fused())


def forget_distinct_rows_of_closed_windows(plan: Node) -> Node:
    """For SELECT DISTINCT below windows: lets the state of a row expire when the watermark has closed all windows that
    accept the row.
    """
    return bottom_up(plan, lambda node: node.with_distinct_rows_closed())


def merge_joins(plan: Node) -> Node:
    """Replace inner joins on the same keys, one over the other, by one join that stores each of their inputs once."""
    return bottom_up(plan, lambda node: node.with_joins_merged())


def prune_columns(plan: Node) -> Node:
    """Remove columns that are not needed from all nodes."""
    return plan.pruned(plan.field_names)


# --- order ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """A stage of optimization: a rule for whole plans, and its name in EXPLAIN TRACE."""

    name: str
    rule: Callable[[Node], Node]


@dataclass(frozen=True)
class _PushLookupFilters:
    """The rule for sources that check what ``accepts`` says."""

    accepts: Accepts

    def __call__(self, plan: Node) -> Node:
        return push_lookup_filters(plan, self.accepts)


# Operators whose results nobody reads need no watermark, and a watermark that nobody needs stops no filter, so these go
# first. Joins of windows with themselves are found while both sides have all columns, and their aggregates are not yet
# fused. Windows are fused before columns are pruned, because the fused form reads fewer; so are filters of lookups,
# whose columns then need not be read. Projections are merged when it is known which of them remain. Joins are last: no
# projection comes between them any more.
def stages(
    accepts: Accepts = accepts_nothing, *, reuse: bool = True, together: bool = True, multi_join: bool = True
) -> tuple[Stage, ...]:
    """The stages in their order; ``accepts`` says which comparisons lookup sources apply themselves. ``reuse``: windows
    that are joined with their own extremes are computed once; ``together``: so are operators that several
    inputs of a node have in common. ``multi_join``: inner joins on the same keys become one.
    """
    return (
        Stage("fold_constants", fold_constants),
        Stage("remove_unread_operators", remove_unread_operators),
        Stage("remove_unused_time", remove_unused_time),
        Stage("remove_normalize", remove_normalize),
        Stage("push_filters", push_filters),
        Stage("merge_projects", merge_projects),
        Stage("push_lookup_filters", _PushLookupFilters(accepts)),
        *([Stage("window_join_to_top_n", window_join_to_top_n)] if reuse else []),
        Stage("fuse_windows_into_aggregate", fuse_windows_into_aggregate),
        Stage("forget_distinct_rows_of_closed_windows", forget_distinct_rows_of_closed_windows),
        Stage("prune_columns", prune_columns_together if together else prune_columns),
        Stage("merge_projects_again", merge_projects),
        *([Stage("merge_joins", merge_joins)] if multi_join else []),
    )


STAGES = stages()


@on_deep_stack
def optimize(plan: Node, rules: Iterable[Stage] = STAGES) -> Node:
    """Returns the plan after all rules. Its result is the same, row for row."""
    for stage in rules:
        plan = stage.rule(plan)
    return plan


@on_deep_stack
def trace(plan: Node, rules: Iterable[Stage] = STAGES) -> list[tuple[str, Node]]:
    """Returns pairs of a name and a plan: the plan as bound, then the plan after each stage that changed it."""
    plans = [("bound", plan)]
    for stage in rules:
        after = stage.rule(plan)
        if after != plan:
            plans.append((stage.name, after))
        plan = after
    return plans
