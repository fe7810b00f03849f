"""Definitions in the catalog as the statements that make them, for SHOW CREATE."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.catalog import Catalog, Mount, Path, full_name
from sqlstream.catalogs.declaring import create_table as declaring_statement
from sqlstream.catalogs.store import Bound
from sqlstream.connectors.secrets import masked
from sqlstream.grammar import format_script, nodes, to_sql
from sqlstream.planner.catalog import Table, View


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
