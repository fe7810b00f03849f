"""What a shell has defined so far, as the script that defines it again in another process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlstream.catalog import Catalog
from sqlstream.catalogs.declaring import KINDS, create_table
from sqlstream.catalogs.store import InMemory
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.nodes import Statement
from sqlstream.grammar.quoting import quote_string
from sqlstream.planner.catalog import Table
from sqlstream.settings import JOBS_OF_SHELL
from sqlstream.statements.defining import DEFINITIONS

_Named = (
    nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView | nodes.CreateFunction | nodes.CreateDatabase
    | nodes.Drop | nodes.AlterTable | nodes.AlterView | nodes.AlterFunction | nodes.AlterDatabase
)  # fmt: skip


@dataclass(frozen=True)
class _Materialized:
    """A materialized view, or what drops one, for a process that is not to start its job."""

    name: nodes.Name
    as_table: Statement
    as_view: Statement


class Definitions:
    """The statements that made the catalogs of the session what they are, in order. What lies in a catalog that lasts
    is there for the other process, too."""

    def __init__(self) -> None:
        self._statements: list[Statement | _Materialized] = []

    def add(self, statement: Statement, catalog: Catalog) -> None:
        """Remember a statement that went well, where it defines something; of CREATE TABLE … AS the table."""
        passing = nodes.Set | nodes.Reset | nodes.AlterMaterializedView
        if not isinstance(statement, DEFINITIONS) or isinstance(statement, passing):
            return
        if isinstance(statement, _Named) and _lasts(statement, catalog):
            return
        if isinstance(statement, nodes.CreateMaterializedView):
            self._statements.append(_kept(statement, catalog))
            return
        if isinstance(statement, nodes.Drop) and statement.kind in KINDS:
            table, view = replace(statement, kind="TABLE"), replace(statement, kind="VIEW")
            self._statements.append(_Materialized(statement.name, table, view))
            return
        if isinstance(statement, nodes.CreateTable) and statement.query is not None:
            exists, temporary = statement.if_not_exists, statement.temporary
            statement = replace(_table(statement.name, catalog), if_not_exists=exists, temporary=temporary)
        self._statements.append(statement)

    def script(self, settings: Mapping[str, str], statement: Statement) -> str:
        """A script that does what the statement would do here. It has the secrets of the tables."""
        given = {key: value for key, value in settings.items() if key != JOBS_OF_SHELL}
        sets = [f"SET {quote_string(key)} = {quote_string(value)}" for key, value in given.items()]
        return "".join(f"{text};\n" for text in [*sets, *self._texts_for(statement), to_sql(statement)])

    def _texts_for(self, statement: Statement) -> Iterator[str]:
        """A view is created anew by a statement of its name; another view reads its changes, all else its rows."""
        creates = isinstance(statement, nodes.CreateMaterializedView)
        for remembered in self._statements:
            if not isinstance(remembered, _Materialized):
                yield to_sql(remembered)
            elif not (creates and remembered.name == getattr(statement, "name", None)):
                yield to_sql(remembered.as_view if creates else remembered.as_table)


def _kept(statement: nodes.CreateMaterializedView, catalog: Catalog) -> _Materialized:
    replaces, names = statement.replace, tuple(c.name for c in statement.columns)
    table = replace(_table(statement.name, catalog), replace=replaces, if_not_exists=statement.if_not_exists)
    view = nodes.CreateView(statement.name, statement.query, names, statement.if_not_exists, replace=replaces)
    return _Materialized(statement.name, table, view)


def _table(name: nodes.Name, catalog: Catalog) -> nodes.CreateTable:
    table = catalog.required(name)
    assert isinstance(table, Table)
    return replace(create_table(table), name=name)


def _lasts(statement: _Named, catalog: Catalog) -> bool:
    """Whether what it changes is kept outside of the session."""
    if getattr(statement, "temporary", False) or (isinstance(statement, nodes.Drop) and statement.kind == "CATALOG"):
        return False
    of_database = isinstance(statement, nodes.CreateDatabase | nodes.AlterDatabase)
    of_database |= isinstance(statement, nodes.Drop) and statement.kind == "DATABASE"
    parts = statement.name.parts
    named = parts[0] if len(parts) > (1 if of_database else 2) else catalog.current[0]
    return not isinstance(catalog.mount(named).store, InMemory)
