"""Scripts of users in tests: their tables are fed and watched by the test, whatever their connectors are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.plans import Planned
from sqlstream.statements.defining import DEFINITIONS
from sqlstream.statements.definitions import declared, table_of_query
from sqlstream.statements.mocking import mocked

if TYPE_CHECKING:
    from sqlstream.session import Session


def define_mocked(text: str, session: Session) -> tuple[Planned, ...]:
    """Carry out the definitions of a script, with mocked tables; the statements that would run something."""
    try:
        return tuple(s for s in parse_script(text) if not _defined(s, text, session) and isinstance(s, Planned))
    except SqlStreamError as error:
        raise error.with_source(text) from error.__cause__


def _defined(statement: nodes.Statement, text: str, session: Session) -> bool:
    """True for a definition, which has been carried out."""
    catalog = session.workspace.catalog
    if isinstance(statement, nodes.CreateTable):
        as_query = statement.query is not None
        table, *_ = table_of_query(statement, session.workspace) if as_query else declared(statement, catalog)
        exists = statement.if_not_exists
        catalog.create(statement.name, mocked(table), if_not_exists=exists, replace=statement.replace, temporary=True)
        return True
    if isinstance(statement, DEFINITIONS):
        session.execute(statement, text)
        return True
    return False
