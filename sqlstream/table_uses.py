"""Which tables a plan reads, asks and writes beside its result, and where a statement names them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar import nodes, span_of
from sqlstream.planner.catalog import Table
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan, dead_letter_tables


def looked_up_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that lookups ask, each once."""
    asked = (node.table_read for node in plan.walk() if not isinstance(node, Scan))
    return tuple({question[0].name: question[0] for question in asked if question is not None}.values())


def side_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that get rows beside the result: late ones of windows, failed ones of lookups, dead letters."""
    tables = [table for node in plan.walk() if (table := node.side_table) is not None]
    tables += dead_letter_tables(plan)
    return tuple({table.name: table for table in tables}.values())


def scanned_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that the plan reads, each once."""
    return tuple({n.table.name: n.table for n in plan.walk() if isinstance(n, Scan)}.values())


def read_columns(plan: Node) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """The tables that the plan reads or asks, each once, with the columns that it needs of them."""
    needs: dict[str, tuple[Table, dict[str, None]]] = {}
    for read in (node.table_read for node in plan.walk()):
        if read is not None:
            table, names = read
            needs.setdefault(table.name, (table, {}))[1].update(dict.fromkeys(names))
    for table, needed in needs.values():
        yield table, tuple(needed)


def place_in(statement: nodes.Query | nodes.Insert, table: Table) -> Span | None:
    """Where the statement names the table first; None where a view does."""
    named = (t for t in statement.query.find_all(exp.Table) if isinstance(t.this, exp.Identifier))
    mentions = (t for t in named if ".".join(p.name for p in t.parts).casefold() == table.name.casefold())
    return next((span_of(t.this) for t in mentions), None)
