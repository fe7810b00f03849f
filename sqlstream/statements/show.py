"""SHOW and DESCRIBE: the rows of text that they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sqlstream import connectors
from sqlstream.catalog import DOES_NOT_EXIST, Catalog, Mount, definition_of_view, full_name, kind_of
from sqlstream.catalogs.declaring import KINDS
from sqlstream.catalogs.store import Database
from sqlstream.connectors.secrets import masked
from sqlstream.errors import BindError
from sqlstream.functions.catalogue import kinds_to_show
from sqlstream.grammar import nodes, to_sql
from sqlstream.planner.binder import CORE_MODULE
from sqlstream.planner.catalog import Column, Function, Table, TimeDomain, View
from sqlstream.planner.fields import Schema
from sqlstream.planner.intervals import as_interval
from sqlstream.planner.properties import changelog_text
from sqlstream.results import Rows, moment, time_text, watermark_text
from sqlstream.statements.definition_texts import (
    create_catalog_text,
    create_materialized_text,
    create_table_text,
    create_view_text,
)
from sqlstream.statements.partitions import partitions
from sqlstream.statements.statement import ViewStatus

_Line = tuple[str, ...]

_NEVER_THERE = {
    "JARS": "jars",
    "MODELS": "model name",
    "PROCEDURES": "procedure name",
}
"""What Flink has and is not here, with the name of the column in which SHOW lists it."""


def show(statement: nodes.Show, catalog: Catalog, described: Callable[[nodes.Name], Rows]) -> Rows:
    """The rows of a SHOW statement. ``described`` returns the columns of a table or view by name, as rows of
    DESCRIBE.
    """
    names = statement.names
    match statement.what:
        case "CONNECTORS":
            return _named(_CONNECTOR, _connectors(), names)
        case "CATALOGS":
            return _named(("catalog name",), [(mount.name,) for mount in catalog.mounts()], names)
        case "DATABASES":
            return _named(("database name",), _databases(statement.name, catalog), names)
        case "CURRENT CATALOG":
            return Rows.of_text(("current catalog name",), [(catalog.current[0],)])
        case "CURRENT DATABASE":
            return Rows.of_text(("current database name",), [(catalog.current[1],)])
        case "MODULES":
            return _named(("module name",), [(CORE_MODULE,)], names)
        case "FULL MODULES":
            return _named(("module name", "used"), [(CORE_MODULE, "true")], names)
        case what if what in _NEVER_THERE:
            return Rows.of_text((_NEVER_THERE[what],), [])
        case "TABLES" | "VIEWS" | "FUNCTIONS" | "USER FUNCTIONS":
            namespace = catalog.namespace(statement.name or nodes.Name((), span=statement.span))
            return _named(_HEADS[statement.what], _LISTS[statement.what](catalog, namespace), names)
    return _show_one(statement, catalog, described)


def _show_one(statement: nodes.Show, catalog: Catalog, described: Callable[[nodes.Name], Rows]) -> Rows:
    """Of one table, view or catalog."""
    assert statement.name is not None, statement.what
    match statement.what:
        case "COLUMNS":
            columns = described(statement.name)
            return _named(columns.columns, columns.fetchall(), statement.names)
        case "PARTITIONS":
            return Rows.of_text(("partition name",), [(name,) for name in partitions(statement, catalog)])
        case "CREATE CATALOG":
            mount = catalog.mount(str(statement.name), statement.name)
            return Rows.of_text(("result",), [(create_catalog_text(mount),)])
        case what if what.removeprefix("CREATE ") in KINDS:
            text = create_materialized_text(materialized(statement.name, catalog), catalog.path(statement.name))
            return Rows.of_text(("result",), [(text,)])
        case "CREATE VIEW":
            text = create_view_text(_view(statement.name, catalog), catalog, catalog.path(statement.name))
            return Rows.of_text(("result",), [(text,)])
    assert statement.what == "CREATE TABLE", statement.what
    text = create_table_text(_table(statement.name, catalog), catalog, catalog.path(statement.name))
    return Rows.of_text(("result",), [(text,)])


def _databases(name: nodes.Name | None, catalog: Catalog) -> list[_Line]:
    mount = catalog.mount(catalog.current[0] if name is None else str(name), name)
    return [(database.name,) for database in sorted(mount.store.databases(), key=lambda d: d.name)]


def _shown_tables(catalog: Catalog, namespace: tuple[str, str]) -> list[_Line]:
    """With views, as in Flink. A definition that is damaged is told of here, too."""
    catalog.relations(namespace)
    return [(name,) for name in catalog.names("relation", namespace)]


def _shown_views(catalog: Catalog, namespace: tuple[str, str]) -> list[_Line]:
    views = {view.name for view in catalog.views(namespace)}
    names = catalog.names("relation", namespace)
    return [(name,) for name in names if full_name((*namespace, name)) in views]


_Lister = Callable[[Catalog, tuple[str, str]], Iterable[_Line]]
_LISTS: dict[str, _Lister] = {
    "TABLES": _shown_tables,
    "VIEWS": _shown_views,
    "USER FUNCTIONS": lambda catalog, namespace: _users(catalog.functions(namespace)),
    "FUNCTIONS": lambda catalog, namespace: [*_users(catalog.functions(namespace)), *_built_in()],
}


def _named(columns: tuple[str, ...], rows: Iterable[_Line], names: nodes.NameFilter | None) -> Rows:
    """The rows whose first value the filter lets pass."""
    return Rows.of_text(columns, [row for row in rows if names is None or passes(row[0], names)])


def passes(name: str, names: nodes.NameFilter) -> bool:
    """Whether ``name`` passes the filter [NOT] LIKE or ILIKE of a SHOW statement. The pattern must match the whole
    name; a backslash escapes ``%`` and ``_``.
    """
    wild = {"%": ".*", "_": "."}
    pieces = re.findall(r"\\.|.", names.pattern, re.DOTALL)
    pattern = "".join(wild.get(piece) or re.escape(piece[-1]) for piece in pieces)
    fits = re.fullmatch(pattern, name, re.DOTALL | (re.IGNORECASE if names.any_case else 0)) is not None
    return fits is not names.negated


def materialized(name: nodes.Name, catalog: Catalog) -> nodes.CreateMaterializedView:
    """The definition of a materialized view. BindError SS202 for an unknown name."""
    relation = catalog.required(name)
    definition = definition_of_view(catalog.entry("relation", catalog.path(name)))
    if definition is None:
        kind = "view" if isinstance(relation, View) else "table"
        message, hint = f'"{relation.name}" is a {kind}, not a materialized view', f"Write SHOW CREATE {kind.upper()}."
        raise BindError(DOES_NOT_EXIST, message, name.span, hint=hint)
    return definition[0]


def _table(name: nodes.Name, catalog: Catalog) -> Table:
    relation = catalog.required(name)
    if isinstance(relation, Table) and relation.materialized:
        message = f'"{relation.name}" is a materialized view, not a table'
        raise BindError(DOES_NOT_EXIST, message, name.span, hint="Write SHOW CREATE MATERIALIZED VIEW.")
    if not isinstance(relation, Table):
        hint = "Write SHOW CREATE VIEW."
        raise BindError(DOES_NOT_EXIST, f'"{relation.name}" is a view, not a table', name.span, hint=hint)
    return relation


def _view(name: nodes.Name, catalog: Catalog) -> View:
    relation = catalog.required(name)
    if not isinstance(relation, View):
        hint = "Write SHOW CREATE TABLE."
        raise BindError(DOES_NOT_EXIST, f'"{relation.name}" is a table, not a view', name.span, hint=hint)
    return relation


_FUNCTION = ("function name", "kind", "origin", "arguments", "returns", "target")


def _users(functions: Iterable[Function]) -> list[_Line]:
    return [(f.name, f.kind.value, "user", _signature(f), f.returns.ddl(), f.target) for f in functions]


def _built_in() -> list[_Line]:
    """Ours and Spark's, as far as a query may call them."""
    kinds = kinds_to_show()
    return [(name, kinds[name], "built-in", "", "", "") for name in sorted(kinds)]


def _signature(function: Function) -> str:
    return ", ".join(name if type_.is_unknown else f"{name} {type_}" for name, type_ in function.parameters)


_HEADS = {
    "TABLES": ("table name",),
    "VIEWS": ("view name",),
    "FUNCTIONS": _FUNCTION,
    "USER FUNCTIONS": _FUNCTION,
}
_CONNECTOR = ("connector name", "source", "sink", "lookup", "description")


def _connectors() -> list[_Line]:
    roles = (connectors.Source, connectors.Sink, connectors.LookupTable)
    return [(c.name, *(_yes(isinstance(c, role)) for role in roles), c.doc) for c in connectors.installed()]


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


# --- describe -------------------------------------------------------------------------------------------------

_DESCRIPTION = ("name", "type", "null", "key", "extras", "watermark")


def describe_table(table: Table) -> Rows:
    """The rows of DESCRIBE for a table, one for each column, in Flink's format."""
    return Rows.of_text(_DESCRIPTION, [_described(c, table) for c in table.columns])


def _described(column: Column, table: Table) -> tuple[str | None, ...]:
    key = f"PRI({', '.join(table.primary_key)})" if column.name in table.primary_key else None
    nullable = column.nullable and (key is None or table.materialized)  # as keys of GROUP BY may be
    return (
        column.name,
        (column.declared or column.type.ddl()) + _TIME_MARKS[column.time],
        str(nullable).upper(),
        key,
        _extras(column),
        _watermark(column, table),
    )


_TIME_MARKS = {
    None: "",
    TimeDomain.EVENT: " *ROWTIME*",
    TimeDomain.PROCESSING: " *PROCTIME*",
    TimeDomain.INGESTION: " *INGESTION TIME*",
}


def _extras(column: Column) -> str | None:
    if column.metadata_key is not None:
        return f"METADATA FROM '{column.metadata_key}'"
    return f"AS {to_sql(column.expression)}" if column.expression is not None else None


def _watermark(column: Column, table: Table) -> str | None:
    watermark = table.watermark
    if watermark is None or watermark.column != column.name:
        return None
    if watermark.expression is not None:
        return to_sql(watermark.expression)
    return f"{column.name} - {as_interval(watermark.delay_ms)}" if watermark.delay_ms else column.name


def described_more(
    columns: Rows, statement: nodes.Describe, catalog: Catalog, more: Iterable[tuple[str, str | None]] = ()
) -> Rows:
    """The rows of DESCRIBE EXTENDED: the columns, then other facts about the table or view, and ``more`` at the end."""
    if not statement.extended:
        return columns
    path = catalog.path(statement.name)
    relation = catalog.required(statement.name)
    facts: list[tuple[str, str | None]] = [
        ("catalog", path[0]),
        ("database", path[1]),
        ("kind", kind_of(catalog.entry("relation", path) or relation)),
        ("temporary", _yes(catalog.is_temporary("relation", path))),
    ]
    if isinstance(relation, Table):
        facts += [
            ("comment", relation.comment or ""),
            ("connector", relation.connector),
            ("bounded", _yes(relation.bounded)),
            ("changelog", changelog_text(relation.changelog)),
            *((f"option {key}", value) for key, value in masked(relation.options)),
        ]
    facts += more
    detail = [("", "", None, None, None, None), ("# details", "", None, None, None, None)]
    return Rows.of_text(
        _DESCRIPTION, [*columns.fetchall(), *detail, *((name, value, None, None, None, None) for name, value in facts)]
    )


_INFO = ("info name", "info value")


def describe_catalog(mount: Mount, extended: bool) -> Rows:
    """The rows of DESCRIBE CATALOG: name, type and comment; with ``extended`` also the options, of which secrets are
    masked.
    """
    options = dict(masked(mount.options))
    facts = [("name", mount.name), ("type", options.pop("type", "")), ("comment", mount.comment or "")]
    more = [(f"option:{key}", value) for key, value in options.items()]
    return Rows.of_text(_INFO, [*facts, *(more if extended else ())])


def describe_database(database: Database, catalog: str, extended: bool) -> Rows:
    """The rows of DESCRIBE DATABASE: name, catalog and comment; with ``extended`` also the options, of which secrets
    are masked.
    """
    facts = [("name", database.name), ("catalog", catalog), ("comment", database.comment or "")]
    more = [(f"option:{key}", value) for key, value in masked(database.options.items())]
    return Rows.of_text(_INFO, [*facts, *(more if extended else ())])


def describe_view(names: Iterable[str], schema: Schema) -> Rows:
    """The rows of DESCRIBE for a view, one for each column, with the types that its query has now."""
    rows = [
        (name, field.type.ddl() + _TIME_MARKS[field.time], str(field.nullable).upper(), None, None, None)
        for name, field in zip(names, schema, strict=True)
    ]
    return Rows.of_text(_DESCRIPTION, rows)


# --- materialized views ---------------------------------------------------------------------------------------


StatusOf = Callable[[nodes.Name], ViewStatus]
Fact = tuple[str, str | None]

LISTED = ("MATERIALIZED VIEWS", "MATERIALIZED TABLES", "STREAMING TABLES")
"""Three words for one list, as the kinds are one."""

_MATERIALIZED_LISTINGS_HEADS = {
    "MATERIALIZED VIEWS": "view name",
    "MATERIALIZED TABLES": "table name",
    "STREAMING TABLES": "table name",
}
_COLUMNS = ("state", "watermark", "last epoch", "last commit")


def show_materialized(statement: nodes.Show, catalog: Catalog, status_of: StatusOf | None) -> Rows:
    """A row per materialized view of the database: its name, the state of its job, and how fresh it is."""
    namespace = catalog.namespace(statement.name or nodes.Name((), span=statement.span))
    names = [
        name
        for name in catalog.names("relation", namespace)
        if definition_of_view(catalog.entry("relation", (*namespace, name))) is not None
        and (statement.names is None or passes(name, statement.names))
    ]
    if status_of is None:  # a script is only checked
        return Rows.of_text((_MATERIALIZED_LISTINGS_HEADS[statement.what], *_COLUMNS), [])
    rows = []
    for name in names:
        status = status_of(nodes.Name((*namespace, name), span=statement.span))
        rows.append((name, *(value for _, value in facts(status))))
    return Rows.of_text((_MATERIALIZED_LISTINGS_HEADS[statement.what], *_COLUMNS), rows)


def freshness_of(statement: nodes.Describe, catalog: Catalog, status_of: StatusOf) -> tuple[Fact, ...]:
    """The rows that DESCRIBE EXTENDED adds for a materialized view, on its job and how fresh its table is; empty for
    other objects.
    """
    if not statement.extended:
        return ()
    catalog.required(statement.name)
    if definition_of_view(catalog.entry("relation", catalog.path(statement.name))) is None:
        return ()
    return tuple(facts(status_of(statement.name)))


def facts(status: ViewStatus) -> Iterator[Fact]:
    """The facts about a materialized view for DESCRIBE EXTENDED, as pairs of name and text: the state of its job, the
    job's progress in the input, and the last epoch in the table. Times are in UTC.
    """
    yield "state", status.state
    progress = None if status.record is None else status.record.life.progress
    if progress is None:
        yield "watermark", None
    else:
        yield "watermark", "end of input" if progress.input_ended else watermark_text(progress.watermark_ms)
    yield "last epoch", None if status.epoch is None else str(status.epoch)
    yield "last commit", None if status.committed is None else time_text(moment(status.committed))
