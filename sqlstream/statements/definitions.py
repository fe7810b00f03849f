"""CREATE, DROP, SET and RESET: statements that change the catalog or the settings, and nothing else.

A copy of the workspace takes the same statements when a script is only checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from sqlstream.batch import Batch, chosen, only_as_batch
from sqlstream.batch.running import Batches
from sqlstream.catalog import DOES_NOT_EXIST, Catalog, Mount, Path, full_name
from sqlstream.catalogs.declaring import KINDS, declared_table, expanded, qualified
from sqlstream.catalogs.declaring import create_table as declaring_statement
from sqlstream.catalogs.functions import declared_function
from sqlstream.catalogs.registered_columns import with_registered_columns
from sqlstream.catalogs.store import Bound, Stored, options_of_new
from sqlstream.connectors import SessionTable, connector
from sqlstream.connectors.secrets import masked
from sqlstream.errors import BindError, Span, SqlStreamError
from sqlstream.grammar import format_script, nodes, to_sql
from sqlstream.planner.binder import bind_view
from sqlstream.planner.catalog import Table, View
from sqlstream.planner.nodes import Output
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.plans import plan_of
from sqlstream.results import Rows
from sqlstream.secrets import shown_value
from sqlstream.settings import without_effect
from sqlstream.statements.queries import start_insert
from sqlstream.statements.statement import OK, Defined, Definition, Execution, S
from sqlstream.types import DataType
from sqlstream.udfs.hiding import hiding
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.jobs import Job
    from sqlstream.query import Query


WRONG_COLUMNS = "SS216"
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
            return _create_as(statement, statement.query, execution)
        replaced = tables_of(statement.name, execution.workspace) if statement.replace else []
        self.define(statement, execution.workspace, execution.text)
        for table in replaced:
            remove_rows(table, execution)
        return OK

    def starts_job(self, statement: nodes.CreateTable) -> bool:
        """Whether the statement starts a job, which CREATE TABLE with AS does."""
        return statement.query is not None


def tables_of(name: nodes.Name, workspace: Workspace) -> list[Table]:
    """A list with the table of that name. Empty if the name is not that of a table, or its definition cannot be
    read.
    """
    try:
        relation = workspace.catalog.required(name)
    except SqlStreamError:
        return []
    return [relation] if isinstance(relation, Table) else []


def remove_rows(table: Table, execution: Execution) -> None:
    """Removes the rows that the session stores for a table that is dropped or replaced."""
    kind = connector(table.connector)
    if isinstance(kind, SessionTable):
        kind.drop(execution.runner.folders.root, table)


def declared(statement: nodes.CreateTable, catalog: Catalog) -> tuple[Table, Stored]:
    """Returns a pair: the table that the statement declares, and its definition for the catalog, in which LIKE is
    replaced by what it copies.
    """
    path = catalog.path(statement.name)
    whole = liked(statement, catalog) if statement.like is not None else statement
    if not statement.temporary:
        whole = _with_place(whole, options_of_new(catalog.mount(path[0], statement.name).store, *path[1:]))
    options = {option.key: expanded(option.value, catalog.variables or {}) for option in whole.options}
    whole = with_registered_columns(whole, options)
    table = declared_table(whole, catalog, full_name(path), catalog.variables)
    return table, Stored(replace(whole, name=bare(path[2], statement.name)))


def _with_place(statement: nodes.CreateTable, place: Mapping[str, str]) -> nodes.CreateTable:
    """The statement with the options that its catalog knows. BindError SS246 where it says others."""
    given = {option.key: option for option in statement.options}
    wrong = next((option for key, option in given.items() if option.value != place.get(key, option.value)), None)
    if wrong is not None:
        message = f"'{wrong.key}' of a table in this catalog is '{shown_value(wrong.key, place[wrong.key])}'"
        raise BindError("SS246", message, wrong.span, hint="Leave the option out, or create a TEMPORARY TABLE.")
    new = (nodes.Option(key, value, span=statement.name.span) for key, value in place.items() if key not in given)
    return replace(statement, options=(*statement.options, *new))


def create_table(statement: nodes.CreateTable, table: Table, stored: Stored, catalog: Catalog) -> bool:
    """Adds a declared table to the catalog. Returns False if the table exists already and the statement has IF NOT
    EXISTS.
    """
    if statement.must_exist:
        catalog.required(statement.name)
    return catalog.create(
        statement.name,
        table,
        if_not_exists=statement.if_not_exists,
        replace=statement.replace,
        temporary=statement.temporary,
        stored=stored,
    )


def bare(name: str, written: nodes.Name) -> nodes.Name:
    """Returns ``name`` as a name without catalog and database. Errors about it point to where ``written`` is in the
    text.
    """
    return nodes.Name((name,), span=written.span)


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


# --- CREATE TABLE … AS ----------------------------------------------------------------------------------------


CreatedAs = tuple[Table, Stored, tuple[str, ...]]
"""A table, its definition, and the columns of it that its query fills, in the order of the query."""


def _create_as(statement: nodes.CreateTable, query: exp.Expression, execution: Execution) -> Rows | Job:
    """Create the table and start the job that writes its rows; where the job does not start, there is no table, or
    the one that it would have replaced."""
    workspace = execution.workspace
    catalog = workspace.catalog
    path = catalog.path(statement.name)
    table, stored, columns = created_as(statement, query, workspace, execution.batches)
    replaced = tables_of(statement.name, workspace) if statement.replace else []
    entry = catalog.entry("relation", path)
    if not create_table(statement, table, stored, catalog):
        return OK
    for before in replaced:
        remove_rows(before, execution)
    try:
        return start_insert(nodes.Insert(statement.name, query, columns, span=statement.span), execution)
    except SqlStreamError:
        catalog.drop("TABLE", statement.name)
        if replaced and entry is not None:
            before_text = entry.stored if isinstance(entry, Bound) else entry
            catalog.create(statement.name, replaced[0], temporary=statement.temporary, stored=before_text)
        raise


def created_as(
    statement: nodes.CreateTable, query: exp.Expression, workspace: Workspace, batches: Batches
) -> CreatedAs:
    """Declares the table of CREATE TABLE … AS. Returns a triple: the table, its definition as the catalog stores it,
    and the names of the columns that the query fills.

    If the query only reads finished (bounded) data, Spark is started to find its columns.
    """
    plan = chosen(nodes.Query(query, span=statement.span), workspace)
    if not isinstance(plan, Batch):
        return table_of_query(statement, workspace)
    with batches.analyzed(plan, workspace) as analyzed:
        return _table(statement, [(name, type_, True) for name, type_ in analyzed.columns], workspace)


def table_of_query(statement: nodes.CreateTable, workspace: Workspace) -> CreatedAs:
    """Declares the table of CREATE TABLE … AS with a query that runs as a stream, without starting Spark.

    Returns a triple: the table, its definition as the catalog stores it, and the names of the columns that the query
    fills.
    """
    assert statement.query is not None
    plan = plan_of(nodes.Query(statement.query, span=statement.span), workspace)
    assert isinstance(plan, Output)
    named_fields = zip(plan.names, plan.schema, strict=True)
    return _table(statement, [(name, field.type, field.nullable) for name, field in named_fields], workspace)


def _table(
    statement: nodes.CreateTable, typed_names: Iterable[tuple[str, DataType, bool]], workspace: Workspace
) -> CreatedAs:
    selected = [
        nodes.PhysicalColumn(name, type_.to_sqlglot(), nullable, span=statement.name.span)
        for name, type_, nullable in typed_names
    ]
    columns = tuple(_columns(statement, selected))
    table, stored = declared(replace(statement, columns=columns, query=None), workspace.catalog)
    return table, stored, tuple(column.name for column in selected) if statement.columns else ()


def _columns(statement: nodes.CreateTable, selected: list[nodes.PhysicalColumn]) -> Iterable[nodes.Column]:
    """Declared columns come first and say what they say; names alone put those of the query into another order."""
    by_name = {column.name.casefold(): column for column in selected}
    if any(isinstance(column, nodes.NamedColumn) for column in statement.columns):
        _require_all(statement, by_name)
        return [by_name[column.name.casefold()] for column in statement.columns]
    given = {column.name.casefold() for column in statement.columns}
    return [*statement.columns, *(column for column in selected if column.name.casefold() not in given)]


def _require_all(statement: nodes.CreateTable, by_name: dict[str, nodes.PhysicalColumn]) -> None:
    for column in statement.columns:
        if not isinstance(column, nodes.NamedColumn):
            hint = "Give all columns types, or none."
            raise BindError(WRONG_COLUMNS, f'column "{column.name}" stands among names alone', column.span, hint=hint)
        if column.name.casefold() not in by_name:
            message = f'the query of "{statement.name}" has no column "{column.name}"'
            raise BindError(WRONG_COLUMNS, message, column.span, hint=f"It has {', '.join(by_name)}.")
    missing = by_name.keys() - {column.name.casefold() for column in statement.columns}
    if missing or len(statement.columns) != len(by_name):
        message = f'the columns of "{statement.name}" are {len(statement.columns)}, and the query gives {len(by_name)}'
        raise BindError(WRONG_COLUMNS, message, statement.name.span, hint="Name each column of the query once.")


# --- CREATE TABLE … LIKE --------------------------------------------------------------------------------------


WRONG_LIKE = "SS294"

T = TypeVar("T")

_FEATURES = ("CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_OVERWRITTEN = ("GENERATED", "METADATA", "OPTIONS", "WATERMARKS")
_INCLUDING, _EXCLUDING, _OVERWRITING = "INCLUDING", "EXCLUDING", "OVERWRITING"


def liked(statement: nodes.CreateTable, catalog: Catalog) -> nodes.CreateTable:
    """Returns the CREATE TABLE with LIKE replaced by what it copies from the other table. BindError SS294 where both
    tables define the same.
    """
    like = statement.like
    assert like is not None
    source = _source(like, catalog)
    ways, span = _ways(like), statement.name.span
    keys = statement.primary_key, source.primary_key
    partitions = statement.partitioned_by, source.partitioned_by
    buckets = statement.distribution, source.distribution
    return replace(
        statement,
        like=None,
        columns=_columns_of_both(statement, source, ways),
        watermark=_watermark(statement, source, ways["WATERMARKS"]),
        primary_key=_of_one(*keys, ways, span, "has a PRIMARY KEY", "CONSTRAINTS"),
        partitioned_by=_of_one(*partitions, ways, span, "has partitions", "PARTITIONS"),
        distribution=_of_one(*buckets, ways, span, "is DISTRIBUTED", "DISTRIBUTION"),
        options=_options(statement, source, ways["OPTIONS"]),
        comment=statement.comment,
    )


def _source(like: nodes.LikeTable, catalog: Catalog) -> nodes.CreateTable:
    relation = catalog.required(like.source)
    if isinstance(relation, View):
        hint = "Write CREATE TABLE … AS SELECT * FROM the view, or give the columns."
        raise BindError(WRONG_LIKE, f'"{relation.name}" is a view, and LIKE takes tables', like.source.span, hint=hint)
    return definition_of(relation, catalog, catalog.path(like.source))


def _ways(like: nodes.LikeTable) -> dict[str, str]:
    """What happens to each feature; those of ALL hold where nothing else is said."""
    said: dict[str, str] = {}
    for option in like.options:
        if option.feature in said:
            raise _wrong(f"LIKE says twice what happens to {option.feature}", option.span)
        if option.action == _OVERWRITING and option.feature not in (*_OVERWRITTEN, "ALL"):
            raise _wrong(f"{option.feature} cannot be overwritten", option.span, "Write INCLUDING or EXCLUDING.")
        said[option.feature] = option.action
    default = said.get("ALL", _INCLUDING)
    ways = {feature: said.get(feature, default) for feature in _FEATURES}
    if "ALL" not in said and "OPTIONS" not in said:
        ways["OPTIONS"] = _OVERWRITING
    return ways


def _wrong(message: str, span: Span, hint: str | None = None) -> BindError:
    return BindError(WRONG_LIKE, message, span, hint=hint)


_FEATURE_OF = {nodes.ComputedColumn: "GENERATED", nodes.MetadataColumn: "METADATA"}


def _columns_of_both(
    statement: nodes.CreateTable, source: nodes.CreateTable, ways: dict[str, str]
) -> tuple[nodes.Column, ...]:
    """The columns of the source in their order, those that are overwritten in their place, then the others."""
    own = {column.name.casefold(): column for column in statement.columns}
    columns: list[nodes.Column] = []
    for column in source.columns:
        way = ways[_FEATURE_OF[type(column)]] if type(column) in _FEATURE_OF else _INCLUDING
        given = own.get(column.name.casefold())
        if way == _EXCLUDING:
            continue
        if given is not None and not (way == _OVERWRITING and type(given) is type(column)):
            message = f'column "{column.name}" is in the table of LIKE already'
            raise _wrong(message, given.span, "Leave it out, or give it another name.")
        columns.append(own.pop(column.name.casefold(), column))
    return (*columns, *own.values())


def _watermark(statement: nodes.CreateTable, source: nodes.CreateTable, way: str) -> nodes.WatermarkDef | None:
    if way == _EXCLUDING or source.watermark is None:
        return statement.watermark
    if statement.watermark is not None and way != _OVERWRITING:
        hint = "Write LIKE t (OVERWRITING WATERMARKS), or EXCLUDING WATERMARKS."
        raise _wrong("the table of LIKE has a WATERMARK, too", statement.watermark.span, hint)
    return statement.watermark or source.watermark


def _of_one(own: T, others: T, ways: dict[str, str], span: Span, what: str, feature: str) -> T:
    """What one of the two tables says. SS294 where each says something."""
    if ways[feature] == _EXCLUDING:
        return own
    if own and others:
        raise _wrong(f"the table of LIKE {what}, too", span, f"Write LIKE t (EXCLUDING {feature}).")
    return own or others


def _options(statement: nodes.CreateTable, source: nodes.CreateTable, way: str) -> tuple[nodes.Option, ...]:
    if way == _EXCLUDING:
        return statement.options
    own = {option.key: option for option in statement.options}
    twice = next((own[option.key] for option in source.options if option.key in own), None)
    if twice is not None and way != _OVERWRITING:
        hint = "Write LIKE t (OVERWRITING OPTIONS), or EXCLUDING OPTIONS."
        raise _wrong(f'option "{twice.key}" is in the table of LIKE, too', twice.span, hint)
    kept = [own.pop(option.key, option) for option in source.options]
    return tuple(_placed([*kept, *own.values()], statement.name.span))


def _placed(options: Iterable[nodes.Option], span: Span) -> Iterable[nodes.Option]:
    """Options of the other table stand in another text."""
    return (replace(option, span=span) for option in options)


# --- definitions as text --------------------------------------------------------------------------------------


def create_table_text(table: Table, catalog: Catalog, path: Path) -> str:
    """The CREATE TABLE statement that declares ``table``, as formatted text with secrets masked, for SHOW CREATE."""
    statement = definition_of(table, catalog, path)
    shown = masked((option.key, option.value) for option in statement.options)
    temporary = catalog.is_temporary("relation", path)
    options = tuple(nodes.Option(key, value) for key, value in shown)
    return _laid_out(replace(statement, name=printed_name(path), options=options, temporary=temporary))


def create_view_text(view: View, catalog: Catalog, path: Path) -> str:
    """The CREATE VIEW statement of ``view``, as formatted text, for SHOW CREATE."""
    temporary = catalog.is_temporary("relation", path)
    return _laid_out(nodes.CreateView(printed_name(path), view.query, view.columns, temporary=temporary))


def create_materialized_text(statement: nodes.CreateMaterializedView, path: Path) -> str:
    """The CREATE MATERIALIZED VIEW statement, as formatted text with secrets masked, for SHOW CREATE."""
    shown = masked((option.key, option.value) for option in statement.options)
    options = tuple(nodes.Option(key, value) for key, value in shown)
    return _laid_out(replace(statement, name=printed_name(path), options=options))


def create_catalog_text(mount: Mount) -> str:
    """The CREATE CATALOG statement of a catalog, as formatted text with secrets masked, for SHOW CREATE."""
    options = tuple(nodes.Option(key, value) for key, value in masked(mount.options))
    return _laid_out(nodes.CreateCatalog(nodes.Name((mount.name,)), options, comment=mount.comment))


def _laid_out(
    statement: nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView | nodes.CreateCatalog,
) -> str:
    return format_script(to_sql(statement)).strip()


def printed_name(path: Path) -> nodes.Name:
    """The name under which SHOW CREATE prints an object: only its last part if it is in the default database, else all
    parts.
    """
    return nodes.Name(path[2:] if full_name(path) == path[2] else path)


def definition_of(table: Table, catalog: Catalog, path: Path) -> nodes.CreateTable:
    """A CREATE TABLE statement that defines the table again: the one that created it, without IF NOT EXISTS, OR REPLACE
    and TEMPORARY; if that is unknown, one that is made from the table's columns and options.
    """
    entry = catalog.entry("relation", path)
    stored = entry.stored if isinstance(entry, Bound) else entry
    if stored is not None and isinstance(stored.statement, nodes.CreateTable):
        return replace(stored.statement, if_not_exists=False, replace=False, must_exist=False, temporary=False)
    return replace(declaring_statement(table), name=nodes.Name((path[2],)))
