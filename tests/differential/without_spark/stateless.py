"""Steps without state, computed by DuckDB."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.planner.catalog import APPEND_ONLY, ONE_ROW
from sqlstream.planner.nodes import AssignTime, Filter, Insert, Output, Project, Scan, Union
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.kernel import ROW_KIND
from tests.differential.without_spark.columns import (
    NotHere,
    arrow_type,
    kinds_of,
    quoted,
    sql_of,
)
from tests.differential.without_spark.harness import STEPS, PlanHarness


def run_scan(node: Scan, step: Step, harness: PlanHarness) -> pa.Table:
    names = list(node.columns)
    rows = harness.changes.get(node.table.name)
    if node.table == ONE_ROW:
        rows = pa.table({"row": pa.array([1] * harness.is_first, pa.int64())})
    elif rows is None:
        fields = [(c.name, c.type.to_arrow()) for c in node.table.columns]
        kinds = [] if node.changelog_mode == APPEND_ONLY else [(ROW_KIND, pa.string())]
        rows = pa.schema([*fields, *kinds]).empty_table()
    where = [sql_of(predicate) for predicate in node.predicates]
    return harness.select(rows, [(name, quoted(name)) for name in names], where, node.schema)


def run_assign_time(node: AssignTime, step: Step, harness: PlanHarness) -> pa.Table:
    if node.column not in {f.name for f in node.input.schema}:
        raise NotHere("processing time")
    return harness.rows(step.input)


def run_project(node: Project, step: Step, harness: PlanHarness) -> pa.Table:
    items = [(item.name, sql_of(item.expression)) for item in node.items]
    return harness.select(harness.rows(step.input), items, (), node.schema)


def run_filter(node: Filter, step: Step, harness: PlanHarness) -> pa.Table:
    rows = harness.rows(step.input)
    return harness.select(rows, [(f.name, quoted(f.name)) for f in node.schema], [sql_of(node.condition)], node.schema)


def run_output(node: Output, step: Step, harness: PlanHarness) -> pa.Table:
    return harness.rows(step.input)


def run_insert(node: Insert, step: Step, harness: PlanHarness) -> pa.Table:
    return harness.rows(step.input)


def run_union(node: Union, step: Step, harness: PlanHarness) -> pa.Table:
    branches = [harness.rows(branch) for branch in step.inputs]
    names = [f.name for f in node.schema]
    kinds = any(ROW_KIND in rows.column_names for rows in branches)
    types = [arrow_type(f.type) for f in node.schema]
    found = []
    for rows in branches:
        columns = [rows.column(i).cast(kind) for i, kind in enumerate(types)]
        if kinds:
            columns.append(kinds_of(rows))
        found.append(pa.table(columns, names=[*names, *([ROW_KIND] if kinds else [])]))
    return pa.concat_tables(found)


STEPS.update(
    {
        Scan: run_scan,
        AssignTime: run_assign_time,
        Project: run_project,
        Filter: run_filter,
        Output: run_output,
        Insert: run_insert,
        Union: run_union,
    }
)
