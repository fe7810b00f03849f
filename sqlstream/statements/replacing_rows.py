"""INSERT OVERWRITE and TRUNCATE TABLE: the rows of a table make room."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.batch import Batch, chosen
from sqlstream.catalog import Catalog
from sqlstream.connectors import Source, TruncatableTable, connector
from sqlstream.errors import BindError, SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.grammar.spans import mark_as
from sqlstream.planner.binder.inserts import partitions_of, without_partition
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.nodes import Insert
from sqlstream.plans import Root
from sqlstream.table_uses import scanned_tables
from sqlstream.workspace import Workspace

NOT_REPLACED = "SS296"
_UNBOUNDED = "SS600"
_PARTITION = "SS358"
_NEW = "__new"


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
    if table.materialized:
        message = f'"{table.name}" is a materialized view, whose rows its own job alone removes'
        raise BindError(NOT_REPLACED, message, name.span, hint="DROP MATERIALIZED VIEW removes it.")
    if not isinstance(connector(table.connector), TruncatableTable):
        message = f'rows of table "{table.name}" are not removed: connector "{table.connector}" does not do that'
        raise BindError(
            NOT_REPLACED, message, name.span, hint=f"{words} takes tables of filesystem, memory and blackhole."
        )
    return table


def chosen_to_overwrite(statement: nodes.Insert, workspace: Workspace) -> Root | Batch:
    """What computes the rows of an INSERT OVERWRITE. BindError SS296 where its query has no end, and where it reads the
    table as it is emptied."""
    table = _replaceable(statement.target, workspace.catalog, "INSERT OVERWRITE")
    finished = workspace.copy()
    finished.settings.set("execution.runtime-mode", "batch")
    plain = replace(statement, overwrite=False)
    try:
        plan = chosen(plain, finished)
        if any(value.value is not None for value in statement.partition):
            plan = chosen(_with_other_partitions(plain, table, workspace.catalog), finished)
    except SqlStreamError as error:
        raise _without_end(error) from None
    if isinstance(plan, Insert) and any(read.name == table.name for read in scanned_tables(plan)):
        message = f'table "{table.name}" would be emptied while it is read'
        hint = "INSERT the rows into another table first."
        raise BindError(NOT_REPLACED, message, statement.target.span, hint=hint)
    return plan


def _with_other_partitions(statement: nodes.Insert, table: Table, catalog: Catalog) -> nodes.Insert:
    """The INSERT with the rows of all partitions but the one that it names, as the table is written anew."""
    given = {value.column.casefold() for value in statement.partition if value.value is not None}
    missing = [name for name in partitions_of(table) if name.casefold() not in given]
    if missing:
        message = "INSERT OVERWRITE of a partition of which only some columns are given is not executed"
        hint = f"Give {', '.join(missing)} a value, too, or overwrite the table with the rows of all partitions."
        raise UnsupportedError(_PARTITION, message, statement.partition[0].span, hint=hint)
    kind = connector(table.connector)
    if not isinstance(kind, Source) or any(kind.ready(table, {})):
        return statement
    new = without_partition(statement, catalog)
    names = [name.casefold() for name in new.columns]
    alias = exp.TableAlias(
        this=exp.to_identifier(_NEW), columns=[exp.to_identifier(name, quoted=True) for name in new.columns]
    )
    rows = exp.Select(
        expressions=[_value(column, column.name.casefold() in names) for column in table.physical_columns],
        from_=exp.From(this=exp.Subquery(this=new.query.copy(), alias=alias)),
    )
    same = [
        exp.NullSafeEQ(this=exp.column(value.column, quoted=True), expression=value.value.copy())
        for value in statement.partition
        if value.value is not None
    ]
    kept = exp.Select(
        expressions=[exp.column(column.name, quoted=True) for column in table.physical_columns],
        from_=exp.From(this=_named(statement.target)),
        where=exp.Where(this=exp.Not(this=exp.paren(exp.and_(*same)))),
    )
    union = exp.Union(this=kept, expression=rows, distinct=False)
    mark_as(union, statement.query)
    columns = tuple(column.name for column in table.physical_columns)
    return replace(new, query=union, columns=columns)


def _named(name: nodes.Name) -> exp.Table:
    catalog, database, table = [None, None, *(exp.to_identifier(part, quoted=True) for part in name.parts)][-3:]
    return exp.Table(this=table, db=database, catalog=catalog)


def _value(column: Column, given: bool) -> exp.Alias:
    value = exp.column(column.name, table=_NEW, quoted=True) if given else exp.Null()
    cast = exp.Cast(this=value, to=column.type.to_sqlglot())
    return exp.Alias(this=cast, alias=exp.to_identifier(column.name, quoted=True))


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
