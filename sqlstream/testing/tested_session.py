"""What tests do with a session: define tables that they feed, plan a script, find a directory for files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script, to_sql
from sqlstream.plans import Planned, Root, plan_of
from sqlstream.statements.mocking import mocked
from sqlstream.statements.registry import is_definition
from sqlstream.statements.tables import declared, table_of_query
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SessionUnderTest(Protocol):
    """The part of ``Session`` that tests need.

    It is an interface, because EXECUTE UNIT TEST is a statement of a session, so its implementation cannot import that
    class.
    """

    workspace: Workspace

    @property
    def spark(self) -> SparkSession:
        """The Spark session, which starts when it is first needed."""

    def execute(self, statement: nodes.Statement, text: str = ...) -> object:
        """Run one statement; ``text`` is the script that its spans refer to."""

    def dataframe(self, text: str) -> DataFrame:
        """The DataFrame of one query."""

    def fork(self) -> SessionUnderTest:
        """A session on the same Spark with a copy of the definitions and settings."""


def plan_of_script(script: str, session: SessionUnderTest) -> Root:
    """The plan of the last statement, after executing all others, which must be definitions."""
    try:
        *definitions, last = parse_script(script)
        for statement in definitions:
            if not is_definition(statement):
                raise ValueError(f"only the last statement of a test may run: {to_sql(statement)}")
            session.execute(without_job(statement), script)
        if not isinstance(last, Planned):
            raise ValueError(f"a test ends with a query, an INSERT or a statement set, not with: {to_sql(last)}")
        return plan_of(last, session.workspace)
    except SqlStreamError as error:
        raise error.with_source(script) from error.__cause__


def define_mocked(text: str, session: SessionUnderTest) -> tuple[Planned, ...]:
    """Execute the definitions of a script, with tables replaced by mocks of the connector ``test``. Returns its other
    statements (queries, INSERTs, statement sets), which are not run.
    """
    try:
        return tuple(s for s in parse_script(text) if not _defined(s, text, session) and isinstance(s, Planned))
    except SqlStreamError as error:
        raise error.with_source(text) from error.__cause__


def without_job(statement: nodes.Statement) -> nodes.Statement:
    """Turns CREATE MATERIALIZED VIEW into CREATE VIEW, which starts no job. Other statements are unchanged."""
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


def _defined(statement: nodes.Statement, text: str, session: SessionUnderTest) -> bool:
    """Carry out a definition; False for any other statement."""
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


def fast_directory(prefix: str) -> Path:
    """A new directory, in memory where possible; removed at the end of the process at the latest."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_directory_of_process()))


@cache
def _directory_of_process() -> Path:
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="sqlstream-tests-", dir=parent))
    # Removing the directory of a test is not enough: Spark's maintenance may write a snapshot of its state later.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
