"""CREATE, USE, ALTER and DROP of catalogs and databases."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.catalog import Catalog, Mount
from sqlstream.catalogs.kinds import mounted
from sqlstream.catalogs.store import Database
from sqlstream.errors import BindError, Span
from sqlstream.grammar import nodes
from sqlstream.planner.binder import refuse_statement
from sqlstream.statements.statement import Defined, Definition
from sqlstream.workspace import Workspace

TWICE = "SS205"
WRONG_NAME = "SS225"


def _values(options: tuple[nodes.Option, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for option in options:
        if option.key in values:
            raise BindError(TWICE, f"option '{option.key}' is given twice", option.span)
        values[option.key] = option.value
    return values


def _one_part(name: nodes.Name) -> str:
    if len(name.parts) > 1:
        raise BindError(WRONG_NAME, f'the name "{name}" of a catalog has a dot', name.span, hint="Write one word.")
    return name.parts[0]


# --- catalogs -------------------------------------------------------------------------------------------------


class CreateCatalog(Definition[nodes.CreateCatalog]):
    """Carries out CREATE CATALOG, which adds a catalog to the session."""

    def define(self, statement: nodes.CreateCatalog, workspace: Workspace, text: str) -> Defined:
        """Adds the catalog to the session's catalogs."""
        _one_part(statement.name)
        spans = {option.key: option.span for option in statement.options}
        mount = _mount(statement.name, _values(statement.options), statement.comment, workspace.catalog, spans)
        workspace.catalog.add_catalog(mount, statement.name, if_not_exists=statement.if_not_exists)
        return None


def _mount(
    name: nodes.Name, options: dict[str, str], comment: str | None, catalog: Catalog, spans: dict[str, Span]
) -> Mount:
    store = mounted(name.parts[0], options, catalog.variables, catalog.spark, name.span, spans)
    return Mount(name.parts[0], store, tuple(options.items()), comment)


class AlterCatalog(Definition[nodes.AlterCatalog]):
    """Carries out ALTER CATALOG, which changes the options or the comment of a catalog."""

    def define(self, statement: nodes.AlterCatalog, workspace: Workspace, text: str) -> Defined:
        """Replace the catalog by one with the change."""
        catalog = workspace.catalog
        before = catalog.mount(_one_part(statement.name), statement.name)
        options = dict(before.options)
        match statement.change:
            case nodes.SetComment(comment=comment):
                catalog.replace_catalog(replace(before, comment=comment))
                return None
            case nodes.SetOptions(options=given):
                options |= _values(given)
            case nodes.ResetOptions(keys=keys):
                options = {key: value for key, value in options.items() if key not in keys}
        name = nodes.Name((before.name,), span=statement.name.span)
        catalog.replace_catalog(_mount(name, options, before.comment, catalog, {}))
        return None


class Use(Definition[nodes.Use]):
    """Carries out USE, which makes a catalog or a database the current one, and USE MODULES."""

    def define(self, statement: nodes.Use, workspace: Workspace, text: str) -> Defined:
        """Make the catalog or the database that USE names the current one."""
        refuse_statement(statement)
        if statement.kind == "MODULE":
            return None
        if statement.kind == "CATALOG":
            _one_part(statement.name)
            workspace.catalog.use_catalog(statement.name)
        else:
            workspace.catalog.use_database(statement.name)
        return None


# --- databases ------------------------------------------------------------------------------------------------


class CreateDatabase(Definition[nodes.CreateDatabase]):
    """Carries out CREATE DATABASE, which adds a database to a catalog."""

    def define(self, statement: nodes.CreateDatabase, workspace: Workspace, text: str) -> Defined:
        """Adds the database to its catalog."""
        database = Database(statement.name.parts[-1], statement.comment, _values(statement.options))
        workspace.catalog.create_database(statement.name, database, if_not_exists=statement.if_not_exists)
        return None


class AlterDatabase(Definition[nodes.AlterDatabase]):
    """Carries out ALTER DATABASE, which changes the options of a database."""

    def define(self, statement: nodes.AlterDatabase, workspace: Workspace, text: str) -> Defined:
        """Store the database with its new options."""
        catalog = workspace.catalog
        database = catalog.database(statement.name)
        options = {**database.options, **_values(statement.change.options)}
        catalog.put_database(statement.name, replace(database, options=options))
        return None
