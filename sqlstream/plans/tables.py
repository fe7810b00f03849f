"""Which tables a plan reads, asks and writes beside its result, and where a statement names them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.connectors import Source, connector, is_scanned
from sqlstream.errors import Span
from sqlstream.grammar import nodes, span_of
from sqlstream.planner.catalog import Table
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan, dead_letter_tables


def looked_up_tables(plan: Node) -> tuple[Table, ...]:
    """Returns the tables that the plan reads by lookups, each once."""
    asked = (node.table_read for node in plan.walk() if not isinstance(node, Scan))
    return tuple({question[0].name: question[0] for question in asked if question is not None}.values())


def side_tables(plan: Node) -> tuple[Table, ...]:
    """Returns the tables that receive side outputs (late rows of windows, failed rows of lookups, dead letters), each
    once.
    """
    tables = [table for node in plan.walk() if (table := node.side_table) is not None]
    tables += dead_letter_tables(plan)
    return tuple({table.name: table for table in tables}.values())


def scanned_tables(plan: Node) -> tuple[Table, ...]:
    """Returns the tables that the plan scans, each once. Tables of lookups are not among them."""
    return tuple({n.table.name: n.table for n in plan.walk() if isinstance(n, Scan)}.values())


def read_columns(plan: Node) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """Yields pairs: each table that the plan scans or looks up, and the names of the columns that it reads of it."""
    needs: dict[str, tuple[Table, dict[str, None]]] = {}
    for read in (node.table_read for node in plan.walk()):
        if read is not None:
            table, names = read
            needs.setdefault(table.name, (table, {}))[1].update(dict.fromkeys(names))
    for table, needed in needs.values():
        yield table, tuple(needed)


def place_in(statement: nodes.Query | nodes.Insert, table: Table) -> Span | None:
    """Returns the span at which the statement first names the table. None where only a view names it."""
    named = (t for t in statement.query.find_all(exp.Table) if isinstance(t.this, exp.Identifier))
    mentions = (t for t in named if ".".join(p.name for p in t.parts).casefold() == table.name.casefold())
    return next((span_of(t.this) for t in mentions), None)


def ends(table: Table) -> bool:
    """True where all rows of a table exist already: its source is bounded, or it is a table in a database."""
    return is_read(table) and (table.bounded or is_scanned(table))


def is_read(table: Table) -> bool:
    """True if queries can read all rows of a table: as a stream, or at once from a database."""
    return is_source(table) or is_scanned(table)


def is_source(table: Table) -> bool:
    """True if the table's connector is a source of streams."""
    return isinstance(connector(table.connector), Source)
