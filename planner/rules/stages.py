"""The order of the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlstream.grammar.depth import with_room
from sqlstream.planner.node import Node, bottom_up
from sqlstream.planner.properties import Accepts
from sqlstream.planner.rules.merge_projects import merge_projects
from sqlstream.planner.rules.push_filters import push_filters
from sqlstream.planner.rules.push_lookup_filters import nothing, push_lookup_filters
from sqlstream.planner.rules.remove_normalize import remove_normalize
from sqlstream.planner.rules.remove_unused_time import remove_unused_time


@dataclass(frozen=True)
class Stage:
    """A rule for whole plans and the name that EXPLAIN TRACE shows."""

    name: str
    rule: Callable[[Node], Node]


@dataclass(frozen=True)
class _PushLookupFilters:
    """The rule for sources that check what ``accepts`` says."""

    accepts: Accepts

    def __call__(self, plan: Node) -> Node:
        return push_lookup_filters(plan, self.accepts)


def fold_constants(plan: Node) -> Node:
    """Constants are computed while planning, where SQL's NULLs, types and overflows cannot make a difference."""
    return bottom_up(plan, lambda node: node.with_constants_folded())


def fuse_windows_into_aggregate(plan: Node) -> Node:
    """An aggregate over a window table function becomes one node that assigns the windows and aggregates."""
    return bottom_up(plan, lambda node: node.with_windows_fused())


def prune_columns(plan: Node) -> Node:
    """Columns that nobody reads are not read, computed or carried along."""
    return plan.pruned(plan.field_names)


# Time goes first, because a watermark that nobody needs does not stop filters. Windows are fused before columns are
# pruned, because the fused form reads fewer; so are filters of lookups, whose columns then need not be read.
# Projections are merged last, when it is known which of them remain.
def stages(accepts: Accepts = nothing) -> tuple[Stage, ...]:
    """The rules in their order; ``accepts`` says what lookup sources check themselves."""
    return (
        Stage("fold_constants", fold_constants),
        Stage("remove_unused_time", remove_unused_time),
        Stage("remove_normalize", remove_normalize),
        Stage("push_filters", push_filters),
        Stage("merge_projects", merge_projects),
        Stage("push_lookup_filters", _PushLookupFilters(accepts)),
        Stage("fuse_windows_into_aggregate", fuse_windows_into_aggregate),
        Stage("prune_columns", prune_columns),
        Stage("merge_projects_again", merge_projects),
    )


STAGES = stages()


@with_room
def optimize(plan: Node, rules: Iterable[Stage] = STAGES) -> Node:
    """The plan after all stages; the same result, row for row."""
    for stage in rules:
        plan = stage.rule(plan)
    return plan


@with_room
def trace(plan: Node, rules: Iterable[Stage] = STAGES) -> list[tuple[str, Node]]:
    """The plan as bound, and after each stage that changed it."""
    plans = [("bound", plan)]
    for stage in rules:
        after = stage.rule(plan)
        if after != plan:
            plans.append((stage.name, after))
        plan = after
    return plans
