"""Columns that nobody reads are not read, computed or carried along."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.naming import passed
from sqlstream.planner.nodes import AssignTime, Correlate, Filter, Node, Project, Scan, StatementSet, Unary, Union
from sqlstream.planner.rewriting import columns_of, with_inputs

Names = frozenset[str]


def prune_columns(plan: Node) -> Node:
    return plan.pruned(plan.field_names)


def _exactly(branch: Node, names: list[str]) -> Node:
    """Branches of a union must agree, so what a filter still carries is projected away."""
    if [f.name for f in branch.schema] == names:
        return branch
    fields = {f.name: f for f in branch.schema}
    chosen = (fields[n] for n in names)
    return Project(branch, tuple(map(passed, chosen)))
