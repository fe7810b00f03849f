"""What leaves a plan beside its result: the marks of late rows and of rows whose lookup failed."""

from __future__ import annotations

from collections.abc import Iterator

from sqlstream.planner.catalog import Table
from sqlstream.planner.nodes import Field, Lookup, Node, WindowAggregate
from sqlstream.planner.rewriting import columns_of


def late_marker(node: WindowAggregate, number: int) -> str | None:
    """What LATE_TABLE says of the late rows of a node: its number among the nodes with state, and the table."""
    table = node.firing.late.table
    return f"{number}/{table.name}" if table is not None else None


def late_fields(node: WindowAggregate) -> tuple[Field, ...]:
    """The fields of the node's input that the values of late rows read, without the bounds of the window."""
    read = set[str]().union(*(columns_of(value) for value in node.firing.late.values))
    bounds = {node.columns.start, node.columns.end}
    return tuple(f for f in node.input.schema if f.name in read - bounds)


def lookup_nodes(plan: Node) -> Iterator[Lookup]:
    """The lookups of a plan, top down."""
    return (node for node in plan.walk() if isinstance(node, Lookup))


def failed_marker(table: Table, number: int) -> str:
    """What LATE_TABLE says of the failed rows of the lookup with a number."""
    return f"lookup/{number}/{table.name}"
