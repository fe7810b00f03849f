"""From a statement that defines a table or a view to the bound table with checked options, and back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream import connectors
from sqlstream.errors import BindError, Span, SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes, parse_query
from sqlstream.grammar.nodes import Name, TableArgument
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import table_function_of
from sqlstream.options import find
from sqlstream.planner.binder import bind_table
from sqlstream.planner.binder.inserts import NO_PARTITIONS, PARTITIONS_OPTION
from sqlstream.planner.binder.tables import asks_source
from sqlstream.planner.catalog import Catalog, Column, Table, View, Watermark
from sqlstream.planner.intervals import as_interval
from sqlstream.types import DataType

if TYPE_CHECKING:
    from sqlstream.catalog import Catalog as SessionCatalog


_REFERENCE = re.compile(r"\$\{(\w+)\}")


def declared_table(
    statement: nodes.CreateTable, catalog: Catalog, name: str, variables: Mapping[str, str] | None = None
) -> Table:
    """Returns the table that the statement declares, called ``name``. Raises SqlStreamError for errors in its
    connector and options.

    ``variables``: values for ``${…}`` in options.
    """
    statement = _of_values(statement)
    options = tuple(replace(o, value=expanded(o.value, variables or {})) for o in statement.options)
    plain = replace(statement, name=nodes.Name((name,), span=statement.name.span), options=options, partitioned_by=())
    partitioned = statement.partitioned_by
    if partitioned:
        plain = replace(plain, options=(*options, _partition_option(statement)))
    plain = _with_source_watermark(plain, catalog)
    table = replace(bind_table(plain, catalog), distributed=statement.distribution is not None)
    if partitioned:
        _require_columns(statement, table)
    if statement.distribution is not None:
        _require_buckets(statement.distribution, table)
    wrong = connectors.validate(table, {option.key: option.span for option in plain.options})
    if wrong:
        raise SqlStreamError.of(wrong)
    return with_traits(table)


def _with_source_watermark(statement: nodes.CreateTable, catalog: Catalog) -> nodes.CreateTable:
    """The statement with the watermark of its source in place of SOURCE_WATERMARK(). SS214 where the source has none;
    a statement with other mistakes is left to those who report them.
    """
    definition = statement.watermark
    if definition is None or not asks_source(definition.expression):
        return statement
    table = bind_table(replace(statement, watermark=None), catalog)
    if connectors.validate(table, {}):
        return replace(statement, watermark=None)
    times = [c.name for c in table.columns if c.name.casefold() == definition.column.casefold() and c.type.is_timestamp]
    if not times:
        return statement
    (column,) = times
    kind = connectors.connector(table.connector)
    delay_ms = kind.out_of_order_ms(table, column) if isinstance(kind, connectors.Source) else None
    if delay_ms is None:
        having = ", ".join(one.name for one in connectors.installed() if _knows_order(one))
        raise BindError(
            "SS214",
            f'SOURCE_WATERMARK() asks the source, and connector "{table.connector}" has no watermark for "{column}"',
            span_of(definition.expression) or definition.span,
            hint=f"Write WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND. Connectors that have one: {having}.",
        )
    return replace(statement, watermark=replace(definition, expression=_watermark(Watermark(column, delay_ms))))


def _knows_order(kind: connectors.Connector) -> bool:
    return isinstance(kind, connectors.Source) and type(kind).out_of_order_ms is not connectors.Source.out_of_order_ms


_VALUES = "value."


def _of_values(statement: nodes.CreateTable) -> nodes.CreateTable:
    """The statement with short names for options and metadata of ``value.format``. SS205 where both are given."""
    given = {option.key: option for option in statement.options}
    kafka = "connector" in given and given["connector"].value == "kafka"
    long = given.get(f"{_VALUES}format")
    if not kafka or long is None:
        return statement
    if "format" in given:
        raise BindError("SS205", f"'{long.key}' and 'format' say the same", long.span, hint="Leave out one of the two.")
    options = connectors.connector("kafka").known_options

    def short(option: nodes.Option) -> nodes.Option:
        key = option.key.removeprefix(_VALUES)
        return (
            option if find(options, option.key) is not None or find(options, key) is None else replace(option, key=key)
        )

    columns = tuple(
        replace(c, key=(c.key or c.name).removeprefix(_VALUES))
        if isinstance(c, nodes.MetadataColumn) and (c.key or c.name).startswith(_VALUES)
        else c
        for c in statement.columns
    )
    return replace(statement, columns=columns, options=tuple(map(short, statement.options)))


def with_traits(table: Table) -> Table:
    """Returns the table with two attributes filled in from its connector: ``bounded`` (its input ends) and ``streamed``
    (its rows are read as a stream, not looked up by key).
    """
    kind = connectors.connector(table.connector)
    is_source = isinstance(kind, connectors.Source)
    bounded = isinstance(kind, connectors.Source) and kind.bounded(table)
    return replace(table, bounded=bounded, streamed=is_source and not connectors.answers_lookups(table))


def _require_buckets(distribution: nodes.Distribution, table: Table) -> None:
    """BindError SS295 for columns that do not exist."""
    names = {column.name.casefold() for column in table.physical_columns}
    missing = next((name for name in distribution.columns if name.casefold() not in names), None)
    if missing is not None:
        message = f'column "{missing}" of DISTRIBUTED BY is no physical column of table "{table.name}"'
        raise BindError(NO_PARTITIONS, message, distribution.span)


def _partition_option(statement: nodes.CreateTable) -> nodes.Option:
    """PARTITIONED BY as the option of a connector with partitions; BindError SS295 for others."""
    options = {o.key: o for o in statement.options}
    name = options["connector"].value if "connector" in options else ""
    kind = connectors.find_connector(name)
    if kind is None or not _has_partitions(kind):
        having = (kind.name for kind in connectors.installed() if _has_partitions(kind))
        message = f'connector "{name}" has no partitions' if name else "PARTITIONED BY needs a connector"
        hint = f"Connectors that have some: {', '.join(having)}."
        raise BindError(NO_PARTITIONS, message, statement.name.span, hint=hint)
    if PARTITIONS_OPTION in options:
        message = f'PARTITIONED BY and the option "{PARTITIONS_OPTION}" say the same'
        raise BindError(NO_PARTITIONS, message, options[PARTITIONS_OPTION].span, hint="Leave out one of the two.")
    return nodes.Option(PARTITIONS_OPTION, ",".join(statement.partitioned_by), span=statement.name.span)


def _has_partitions(kind: connectors.Connector) -> bool:
    return any(o.key == PARTITIONS_OPTION for o in kind.options)


def _require_columns(statement: nodes.CreateTable, table: Table) -> None:
    names = {c.name.casefold() for c in table.physical_columns}
    missing = next((name for name in statement.partitioned_by if name.casefold() not in names), None)
    if missing is not None:
        message = f'column "{missing}" of PARTITIONED BY is no physical column of table "{table.name}"'
        raise BindError(NO_PARTITIONS, message, statement.name.span, hint="Declare it among the columns.")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Returns the text with each ``${name}`` replaced by a variable. Names without a variable are left unchanged."""
    return _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), text) if variables else text


def declared_with(table: Table, options: tuple[nodes.Option, ...], span: Span, catalog: Catalog) -> Table:
    """Returns the table with options added or changed by a hint in a query, checked as if they were in WITH."""
    declared = create_table(table)
    merged = {option.key: option for option in (*declared.options, *options)}
    return declared_table(replace(declared, options=tuple(merged.values()), span=span), catalog, table.name)


def stored_view(
    statement: nodes.CreateView | nodes.CreateMaterializedView, name: str, text: str, namespace: tuple[str, str]
) -> View:
    """Returns the view of a stored definition. Errors in its query are reported only when the view is used.

    ``text``: what the statement's spans refer to. ``namespace``: the catalog and database in which its names are
    resolved.
    """
    names = tuple(column if isinstance(column, str) else column.name for column in statement.columns)
    return View(name, statement.query, names, text, namespace)


# --- tables of materialized views -------------------------------------------------------------------------------

NOT_KEPT_THERE = "SS690"

KINDS = ("MATERIALIZED VIEW", "MATERIALIZED TABLE", "STREAMING TABLE")
"""What PostgreSQL, Flink and Spark call materialized views."""

VIEWS_URL = "SQLSTREAM_VIEWS_URL"
"""The environment variable with the address of the PostgreSQL server that stores views by default."""

CONNECTORS = ("filesystem", "postgres")
"""Connectors of views: readers of their tables see complete micro-batches only (``connectors.ViewTable``)."""

_FIRST_DATABASE = ("default_catalog", "default_database")
_ADDRESS = ("url", "host", "database")


def materialized_table(
    statement: nodes.CreateMaterializedView,
    catalog: Catalog,
    name: str,
    path: tuple[str, str, str],
    variables: Mapping[str, str] | None = None,
) -> Table:
    """Returns the table in which a materialized view is stored, called ``name``. All columns of the definition must
    have types.

    ``path``: catalog, database and name of the view. ``variables``: values for ``${…}`` in options.
    """
    columns = tuple(c for c in statement.columns if isinstance(c, nodes.PhysicalColumn))
    assert len(columns) == len(statement.columns), "names alone are given types when a view is created"
    create = nodes.CreateTable(
        statement.name, columns, None, statement.primary_key, _options(statement, path), comment=statement.comment,
        partitioned_by=statement.partitioned_by, span=statement.span,
    )  # fmt: skip
    table = declared_table(create, catalog, name, variables)
    # A group may have NULL as its key, unlike a row of a table with a PRIMARY KEY.
    pairs = zip(table.columns, columns, strict=True)
    own = tuple(replace(column, nullable=written.nullable) for column, written in pairs)
    return replace(table, materialized=True, columns=own)


def _options(statement: nodes.CreateMaterializedView, path: tuple[str, str, str]) -> tuple[nodes.Option, ...]:
    """The options of WITH with defaults for missing ones. UnsupportedError SS690 for connectors that store no views."""
    given = {option.key: option for option in statement.options}
    wanted = given["connector"].value if "connector" in given else "postgres"
    if wanted not in CONNECTORS:
        message = f'rows of a {statement.kind.lower()} are not kept by the connector "{wanted}"'
        hint = f"Its rows go to postgres or filesystem; INSERT INTO writes to a table of {wanted}."
        raise UnsupportedError(NOT_KEPT_THERE, message, given["connector"].span, hint=hint)
    added = dict(_defaults(wanted, given.keys(), path))
    more = (nodes.Option(key, value, span=statement.name.span) for key, value in added.items() if key not in given)
    return (*statement.options, *more)


def _defaults(connector: str, given: Collection[str], path: tuple[str, str, str]) -> Iterator[tuple[str, str]]:
    yield "connector", connector
    if connector == "filesystem":
        yield "format", "parquet"
        return
    if not any(key in given for key in _ADDRESS):
        yield "url", f"${{{VIEWS_URL}}}"
    yield "table-name", stored_name(path)


def stored_name(path: tuple[str, str, str]) -> str:
    """Returns the name of the PostgreSQL table of a view: its schema is the view's database, except for the default
    database, whose views have no schema.
    """
    catalog, database, name = path
    first = (catalog.casefold(), database.casefold()) == _FIRST_DATABASE
    return _quoted(name) if first else f"{_quoted(database)}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return name if '"' not in name and "." not in name else '"' + name.replace('"', '""') + '"'


def has_types(statement: nodes.CreateMaterializedView) -> bool:
    """True where all columns in the definition of a materialized view have types, as in all stored definitions."""
    return bool(statement.columns) and all(isinstance(c, nodes.PhysicalColumn) for c in statement.columns)


# --- from a table back to its statement -------------------------------------------------------------------------


def create_table(table: Table) -> nodes.CreateTable:
    """Converts a table back into the CREATE TABLE statement that declares it."""
    watermark = table.watermark
    return nodes.CreateTable(
        name=nodes.Name((table.name,)),
        columns=tuple(_column(c) for c in table.columns),
        watermark=None if watermark is None else nodes.WatermarkDef(watermark.column, _watermark(watermark)),
        primary_key=table.primary_key,
        options=tuple(nodes.Option(k, v) for k, v in (("connector", table.connector), *table.options)),
        comment=table.comment,
    )


def _column(column: Column) -> nodes.Column:
    if column.expression is not None:
        return nodes.ComputedColumn(column.name, column.expression, column.comment)
    if column.metadata_key is not None:
        return nodes.MetadataColumn(
            column.name, _written(column), column.metadata_key, column.virtual, comment=column.comment
        )
    return nodes.PhysicalColumn(column.name, _written(column), column.nullable, column.comment)


def _written(column: Column) -> exp.DataType:
    """The type of a column as it was declared."""
    if column.declared is not None:
        return exp.DataType.build(column.declared, dialect="sqlstream")
    if column.precision is not None:
        return exp.DataType.build(f"{column.type.ddl()}({column.precision})", dialect="sqlstream")
    return _declared(column.type)


def _declared(kind: DataType) -> exp.DataType:
    """The type, with NOT NULL of nested fields."""
    if kind.declaration() == kind.ddl():
        return kind.to_sqlglot()
    return exp.DataType.build(kind.declaration(), dialect="sqlstream")


def _watermark(watermark: Watermark) -> exp.Expression:
    if watermark.expression is not None:
        return watermark.expression
    column = exp.column(watermark.column, quoted=True)
    delay = f" - {as_interval(watermark.delay_ms)}" if watermark.delay_ms else ""
    query = parse_query(f"SELECT {column.sql(dialect='spark')}{delay}")
    assert isinstance(query, exp.Select)
    expression = query.selects[0]
    assert isinstance(expression, exp.Expression)
    return expression


# --- full names in the query of a view --------------------------------------------------------------------------


def qualified(query: exp.Expression, catalog: SessionCatalog) -> exp.Expression:
    """Returns a copy of the query in which all table names, except those of WITH, have catalog and database.

    Its meaning then does not depend on the current database.
    """
    copy = query.copy()
    own = {cte.alias.casefold() for cte in copy.find_all(exp.CTE)}
    for table in copy.find_all(exp.Table):
        _qualify(table, own, catalog)
    return copy


def _qualify(table: exp.Table, own: set[str], catalog: SessionCatalog) -> None:
    function = table_function_of(table)
    if function is not None:
        for argument in function.arguments:
            source = argument.value.source if isinstance(argument.value, TableArgument) else None
            for inner in source.find_all(exp.Table) if source is not None else ():
                _qualify(inner, own, catalog)
        return
    if not isinstance(table.this, exp.Identifier) or (not table.db and table.name.casefold() in own):
        return
    catalog_name, database, _ = catalog.path(Name(tuple(part.name for part in table.parts)))
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("db", exp.to_identifier(database, quoted=True))
    table.set("catalog", exp.to_identifier(catalog_name, quoted=True))
