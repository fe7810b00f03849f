"""The order of the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlstream.grammar.depth import with_room
from sqlstream.planner.nodes import Node
from sqlstream.planner.rules.fold_constants import fold_constants
from sqlstream.planner.rules.fuse_windows_into_aggregate import fuse_windows_into_aggregate
from sqlstream.planner.rules.merge_projects import merge_projects
from sqlstream.planner.rules.prune_columns import prune_columns
from sqlstream.planner.rules.push_filters import push_filters
from sqlstream.planner.rules.push_lookup_filters import Accepts, nothing, push_lookup_filters
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
