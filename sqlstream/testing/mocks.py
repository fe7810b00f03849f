"""Scripts of users in tests: their tables are fed and watched by the test, whatever their connectors are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.plans import Planned
from sqlstream.statements.definitions import declared, table_of_query
from sqlstream.statements.mocking import mocked
from sqlstream.statements.registry import is_definition

if TYPE_CHECKING:
    from sqlstream.session import Session


def define_mocked(text: str, session: Session) -> tuple[Planned, ...]:
    """Carry out the definitions of a script, with mocked tables; the statements that would run something."""
    try:
        return tuple(s for s in parse_script(text) if not _defined(s, text, session) and isinstance(s, Planned))
    except SqlStreamError as error:
        raise error.with_source(text) from error.__cause__


def without_job(statement: nodes.Statement) -> nodes.Statement:
    """A materialized view as a plain one, whose query is what a test asks for; all else as it is."""
    if not isinstance(statement, nodes.CreateMaterializedView):
        return statement
    names = tuple(column.name for column in statement.columns)
    return nodes.CreateView(
        statement.name,
        statement.query,
        names,
        statement.if_not_exists,
        replace=statement.replace,
        span=statement.span,
    )


def _defined(statement: nodes.Statement, text: str, session: Session) -> bool:
    """True for a definition, which has been carried out."""
    catalog = session.workspace.catalog
    if isinstance(statement, nodes.CreateTable):
        as_query = statement.query is not None
        table, *_ = table_of_query(statement, session.workspace) if as_query else declared(statement, catalog)
        exists = statement.if_not_exists
        catalog.create(statement.name, mocked(table), if_not_exists=exists, replace=statement.replace, temporary=True)
        return True
    if is_definition(statement):
        statement = without_job(statement)
        session.execute(statement, text)
        return True
    return False
