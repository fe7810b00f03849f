"""Scripts of users in tests: their tables are fed and watched by the test, whatever their connectors are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream import connectors
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.planner.catalog import Table
from sqlstream.plans import Planned
from sqlstream.statements.definitions import DEFINITIONS, declared_table, table_of_query

if TYPE_CHECKING:
    from sqlstream.session import Session

_TEST = "test"


def mocked(table: Table) -> Table:
    """The table with the connector ``test``: the same columns, keys, changes and event time. METADATA columns are
    among its rows; a table that lookups ask is one here, too."""
    kind = connectors.connector(table.connector)
    if kind.name == _TEST:
        return table
    columns = tuple(replace(c, metadata_key=None) if kind.is_source else c for c in table.columns)
    role = (("role", "lookup"),) if kind.answers(table) else ()
    return replace(table, columns=columns, connector=_TEST, options=role, bounded=False, streamed=not role)


def define_mocked(text: str, session: Session) -> tuple[Planned, ...]:
    """Carry out the definitions of a script, with mocked tables; the statements that would run something."""
    try:
        return tuple(s for s in parse_script(text) if _defined(s, text, session) and isinstance(s, Planned))
    except SqlStreamError as error:
        raise error.with_source(text) from error.__cause__


def _defined(statement: nodes.Statement, text: str, session: Session) -> bool:
    """False for a definition, which has been carried out."""
    catalog = session.workspace.catalog
    if isinstance(statement, nodes.CreateTable):
        as_query = statement.query is not None
        table = table_of_query(statement, session.workspace) if as_query else declared_table(statement, catalog)
        catalog.create(statement.name, mocked(table), if_not_exists=statement.if_not_exists)
    elif isinstance(statement, DEFINITIONS):
        session.execute(statement, text)
    else:
        return True
    return False
