"""The tables of a batch as temporary views of Spark: rows as streams get them, read as what is there now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.connectors import is_scanned
from sqlstream.planner.bad_rows import OnError, action_of
from sqlstream.planner.batch import conditions_of
from sqlstream.planner.binder.tables import read_table
from sqlstream.planner.catalog import Table
from sqlstream.planner.expressions import conjunction
from sqlstream.planner.fields import Item, field_of
from sqlstream.planner.nodes import Filter, Output, Project
from sqlstream.planner.physical import physical_plan
from sqlstream.planner.rules import optimize
from sqlstream.plans import RULES, engine_of, require_sources
from sqlstream.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sqlstream.jobs import JobRuntime


def plan_of_table(table: Table, name: str, query: exp.Expr) -> Output:
    """The plan that reads what the query may need of a table, which it calls ``name``."""
    relation = read_table(table, OnError(action_of(table)[0]))
    named = {name.casefold() for name in _names(query)}
    every = _wants_all(query)
    wanted = [c for c in table.columns if every or c.name.casefold() in named] or list(table.columns[:1])
    fields = {f.name: f for f in relation.fields}
    items = tuple(Item(c.name, field_of(c.name), fields[c.name].type, fields[c.name].nullable) for c in wanted)
    node, given = relation.node, conditions_of(table, name, query) if is_scanned(table) else []
    if given:
        node = Filter(node, conjunction(given))
    plan = optimize(Output(Project(node, items), tuple(c.name for c in wanted)), RULES)
    assert isinstance(plan, Output)
    return plan


def _names(query: exp.Expr) -> Iterator[str]:
    """All names in the query: some of them are those of columns."""
    return (identifier.name for identifier in query.find_all(exp.Identifier))


def _wants_all(query: exp.Expr) -> bool:
    stars = (star for star in query.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    natural = any((join.args.get("method") or "").upper() == "NATURAL" for join in query.find_all(exp.Join))
    return natural or any(True for _ in stars)


def rows_of(plan: Output, settings: Settings, runtime: JobRuntime) -> DataFrame:
    """The rows of a plan that reads one table. ConnectorErrors of files that are not there, or lack columns."""
    from sqlstream.planner.lowering import lower
    from sqlstream.planner.lowering.hidden_columns import column

    require_sources(plan)
    rows = lower(physical_plan(plan, engine_of(settings)), runtime)
    return rows.select(*map(column, plan.names))
