"""EXPLAIN PHYSICAL: each step of a physical plan in a line, which says what runs."""

from __future__ import annotations

from functools import singledispatch

from sqlglot import exp

from sqlstream.grammar.depth import with_room
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.text import tree
from sqlstream.planner.nodes import Correlate, Filter, Insert, Node, Output, Project, StatementSet, Union
from sqlstream.planner.physical.steps import Compute, Mark, NativeState, Operator, PhysicalPlan, Read, Step, Told, Write


@with_room
def explain_physical(plan: PhysicalPlan) -> str:
    """The steps as a tree, the root first."""
    return tree(plan.root, lambda step: f"{step.label}: {step.runs}{_dropped(step)}")


def _dropped(step: Step) -> str:
    return ", then a filter that drops -U, which nobody above reads" if step.drops_before else ""


def _exchange(step: Operator) -> str:
    if step.link is not None:
        return "in the call of the operator below"
    how = "exchange by key group" if step.keyed else "exchange to one key group"
    return how if len(step.ports) == 1 else f"{how} of each input"
