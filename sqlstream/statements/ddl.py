"""Definitions back to statements: what SHOW CREATE TABLE and SHOW CREATE VIEW print."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.catalog import Catalog, Mount, Path, full_name
from sqlstream.catalogs.store import Bound
from sqlstream.connectors.secrets import masked
from sqlstream.grammar import format_script, nodes, parse_query, to_sql
from sqlstream.planner.catalog import Column, Table, View, Watermark
from sqlstream.planner.durations import as_interval
from sqlstream.types import DataType


def create_table_text(table: Table, catalog: Catalog, path: Path) -> str:
    """The CREATE TABLE that declares ``table``, laid out, its secrets masked."""
    statement = definition_of(table, catalog, path)
    shown = masked((option.key, option.value) for option in statement.options)
    temporary = catalog.is_temporary("relation", path)
    options = tuple(nodes.Option(key, value) for key, value in shown)
    return _laid_out(replace(statement, name=printed_name(path), options=options, temporary=temporary))


def create_view_text(view: View, catalog: Catalog, path: Path) -> str:
    """The CREATE VIEW of ``view``, laid out."""
    temporary = catalog.is_temporary("relation", path)
    return _laid_out(nodes.CreateView(printed_name(path), view.query, view.columns, temporary=temporary))


def create_catalog_text(mount: Mount) -> str:
    """The CREATE CATALOG of a catalog, laid out, its secrets masked."""
    options = tuple(nodes.Option(key, value) for key, value in masked(mount.options))
    return _laid_out(nodes.CreateCatalog(nodes.Name((mount.name,)), options, comment=mount.comment))


def _laid_out(statement: nodes.CreateTable | nodes.CreateView | nodes.CreateCatalog) -> str:
    return format_script(to_sql(statement)).strip()


def printed_name(path: Path) -> nodes.Name:
    """Plain in the default database, else with all parts."""
    return nodes.Name(path[2:] if full_name(path) == path[2] else path)


def definition_of(table: Table, catalog: Catalog, path: Path) -> nodes.CreateTable:
    """The statement that defines the table under its bare name: the one it was created by, or made of its columns."""
    entry = catalog.entry("relation", path)
    stored = entry.stored if isinstance(entry, Bound) else entry
    if stored is not None and isinstance(stored.statement, nodes.CreateTable):
        return replace(stored.statement, if_not_exists=False, replace=False, must_exist=False, temporary=False)
    return replace(create_table(table), name=nodes.Name((path[2],)))


def create_table(table: Table) -> nodes.CreateTable:
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
        kind, comment = column.type.to_sqlglot(), column.comment
        return nodes.MetadataColumn(column.name, kind, column.metadata_key, comment=comment)
    kind = _declared(column.type)
    if column.declared is not None:
        kind = exp.DataType.build(column.declared, dialect="sqlstream")
    return nodes.PhysicalColumn(column.name, kind, column.nullable, column.comment)


def _declared(kind: DataType) -> exp.DataType:
    """With what is NOT NULL inside."""
    if kind.declaration() == kind.ddl():
        return kind.to_sqlglot()
    return exp.DataType.build(kind.declaration(), dialect="sqlstream")


def _watermark(watermark: Watermark) -> exp.Expression:
    column = exp.column(watermark.column, quoted=True)
    delay = f" - {as_interval(watermark.delay_ms)}" if watermark.delay_ms else ""
    query = parse_query(f"SELECT {column.sql(dialect='spark')}{delay}")
    assert isinstance(query, exp.Select)
    expression = query.selects[0]
    assert isinstance(expression, exp.Expression)
    return expression
