"""INSERT OVERWRITE and TRUNCATE TABLE: the rows of a table make room."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.batch import Batch, chosen
from sqlstream.catalog import Catalog
from sqlstream.connectors import connector
from sqlstream.errors import BindError, SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Table
from sqlstream.planner.nodes import Insert
from sqlstream.plans import Root
from sqlstream.table_uses import scanned_tables
from sqlstream.workspace import Workspace

NOT_REPLACED = "SS296"
_UNBOUNDED = "SS600"
_PARTITION = "SS358"


def truncated_table(statement: nodes.Truncate, catalog: Catalog) -> Table:
    """The table whose rows go. BindError SS296 for one whose rows are not ours."""
    return _replaceable(statement.name, catalog, "TRUNCATE TABLE")


def overwritten_table(statement: nodes.Statement, catalog: Catalog) -> Table | None:
    """The table whose rows an INSERT OVERWRITE replaces; None for other statements. BindError SS296."""
    if isinstance(statement, nodes.Insert) and statement.overwrite:
        return _replaceable(statement.target, catalog, "INSERT OVERWRITE")
    return None


def _replaceable(name: nodes.Name, catalog: Catalog, words: str) -> Table:
    table = catalog.required(name)
    if not isinstance(table, Table):
        raise BindError(NOT_REPLACED, f'"{table.name}" is a view, which has no rows of its own', name.span)
    if connector(table.connector).truncate is None:
        message = f'rows of table "{table.name}" are not removed: connector "{table.connector}" does not do that'
        raise BindError(NOT_REPLACED, message, name.span, hint=f"{words} takes tables of filesystem and memory.")
    return table


def chosen_to_overwrite(statement: nodes.Insert, workspace: Workspace) -> Root | Batch:
    """What computes the rows of an INSERT OVERWRITE. BindError SS296 where its query has no end, and where it reads the
    table as it is emptied."""
    table = _replaceable(statement.target, workspace.catalog, "INSERT OVERWRITE")
    if any(value.value is not None for value in statement.partition):
        message = "INSERT OVERWRITE of single partitions is not executed"
        hint = "Overwrite the table, with a query that gives the rows of all partitions, or give partitions own tables."
        raise UnsupportedError(_PARTITION, message, statement.partition[0].span, hint=hint)
    finished = workspace.copy()
    finished.settings.set("execution.runtime-mode", "batch")
    plain = replace(statement, overwrite=False)
    try:
        plan = chosen(plain, finished)
    except SqlStreamError as error:
        raise _without_end(error) from None
    if isinstance(plan, Insert) and any(read.name == table.name for read in scanned_tables(plan)):
        message = f'table "{table.name}" would be emptied while it is read'
        hint = "INSERT the rows into another table first."
        raise BindError(NOT_REPLACED, message, statement.target.span, hint=hint)
    return plan


def _without_end(error: SqlStreamError) -> SqlStreamError:
    hint = "INSERT INTO takes streams; their rows are added."
    return SqlStreamError.of(
        replace(
            d,
            code=NOT_REPLACED,
            message=f"INSERT OVERWRITE needs a query that ends: {d.message.partition(',')[0]}",
            hint=hint,
        )
        if d.code == _UNBOUNDED
        else d
        for d in error.diagnostics
    )
