"""SHOW and DESCRIBE over a workspace, DESCRIBE of functions and queries, and statements that are refused."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sqlstream.batch import only_as_batch
from sqlstream.catalog import Catalog
from sqlstream.errors import BindError, SqlStreamError
from sqlstream.functions.builtin import Builtin, BuiltinKind, Origin
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar import nodes
from sqlstream.planner.binder import bind_query
from sqlstream.planner.catalog import Function, FunctionKind, Table, View
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows
from sqlstream.statements.show import (
    LISTED,
    StatusOf,
    describe_catalog,
    describe_database,
    describe_table,
    describe_view,
    described_more,
    freshness_of,
    show,
    show_materialized,
)
from sqlstream.statements.statement import Execution, S, StatementType
from sqlstream.types import DataType
from sqlstream.udfs.functions import load
from sqlstream.workspace import Workspace

NO_FUNCTION = "SS203"

Line = tuple[str, str]


def describe_function_named(name: nodes.Name, catalog: Catalog, *, extended: bool = False) -> Rows:
    """What DESCRIBE FUNCTION prints about a function, line by line."""
    local = str(name)
    function = catalog.function(local)
    if function is not None:
        facts = [*_of_user(function), *(_more_of_user(function) if extended else ())]
        return Rows.of_text(("info name", "info value"), facts)
    built_in = FUNCTIONS.get(local.lower())
    if built_in is None:
        hint = did_you_mean(local, catalog.function_names(), "functions of yours")
        raise BindError(NO_FUNCTION, f'function "{local}" does not exist', name.span, hint=hint)
    facts = [("function name", built_in.name), ("kind", built_in.kind.value), ("origin", "built-in")]
    return Rows.of_text(("info name", "info value"), [*facts, *(_more_of_built_in(built_in) if extended else ())])


# --- functions of users ---------------------------------------------------------------------------------------


def _of_user(function: Function) -> Iterator[Line]:
    defaults = dict(function.defaults)
    yield "function name", function.name
    yield "kind", function.kind.value
    yield "origin", "user"
    yield from (("argument", _argument(n, kind, defaults.get(n))) for n, kind in function.parameters)
    yield "returns", _returns(function)
    yield "deterministic", str(function.deterministic).upper()
    yield "definition" if function.kind is FunctionKind.SQL else "target", function.target


def _more_of_user(function: Function) -> Iterator[Line]:
    yield "language", "SQL" if function.kind is FunctionKind.SQL else "PYTHON"
    defaults = dict(function.defaults)
    arguments = ", ".join(_argument(n, kind, defaults.get(n)) for n, kind in function.parameters)
    yield "signature", f"{function.name}({arguments}){f' RETURNS {r}' if (r := _returns(function)) else ''}"
    if function.kind is not FunctionKind.SQL and not function.in_place:
        yield from _of_python(function.target)


def _of_python(target: str) -> Iterator[Line]:
    """What the module says, where it can be imported here."""
    try:
        implementation = load(target)
    except SqlStreamError:
        return
    if inspect.isclass(implementation):
        yield "class", f"{implementation.__module__}.{implementation.__qualname__}"
    if usage := _first_paragraph(implementation):
        yield "usage", usage


def _returns(function: Function) -> str:
    return function.declared or ("" if function.returns.is_unknown else function.returns.ddl())


def _argument(name: str, kind: DataType, default: str | None) -> str:
    typed = name if kind.is_unknown else f"{name} {kind}"
    return typed if default is None else f"{typed} DEFAULT {default}"


# --- built-in functions ---------------------------------------------------------------------------------------


def _more_of_built_in(function: Builtin) -> Iterator[Line]:
    of_flink = function.origin is Origin.FLINK
    yield "class", "an expression of Spark, by Flink's name" if of_flink else "a function of Spark"
    if function.arity is not None:
        yield "arguments", function.arity_in_words
    if function.kind in (BuiltinKind.SCALAR, BuiltinKind.AGGREGATE):
        yield "deterministic", str(not function.volatile).upper()
    if usage := _usage(function.name):
        yield "usage", usage


def _usage(name: str) -> str | None:
    """What PySpark says of a function of that name; None where it is not installed."""
    try:
        from pyspark.sql import functions  # PySpark is loaded for DESCRIBE FUNCTION EXTENDED alone
    except ModuleNotFoundError:
        return None
    function = getattr(functions, name, None)
    return _first_paragraph(function) if callable(function) else None


def _first_paragraph(documented: object) -> str | None:
    text = inspect.getdoc(documented) or ""
    return " ".join(text.partition("\n\n")[0].split()) or None


# --- SHOW and DESCRIBE ----------------------------------------------------------------------------------------


UNKNOWN_COLUMNS = "SS601"


class Inspection(StatementType[S]):
    """Base of statements that show objects of the catalog (SHOW, DESCRIBE). Checking a script runs them too, but
    without the state of materialized views.
    """

    def check(self, statement: S, scratch: Workspace, text: str) -> bool:
        """Shows the objects of the scratch workspace, which finds mistakes in the statement."""
        self.rows(statement, scratch, None)
        return True

    def run(self, statement: S, execution: Execution) -> Rows:
        """Return the rows that the statement shows."""
        workspace = execution.workspace
        return self.rows(statement, workspace, lambda name: execution.views().status_of(name, workspace))

    def rows(self, statement: S, workspace: Workspace, status_of: StatusOf | None) -> Rows:
        """The rows that the statement shows. ``status_of`` returns the state of a materialized view by name; None while
        a script is only checked.
        """
        raise NotImplementedError


class Show(Inspection[nodes.Show]):
    """Carries out SHOW for all kinds of objects but jobs and their checkpoints."""

    def rows(self, statement: nodes.Show, workspace: Workspace, status_of: StatusOf | None) -> Rows:
        """The rows of the SHOW statement: one for each object that it lists."""
        if statement.what in LISTED:
            return show_materialized(statement, workspace.catalog, status_of)
        return show(statement, workspace.catalog, lambda name: _described(name, workspace))


class Describe(Inspection[nodes.Describe]):
    """Carries out DESCRIBE for all kinds of objects but jobs."""

    def rows(self, statement: nodes.Describe, workspace: Workspace, status_of: StatusOf | None) -> Rows:
        """The rows of the DESCRIBE statement: one for each column of a table or view, or one for each property of
        another object.
        """
        catalog, name = workspace.catalog, statement.name
        match statement.kind:
            case "FUNCTION":
                return describe_function_named(name, catalog, extended=statement.extended)
            case "CATALOG":
                return describe_catalog(catalog.mount(str(name), name), statement.extended)
            case "DATABASE":
                return describe_database(catalog.database(name), catalog.namespace(name)[0], statement.extended)
        more = () if status_of is None else freshness_of(statement, catalog, status_of)
        return described_more(_described(name, workspace), statement, catalog, more)


class DescribeQuery(Inspection[nodes.DescribeQuery]):
    """Carries out DESCRIBE of a query, which returns the query's columns without running it."""

    def rows(self, statement: nodes.DescribeQuery, workspace: Workspace, status_of: StatusOf | None) -> Rows:
        """The rows of the DESCRIBE statement: one for each column of the query, with its type."""
        return _describe_query(statement, workspace)


def _describe_query(statement: nodes.DescribeQuery, workspace: Workspace) -> Rows:
    """The columns of a query. BindError SS601 where only Spark knows them."""
    try:
        plan = bind_query(statement.query, workspace.catalog)
    except SqlStreamError:
        if not only_as_batch(nodes.Query(statement.query, span=statement.span), workspace):
            raise
        message = "the columns of this query are known to Spark alone, because it runs as a batch"
        hint = "Run it with LIMIT 1, which shows them."
        raise BindError(UNKNOWN_COLUMNS, message, statement.span, hint=hint) from None
    return describe_view(plan.names, plan.schema)


def _described(name: nodes.Name, workspace: Workspace) -> Rows:
    catalog = workspace.catalog
    relation = catalog.required(name)
    if isinstance(relation, Table):
        return describe_table(relation)
    try:
        plan = bind_query(relation.query, catalog.within(relation.namespace))
    except SqlStreamError as error:
        raise _unknown_columns(relation, name, workspace, error) from None
    return describe_view(relation.columns or plan.names, plan.schema)


def _unknown_columns(view: View, name: nodes.Name, workspace: Workspace, error: SqlStreamError) -> SqlStreamError:
    """SS601 for a view over finished data that no stream takes; what is wrong with any other."""
    statement = nodes.Query(view.query, span=name.span)
    if not only_as_batch(statement, workspace):
        return error
    message = f'the columns of view "{view.name}" are known to Spark alone, because its query runs as a batch'
    return BindError(UNKNOWN_COLUMNS, message, name.span, hint=f"SELECT * FROM {view.name} LIMIT 1 shows them.")
