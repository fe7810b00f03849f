"""Which tables a plan reads, asks and writes beside its result, and where a statement names them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar import nodes, span_of
from sqlstream.planner.bad_rows import columns_to_read
from sqlstream.planner.catalog import Table
from sqlstream.planner.nodes import FailedRows, Lookup, Node, Scan, WindowAggregate
from sqlstream.planner.properties import dead_letter_tables


def looked_up_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that lookups ask, each once."""
    found = (n.source for n in plan.walk() if isinstance(n, Lookup))
    return tuple({t.name: t for t in found if isinstance(t, Table)}.values())


def side_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that get rows beside the result: late ones of windows, failed ones of lookups, dead letters."""
    found = [table for node in plan.walk() if (table := _side_table(node)) is not None]
    found += dead_letter_tables(plan)
    return tuple({table.name: table for table in found}.values())


def _side_table(node: Node) -> Table | None:
    match node:
        case WindowAggregate(firing=firing):
            return firing.late.table
        case Lookup(failed=FailedRows(table=table)):
            return table
    return None


def scanned_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that the plan reads, each once."""
    return tuple({n.table.name: n.table for n in plan.walk() if isinstance(n, Scan)}.values())


def read_columns(plan: Node) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """The tables that the plan reads or asks, each once, with the columns that it needs of them."""
    found: dict[str, tuple[Table, dict[str, None]]] = {}
    for table, names in map(_read_by, plan.walk()):
        if table is not None:
            found.setdefault(table.name, (table, {}))[1].update(dict.fromkeys(names))
    for table, needed in found.values():
        yield table, tuple(needed)


def _read_by(node: Node) -> tuple[Table | None, tuple[str, ...]]:
    match node:
        case Scan():
            return node.table, columns_to_read(node.table, node.columns, node.on_error)
        case Lookup(source=Table() as table):
            return table, (*(key.name for key in node.keys), *(field.name for field in node.read))
    return None, ()


def place_in(statement: nodes.Query | nodes.Insert, table: Table) -> Span | None:
    """Where the statement names the table first; None where a view does."""
    named = (t for t in statement.query.find_all(exp.Table) if isinstance(t.this, exp.Identifier))
    found = (t for t in named if ".".join(p.name for p in t.parts).casefold() == table.name.casefold())
    return next((span_of(t.this) for t in found), None)
