"""Definitions back to statements: what SHOW CREATE TABLE and SHOW CREATE VIEW print."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.catalog import Catalog, Mount, Path, full_name
from sqlstream.catalogs.declaring import create_table
from sqlstream.catalogs.store import Bound
from sqlstream.connectors.secrets import masked
from sqlstream.grammar import format_script, nodes, to_sql
from sqlstream.planner.catalog import Table, View


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


def create_materialized_text(statement: nodes.CreateMaterializedView, path: Path) -> str:
    """The definition of a materialized view, laid out, its secrets masked."""
    shown = masked((option.key, option.value) for option in statement.options)
    options = tuple(nodes.Option(key, value) for key, value in shown)
    return _laid_out(replace(statement, name=printed_name(path), options=options))


def create_catalog_text(mount: Mount) -> str:
    """The CREATE CATALOG of a catalog, laid out, its secrets masked."""
    options = tuple(nodes.Option(key, value) for key, value in masked(mount.options))
    return _laid_out(nodes.CreateCatalog(nodes.Name((mount.name,)), options, comment=mount.comment))


def _laid_out(
    statement: nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView | nodes.CreateCatalog,
) -> str:
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
