"""CREATE, DROP, SET and RESET: statements that change the catalog or the settings, and nothing else.

A copy of the workspace takes the same statements when a script is only checked.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.batch import Batch, chosen, only_as_batch
from sqlstream.catalog import DOES_NOT_EXIST, full_name
from sqlstream.catalogs.declaring import KINDS, expanded, qualified
from sqlstream.catalogs.functions import declared_function
from sqlstream.catalogs.store import Stored
from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner.binder import bind_view
from sqlstream.planner.catalog import Table, View
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows
from sqlstream.settings import without_effect
from sqlstream.statements.statement import OK, Defined, Definition, Execution, S
from sqlstream.statements.tables import bare, create_as, create_table, declared, remove_rows, table_of_query, tables_of
from sqlstream.udfs.hiding import hiding
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.jobs import Job
    from sqlstream.query import Query

NO_FUNCTION = "SS203"

# --- tables ---------------------------------------------------------------------------------------------------


class CreateTable(Definition[nodes.CreateTable]):
    """Carries out CREATE TABLE, also with LIKE, which copies parts of another table, and with AS, for which a job
    writes the rows of the query.
    """

    def check(self, statement: nodes.CreateTable, scratch: Workspace, text: str) -> bool:
        """Declares the table in ``scratch``, a copy of the workspace, which finds mistakes.

        Returns False for CREATE TABLE … AS if the query only reads finished (bounded) data: Spark alone can infer the
        columns of such a table.
        """
        if statement.query is not None:
            query = nodes.Query(statement.query, span=statement.span)
            if isinstance(chosen(query, scratch), Batch):
                return False  # Spark alone knows the columns
        self.define(statement, scratch, text)
        return True

    def define(self, statement: nodes.CreateTable, workspace: Workspace, text: str) -> Defined:
        """Declares the table in the workspace. For CREATE TABLE … AS the rows are not written, and the query must be
        one that can run as a stream.
        """
        if statement.query is None:
            table, stored = declared(statement, workspace.catalog)
        else:
            table, stored, _ = table_of_query(statement, workspace)
        return table if create_table(statement, table, stored, workspace.catalog) else None

    def run(self, statement: nodes.CreateTable, execution: Execution) -> Rows | Query | Job:
        """Declares the table. For AS it also starts the job that writes the rows of the query. With REPLACE, the rows
        that the session stores for the replaced table are removed.
        """
        if statement.query is not None:
            return create_as(statement, statement.query, execution)
        replaced = tables_of(statement.name, execution.workspace) if statement.replace else []
        self.define(statement, execution.workspace, execution.text)
        for table in replaced:
            remove_rows(table, execution)
        return OK

    def starts_job(self, statement: nodes.CreateTable) -> bool:
        """Whether the statement starts a job, which CREATE TABLE with AS does."""
        return statement.query is not None


# --- views and functions --------------------------------------------------------------------------------------


class CreateView(Definition[nodes.CreateView]):
    """Carries out CREATE VIEW, which adds a view to the catalog."""

    def define(self, statement: nodes.CreateView, workspace: Workspace, text: str) -> Defined:
        """Binds the view's query, which finds its mistakes, and adds the view to the catalog."""
        view, stored = declared_view(statement, workspace, text)
        created = workspace.catalog.create(
            statement.name,
            view,
            if_not_exists=statement.if_not_exists,
            replace=statement.replace,
            temporary=statement.temporary,
            stored=stored,
        )
        return view if created else None


def declared_view(statement: nodes.CreateView, workspace: Workspace, text: str) -> tuple[View, Stored]:
    """Returns a pair: the view that the statement declares, and its definition as the catalog stores it. The query is
    bound once, so that its mistakes are reported now.
    """
    catalog = workspace.catalog
    path = catalog.path(statement.name)
    view = _view(replace(statement, name=bare(full_name(path), statement.name)), workspace, text)
    namespace = path[:2]
    query = statement.query if namespace == catalog.current else qualified(statement.query, catalog)
    kept = replace(statement, name=bare(path[2], statement.name), query=query)
    return replace(view, namespace=catalog.current), Stored(kept, text)


def _view(statement: nodes.CreateView, workspace: Workspace, text: str) -> View:
    """The view. One over finished data that no stream takes is looked at when it is read."""
    name = statement.name.parts[-1]
    try:
        return replace(bind_view(statement, workspace.catalog, text), name=name)
    except SqlStreamError:
        if not only_as_batch(nodes.Query(statement.query, span=statement.span), workspace):
            raise
    return View(name, statement.query, statement.columns, text)


class CreateFunction(Definition[nodes.CreateFunction]):
    """Carries out CREATE FUNCTION: adds a function to the catalog whose body is Python or an SQL expression."""

    def define(self, statement: nodes.CreateFunction, workspace: Workspace, text: str) -> Defined:
        """Loads the Python code or checks the SQL expression, and adds the function. Returns the function; None if it
        exists already and the statement has IF NOT EXISTS.
        """
        catalog = workspace.catalog
        if statement.system:
            function, implementation = declared_function(statement, statement.name.parts[-1], catalog)
            catalog.register(function, implementation)
            return function
        path = catalog.path(statement.name)
        function, implementation = declared_function(statement, full_name(path), catalog)
        created = catalog.create_function(
            statement.name,
            function,
            implementation=implementation,
            if_not_exists=statement.if_not_exists,
            replace=statement.replace,
            temporary=statement.temporary,
            stored=Stored(replace(statement, name=bare(path[2], statement.name)), text),
        )
        return function if created else None


class AlterFunction(Definition[nodes.AlterFunction]):
    """Carries out ALTER FUNCTION, which replaces the implementation of a function. BindError SS203 for a function that
    does not exist.
    """

    def define(self, statement: nodes.AlterFunction, workspace: Workspace, text: str) -> Defined:
        """Replaces the implementation of the function in the catalog."""
        name = str(statement.name)
        if workspace.catalog.function(name) is None:
            if statement.if_exists:
                return None
            hint = did_you_mean(name, workspace.catalog.function_names(), "functions of yours")
            hint = hint or "CREATE FUNCTION makes one."
            raise BindError(NO_FUNCTION, f'function "{name}" does not exist', statement.name.span, hint=hint)
        create = nodes.CreateFunction(
            statement.name,
            statement.target,
            statement.language,
            temporary=statement.temporary,
            replace=True,
            jars=statement.jars,
            system=statement.system,
            span=statement.span,
        )
        return CreateFunction().define(create, workspace, text)


# --- DROP -----------------------------------------------------------------------------------------------------

_NEVER_THERE = {
    "MODEL": "There are no models; a Python function may ask one.",
}


class Drop(Definition[nodes.Drop]):
    """Carries out DROP of any kind of object. The rows that the session stores for dropped tables are removed too."""

    def define(self, statement: nodes.Drop, workspace: Workspace, text: str) -> Defined:
        """Removes the definition of the object from the catalog; jobs and stored rows are not touched."""
        catalog, exists = workspace.catalog, statement.if_exists
        if statement.kind in _NEVER_THERE:
            if not exists:
                message = f'{statement.kind.lower()} "{statement.name}" does not exist'
                raise BindError(DOES_NOT_EXIST, message, statement.name.span, hint=_NEVER_THERE[statement.kind])
            return None
        match statement.kind:
            case "CATALOG":
                catalog.drop_catalog(statement.name, if_exists=exists)
                return None
            case "DATABASE":
                catalog.drop_database(statement.name, if_exists=exists, cascade=statement.cascade)
                return None
        return catalog.drop(statement.kind, statement.name, if_exists=exists, temporary=statement.temporary)

    def run(self, statement: nodes.Drop, execution: Execution) -> Rows:
        """Removes the object from the catalog, and with it the rows that the session stores for its tables, and the
        jobs of materialized views.
        """
        _drop_views(statement, execution)
        dropped = _dropped_tables(statement, execution.workspace)
        self.define(statement, execution.workspace, execution.text)
        for table in dropped:
            remove_rows(table, execution)
        return OK


def _drop_views(statement: nodes.Drop, execution: Execution) -> None:
    """Stop the jobs and remove the rows of the materialized views that the statement drops."""
    if statement.kind in KINDS:
        execution.views().drop(statement.name, execution.workspace)
    if not statement.cascade:
        return
    catalog = execution.workspace.catalog
    with suppress(BindError):  # which the definition reports
        namespace = catalog.namespace(statement.name)
        if namespace != catalog.current:  # which is not dropped
            execution.views().drop_in(namespace, execution.workspace)


def _dropped_tables(statement: nodes.Drop, workspace: Workspace) -> list[Table]:
    match statement:
        case nodes.Drop(kind="TABLE"):
            return tables_of(statement.name, workspace)
        case nodes.Drop(kind="DATABASE", cascade=True):
            with suppress(SqlStreamError):
                return workspace.catalog.tables(workspace.catalog.namespace(statement.name))
    return []


# --- settings -------------------------------------------------------------------------------------------------


class Set(Definition[nodes.Set]):
    """Carries out SET, which changes a setting; without a key it lists the settings that have values."""

    def define(self, statement: nodes.Set, workspace: Workspace, text: str) -> Defined:
        """Set the value of the setting; SET without a key changes nothing."""
        if statement.key is not None:
            assert statement.value is not None
            value = expanded(statement.value, workspace.catalog.variables)
            workspace.settings.set(statement.key, value, statement.span)
        return None

    def run(self, statement: nodes.Set, execution: Execution) -> Rows:
        """Set the value, in Spark as well; without a key return the settings that have values."""
        settings = execution.workspace.settings
        if statement.key is None:
            return Rows.of_text(("key", "value"), settings.rows())
        _apply_to_spark(self, statement, execution)
        self.define(statement, execution.workspace, execution.text)
        note = without_effect(statement.key)
        return OK if note is None else Rows.of_text(("result",), ((f"OK. {note}",),))


class Reset(Definition[nodes.Reset]):
    """Carries out RESET, which returns one setting, or all settings, to the default."""

    def define(self, statement: nodes.Reset, workspace: Workspace, text: str) -> Defined:
        """Reset one setting, or all, to the default."""
        workspace.settings.reset(statement.key, statement.span)
        return None

    def run(self, statement: nodes.Reset, execution: Execution) -> Rows | Query | Job:
        """Reset one setting, or all, to the default, in Spark as well."""
        _apply_to_spark(self, statement, execution)
        return super().run(statement, execution)


def _apply_to_spark(type_: Definition[S], statement: S, execution: Execution) -> None:
    """Set Spark's settings as the statement would have them. Spark may refuse a value, which then is not set."""
    trial = execution.workspace.copy()
    type_.define(statement, trial, execution.text)
    with hiding(trial.settings.secrets):
        execution.runner.spark.apply(trial.settings)
