"""Statements that run queries: SELECT, INSERT, statement sets, INSERT OVERWRITE; and TRUNCATE TABLE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.batch import Batch, chosen, set_of_streams
from sqlstream.catalog import Catalog
from sqlstream.connectors import ReplacingSink, Source, TruncatableTable, connector
from sqlstream.errors import BindError, SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.spans import mark_as
from sqlstream.planner.binder.inserts import partitions_of, without_partition
from sqlstream.planner.catalog import APPEND_ONLY, Column, Table
from sqlstream.planner.nodes import Insert, Output
from sqlstream.plans import (
    Root,
    former_plans,
    looked_up_tables,
    scanned_tables,
    side_tables,
)
from sqlstream.results import Rows, columns_of, key_of
from sqlstream.settings import Settings
from sqlstream.statements.partitions import partition_texts
from sqlstream.statements.statement import OK, Execution, StatementType
from sqlstream.views.server import reach
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.jobs import Job
    from sqlstream.query import Query

NOT_REPLACED = "SS296"
WRITTEN = "SS695"
_UNBOUNDED = "SS600"
_PARTITION = "SS358"
_NEW = "__new"

Write = nodes.Insert | nodes.StatementSet
"""Statements that write into tables of the catalog."""


class SelectStatement(StatementType[nodes.Query]):
    """Carries out a query (SELECT, VALUES, …): starts it and returns its rows, which arrive while they are read."""

    def check(self, statement: nodes.Query, scratch: Workspace, text: str) -> bool:
        """Plans the query without running it, which finds its mistakes."""
        chosen(statement, scratch)
        return True

    def run(self, statement: nodes.Query, execution: Execution) -> Query:
        """Start the query and return its rows as they arrive."""
        from sqlstream.query import Query  # PyArrow, which statements without rows do without

        workspace = execution.workspace
        plan = chosen(statement, workspace, finished=execution.as_table)
        reach_views(plan, workspace.settings)
        if isinstance(plan, Batch):
            run, columns = execution.batches.start(plan, workspace, execution.text)
            return Query(run, columns, _time_zone(execution), find_no_text=_texts_looked_at(plan.tables))
        assert isinstance(plan, Output)
        job = execution.runner.start(plan, workspace, to_sql(statement))
        updating = plan.changelog_mode != APPEND_ONLY
        key, find_no_text = key_of(plan), _texts_looked_at(scanned_tables(plan))
        zone = _time_zone(execution)
        return Query(job, columns_of(plan), zone, updating=updating, key=key, find_no_text=find_no_text)

    def starts_job(self, statement: nodes.Query) -> bool:
        """True: reading the rows of a query runs a job, which ends with the reading."""
        return True


def _texts_looked_at(tables: Iterable[Table]) -> Callable[[], SqlStreamError | None] | None:
    """What looks for a STRING that is not UTF-8, and returns the error of the first of the tables whose source finds
    one; None where no source looks.
    """
    sources = ((connector(table.connector), table) for table in tables)
    looking = [(s, t) for s, t in sources if isinstance(s, Source) and type(s).no_text is not Source.no_text]
    return partial(_no_text, looking) if looking else None


def _no_text(sources: Iterable[tuple[Source, Table]]) -> SqlStreamError | None:
    return next((error for source, table in sources if (error := source.no_text(table)) is not None), None)


class WriteStatement(StatementType[Write]):
    """Carries out INSERT and EXECUTE STATEMENT SET, which start a job that writes rows into tables."""

    def check(self, statement: Write, scratch: Workspace, text: str) -> bool:
        """Plans the INSERT or the statement set without starting a job, which finds its mistakes."""
        planned(statement, scratch)
        return True

    def run(self, statement: Write, execution: Execution) -> Job:
        """Starts the job that writes the rows, and returns it."""
        return start_insert(statement, execution)

    def starts_job(self, statement: Write) -> bool:
        """Whether the statement starts a job: INSERT and statement sets always do."""
        return True


class TruncateTable(StatementType[nodes.Truncate]):
    """Carries out TRUNCATE TABLE, which removes all rows of a table without a job."""

    def check(self, statement: nodes.Truncate, scratch: Workspace, text: str) -> bool:
        """Raises an error if there is no such table, or its rows cannot be removed. Removes nothing."""
        _replaceable(statement.name, scratch.catalog, "TRUNCATE TABLE")
        return True

    def run(self, statement: nodes.Truncate, execution: Execution) -> Rows:
        """Removes all rows of the table."""
        _truncate(_replaceable(statement.name, execution.workspace.catalog, "TRUNCATE TABLE"), execution)
        return OK


def start_insert(statement: Write, execution: Execution) -> Job:
    """Starts the job of an INSERT or a statement set and returns it. INSERT OVERWRITE also removes the old rows of the
    table.

    With the setting 'table.dml-sync' it returns only when the job has ended, except for callers that read tables
    instead of streams (``Execution.as_table``).

    :raises SqlStreamError: with all mistakes in the statement, before any row is removed.
    """
    workspace = execution.workspace
    plan = planned(statement, workspace)
    replaced = None
    if isinstance(statement, nodes.Insert) and statement.overwrite:
        replaced = _replaceable(statement.target, workspace.catalog, "INSERT OVERWRITE")
    reach_views(plan, workspace.settings)
    ready = partial(_replacing, statement, replaced, execution)
    if isinstance(plan, Batch):  # old rows are removed once the new ones are computed
        job = execution.batches.insert(plan, workspace, execution.text, ready)
    else:
        assert not isinstance(plan, Output)
        plan = ready(plan)
        former = former_plans(statement, plan, workspace)
        job = execution.runner.start(plan, workspace, to_sql(statement), former=former)
    if workspace.settings["table.dml-sync"] and not execution.as_table:
        job.wait()
    return job


def planned(statement: nodes.Query | Write, workspace: Workspace) -> Root | Batch:
    """Plans the statement. Returns the plan of a stream, or a batch if it runs over finished data. SqlStreamError with
    all mistakes.
    """
    match statement:
        case nodes.StatementSet():
            _refuse_writing_views(statement.inserts, statement, workspace)
            return set_of_streams(statement, workspace)
        case nodes.Insert():
            _refuse_writing_views((statement,), statement, workspace)
            return chosen_to_overwrite(statement, workspace) if statement.overwrite else chosen(statement, workspace)
    return chosen(statement, workspace)


def reach_views(plan: Root | Batch, settings: Settings) -> None:
    """Starts the database server of materialized views if the plan reads or writes the table of one."""
    if isinstance(plan, Batch):
        reach(plan.tables, settings)
    else:
        reach((*scanned_tables(plan), *looked_up_tables(plan), *side_tables(plan)), settings)


def _refuse_writing_views(inserts: Sequence[nodes.Insert], statement: Write, workspace: Workspace) -> None:
    """BindError SS695 where one of the targets is the table of a materialized view."""
    for insert in inserts:
        table = workspace.catalog.relation(str(insert.target))
        if isinstance(table, Table) and table.materialized:
            message = f'"{table.name}" is a materialized view, which its own job alone writes'
            hint = "INSERT into a table that its query reads."
            raise BindError(WRITTEN, message, statement.span, hint=hint)


def _time_zone(execution: Execution) -> str:
    zone = execution.runner.spark.get(execution.workspace.settings).conf.get("spark.sql.session.timeZone")
    assert zone is not None, "Spark always has a time zone"
    return zone


# --- tables whose rows are replaced or removed ----------------------------------------------------------------


def _truncate(table: Table | None, execution: Execution) -> None:
    if table is None:
        return
    kind = connector(table.connector)
    assert isinstance(kind, TruncatableTable), table.connector
    kind.truncate(execution.runner.folders.root, table)


def _replacing(statement: Write, replaced: Table | None, execution: Execution, plan: Root) -> Root:
    """The plan of a job that is about to start. That of an INSERT OVERWRITE replaces the rows of its table, or they are
    removed now.
    """
    kind = None if replaced is None else connector(replaced.connector)
    if isinstance(kind, ReplacingSink) and isinstance(plan, Insert) and isinstance(statement, nodes.Insert):
        return replace(plan, table=kind.replacing(plan.table, partition_texts(statement.partition, plan.table)))
    _truncate(replaced, execution)
    return plan


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
            NOT_REPLACED, message, name.span,
            hint=f"{words} takes tables of filesystem, delta, iceberg, memory and blackhole.",
        )  # fmt: skip
    return table


def chosen_to_overwrite(statement: nodes.Insert, workspace: Workspace) -> Root | Batch:
    """Plans an INSERT OVERWRITE. Returns the plan of a stream, or a batch if it runs over finished data.

    BindError SS296 where the query never ends, or reads the table that it overwrites.
    """
    table = _replaceable(statement.target, workspace.catalog, "INSERT OVERWRITE")
    finished = workspace.copy()
    finished.settings.set("execution.runtime-mode", "batch")
    plain = replace(statement, overwrite=False)
    try:
        plan = chosen(plain, finished)
        others = not isinstance(connector(table.connector), ReplacingSink)
        if others and any(value.value is not None for value in statement.partition):
            plan = chosen(_with_other_partitions(plain, table, workspace.catalog), finished)
    except SqlStreamError as error:
        raise _without_end(error) from None
    if isinstance(plan, Insert) and any(read.name == table.name for read in scanned_tables(plan)):
        message = f'table "{table.name}" would be emptied while it is read'
        hint = "INSERT the rows into another table first."
        raise BindError(NOT_REPLACED, message, statement.target.span, hint=hint)
    return plan


def _with_other_partitions(statement: nodes.Insert, table: Table, catalog: Catalog) -> nodes.Insert:
    """The INSERT with the rows of all other partitions as well, because the whole table is written anew."""
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
