"""What a shell has defined so far, as the script that defines it again in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlstream.catalog import Catalog, local_name
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.nodes import Statement
from sqlstream.grammar.quoting import quote_string
from sqlstream.planner.catalog import Table
from sqlstream.settings import JOBS_OF_SHELL
from sqlstream.statements.ddl import create_table

_DEFINES = nodes.CreateTable | nodes.CreateView | nodes.CreateFunction | nodes.Drop


class Definitions:
    """The statements that made the catalog what it is, in order."""

    def __init__(self) -> None:
        self._statements: list[Statement] = []

    def add(self, statement: Statement, catalog: Catalog) -> None:
        """Remember a statement that went well, where it defines something; of CREATE TABLE … AS the table."""
        if isinstance(statement, nodes.CreateTable) and statement.query is not None:
            table = catalog.relation(local_name(statement.name))
            if isinstance(table, Table):
                self._statements.append(replace(create_table(table), if_not_exists=statement.if_not_exists))
        elif isinstance(statement, _DEFINES):
            self._statements.append(statement)

    def script(self, settings: Mapping[str, str], statement: Statement) -> str:
        """A script that does what the statement would do here. It has the secrets of the tables."""
        given = {key: value for key, value in settings.items() if key != JOBS_OF_SHELL}
        sets = [f"SET {quote_string(key)} = {quote_string(value)}" for key, value in given.items()]
        return "".join(f"{text};\n" for text in [*sets, *map(to_sql, self._statements), to_sql(statement)])
