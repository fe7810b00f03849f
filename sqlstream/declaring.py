"""Tables as they are declared: bound, and their connectors asked about the options."""

from __future__ import annotations

from dataclasses import replace

from sqlstream import connectors
from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner.binder import bind_table
from sqlstream.planner.catalog import Catalog, Table
from sqlstream.statements.ddl import create_table


def declared_table(statement: nodes.CreateTable, catalog: Catalog) -> Table:
    """The table that the statement declares, its connector and options checked."""
    table = bind_table(statement, catalog)
    wrong = connectors.validate(table, {option.key: option.span for option in statement.options})
    if wrong:
        raise SqlStreamError.of(wrong)
    kind = connectors.connector(table.connector)
    return replace(table, bounded=kind.bounded(table), streamed=kind.is_source and not kind.answers(table))


def declared_with(table: Table, options: tuple[nodes.Option, ...], span: Span, catalog: Catalog) -> Table:
    """The table with other options, checked as if they stood in WITH. One that is written keeps its own connector."""
    declared = create_table(table)
    merged = {option.key: option for option in (*declared.options, *options)}
    return declared_table(replace(declared, options=tuple(merged.values()), span=span), catalog)
