"""Plans of the same statement with which a job may have begun: of earlier builds, or under other settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Project, StatementSet
from sqlstream.planner.operators.top_n import TopN
from sqlstream.plans.plan import Planned, Root, plan_of
from sqlstream.plans.planner_settings import CHOICES
from sqlstream.settings import MULTI_JOIN, REUSE, UPSERT_MATERIALIZE
from sqlstream.workspace import Workspace


def plan_without_rows_left(statement: Planned, workspace: Workspace, *, apart: bool) -> Root:
    """Returns the statement's plan with the setting ``upsert-materialize`` = none, the default of earlier builds,
    whose checkpoints need it. ``apart``: see ``rules_of``.
    """
    settings = workspace.settings.copy()
    settings.set(UPSERT_MATERIALIZE, "none")
    return plan_of(statement, replace(workspace, settings=settings), apart=apart)


@dataclass(frozen=True)
class FormerPlan:
    """A plan of the same statement under other settings, which a checkpoint may be of. ``make`` returns it.
    ``loses_rows``: it does not keep rows that collide on a PRIMARY KEY.
    """

    make: Callable[[], Root]
    loses_rows: bool = False


def former_plans(statement: Planned, plan: Root, workspace: Workspace) -> tuple[FormerPlan, ...]:
    """The plans, beside ``plan``, with which a job of the statement may have begun: it keeps that of its checkpoint
    whether equal parts are computed once and joins are merged now or not, also from before queries and the inserts of a
    statement set had operators in common, and what was the default of ``upsert-materialize`` then.
    """
    others = [_with_toggled(workspace, names) for names in ((MULTI_JOIN,), (REUSE,), CHOICES)]
    ways = [(other, apart) for apart in (False, True) for other in (workspace, *others)]
    chosen = tuple(FormerPlan(partial(plan_of, statement, w, apart=apart)) for w, apart in ways[1:])
    if UPSERT_MATERIALIZE in workspace.settings.given or not keeps_rows_left(plan):
        return chosen
    by_default = (FormerPlan(partial(plan_without_rows_left, statement, w, apart=apart), True) for w, apart in ways)
    return (*chosen, *by_default)


def _with_toggled(workspace: Workspace, names: Iterable[str]) -> Workspace:
    settings = workspace.settings.copy()
    for name in names:
        settings.set(name, "false" if settings[name] else "true")
    return replace(workspace, settings=settings)


def keeps_rows_left(plan: Root) -> bool:
    """True where a sink is preceded by an operator that stores all rows of each PRIMARY KEY, like Flink's
    SinkUpsertMaterializer.
    """
    inserts = plan.inserts if isinstance(plan, StatementSet) else (plan,)
    below = (_below_projections(insert) for insert in inserts if isinstance(insert, Insert))
    return any(isinstance(node, TopN) and node.newest_first and not node.order for node in below)


def _below_projections(plan: Insert) -> Node:
    below = plan.input
    while isinstance(below, Project):
        below = below.input
    return below
