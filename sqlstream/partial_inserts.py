"""INSERT of some columns into a table that replaces rows by its PRIMARY KEY: what happens to the others.

``sqlstream.partial-insert`` says it. overwrite: the row that takes the place of another has NULL in them, which check,
EXPLAIN and the start of the job warn of. keep: they keep their values, where the connector can. error: the statement is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlstream.connectors import UpsertSink, connector, installed, row_kinds_taken
from sqlstream.errors import BindError, Diagnostic
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.planner.nodes import Insert, Project
from sqlstream.settings import PARTIAL_INSERT
from sqlstream.workspace import Workspace

PARTIAL = "SS668"


def with_columns_left(plan: Insert, statement: nodes.Insert, setting: str) -> Insert:
    """For INSERT with a column list into a table that is written by key: returns a plan that writes only these
    columns, so that the others keep their values.

    ``setting``: what the user chose; ``overwrite`` returns the plan unchanged (other columns become NULL). Raises
    BindError SS668 where it is ``error``, or where the connector can only replace whole rows.
    """
    absent = absent_columns(statement, plan.table)
    if not absent or setting == "overwrite":
        return plan
    table, target = plan.table, statement.target.span
    if setting == "error":
        raise BindError(PARTIAL, _message(table, absent), target, hint=f"Name them in the statement, or {_INSTEAD}")
    kind = connector(table.connector)
    if not (isinstance(kind, UpsertSink) and kind.keeps_columns(table)):
        message = f'table "{table.name}" of the connector "{table.connector}" replaces whole rows and keeps no columns'
        keeping = sorted(each.name for each in installed() if isinstance(each, UpsertSink) and each.some_keep_columns)
        hint = f"Name all columns, or write to {' or '.join(keeping)}, to a table that is there in the database."
        raise BindError(PARTIAL, message, target, hint=hint)
    columns = (column.name for column in table.physical_columns)
    items = [f.as_item for column, f in zip(columns, plan.input.schema, strict=True) if column not in absent]
    given = tuple(column for column in table.physical_columns if column.name not in absent)
    return replace(plan, input=Project(plan.input, tuple(items)), table=replace(table, columns=given, watermark=None))


_INSTEAD = f"SET '{PARTIAL_INSERT}' = 'keep' where the table can keep them."


def absent_columns(statement: nodes.Insert, table: Table) -> tuple[str, ...]:
    """Returns the names of the columns that an INSERT leaves out, if the table replaces rows by key; else an empty
    tuple.
    """
    if not statement.columns or not table.primary_key or RowKind.UPDATE_AFTER not in row_kinds_taken(table):
        return ()
    fixed = (value.column for value in statement.partition if value.value is not None)
    named = {name.casefold() for name in (*statement.columns, *fixed)}
    return tuple(column.name for column in table.physical_columns if column.name.casefold() not in named)


def partial_insert_warnings(statement: nodes.Statement, workspace: Workspace) -> Iterator[Diagnostic]:
    """Yields a warning for each INSERT that sets the columns it leaves out to NULL, also within EXPLAIN."""
    match statement:
        case nodes.Explain():
            yield from partial_insert_warnings(statement.statement, workspace)
        case nodes.StatementSet():
            for insert in statement.inserts:
                yield from partial_insert_warnings(insert, workspace)
        case nodes.Insert() if workspace.settings[PARTIAL_INSERT] == "overwrite" and not statement.overwrite:
            table = workspace.catalog.relation(str(statement.target))
            absent = absent_columns(statement, table) if isinstance(table, Table) else ()
            if isinstance(table, Table) and absent:
                hint = f"Name them, or {_INSTEAD}"
                yield Diagnostic(PARTIAL, _message(table, absent), statement.target.span, hint=hint, warning=True)


def _message(table: Table, absent: tuple[str, ...]) -> str:
    names = ", ".join(f'"{name}"' for name in absent)
    return f'INSERT replaces rows of table "{table.name}" by key and overwrites the other columns with NULL: {names}'
