"""INSERT of a batch: its rows are computed once, into a file of the session, and a job writes them to the table.

The job is one as of any INSERT from a bounded table, so every sink is written as it always is. Nothing of it is
checkpointed: a batch that failed has written nothing, or is begun anew by its user.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.catalog import DEFAULT
from sqlstream.errors import Span
from sqlstream.grammar import nodes
from sqlstream.grammar.spans import mark, span_of
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.fields import UniqueNames
from sqlstream.plans import Root, plan_of
from sqlstream.types import DataType
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sqlstream.batch.running import Analyzed

_PER_JOB = ("execution.checkpointing.dir", "execution.state-recovery.path")


def stored_result(analyzed: Analyzed, statement: nodes.Insert, workspace: Workspace, folder: Path) -> Table:
    """The table of the rows once they are in the folder."""
    targets = _target_types(statement, workspace)
    names = UniqueNames()
    columns = tuple(
        Column(names.unique(name), _stored(type_, position, targets))
        for position, (name, type_) in enumerate(analyzed.columns)
    )
    options = (("path", str(folder)), ("format", "parquet"))
    return Table(f"sqlstream_{folder.name}", columns, "filesystem", options, bounded=True)


def _target_types(statement: nodes.Insert, workspace: Workspace) -> list[DataType]:
    table = workspace.catalog.relation(str(statement.target))
    if not isinstance(table, Table):
        return []
    types = {c.name.casefold(): c.type for c in table.columns}
    names = statement.columns or tuple(c.name for c in table.physical_columns)
    return [types.get(name.casefold(), DataType("STRING")) for name in names]


def _stored(type_: DataType, position: int, targets: list[DataType]) -> DataType:
    """A column of NULLs has no type of its own, and no file can hold it."""
    if type_.name != "VOID":
        return type_
    return targets[position] if position < len(targets) else DataType("STRING")


def workspace_of_insert(workspace: Workspace, result: Table) -> Workspace:
    """The workspace in which the job finds the result; it has no checkpoint that outlives the session."""
    own_workspace = workspace.copy()
    name = nodes.Name((*DEFAULT, result.name), span=Span(0, 0))
    own_workspace.catalog.create(name, result)
    for key in _PER_JOB:
        own_workspace.settings.reset(key)
    own_workspace.settings.set("execution.runtime-mode", "streaming")
    return own_workspace


def plan_of_insert(statement: nodes.Insert, result: Table, workspace: Workspace) -> Root:
    """The plan of the job. SqlStreamError where the columns do not fit, as of any INSERT."""
    catalog, database = (exp.to_identifier(name, quoted=True) for name in DEFAULT)
    named = exp.Table(this=exp.to_identifier(result.name, quoted=True), db=database, catalog=catalog)
    query = exp.select("*").from_(named)
    span = span_of(statement.query)
    if span is not None:
        mark(query, span.start, span.end)
    return plan_of(replace(statement, query=query), workspace)


def write(rows: DataFrame, result: Table) -> None:
    """The rows of the batch into the folder of the result."""
    path = result.option("path")
    assert path is not None
    pairs = zip(rows.columns, result.columns, strict=True)
    rows.select(*(rows[name].cast(c.type.ddl()).alias(c.name) for name, c in pairs)).write.parquet(path)
