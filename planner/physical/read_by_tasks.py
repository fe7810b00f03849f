"""What tasks read of files and topics themselves, below an operator's exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlglot import exp

from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Project, Scan, StatementSet
from sqlstream.planner.physical.column_queries import Selection, selection
from sqlstream.planner.physical.engine import Engine, Reuse
from sqlstream.planner.physical.sources import PlannedSources, Source, source_of

_FORMATS = frozenset({"csv", "json", "parquet", "text"})
"""Formats of files that exchanges read."""

_FILES, TOPICS = "filesystem", "kafka"
"""The connectors whose files, and whose messages in any format, exchanges read."""

_KEYS = frozenset({"INT", "BIGINT", "STRING"})
"""Types of keys that exchanges hash themselves (``udfs.keys.can_hash``)."""


def shared_sources(plan: Node, engine: Engine, reuse: Reuse) -> frozenset[Source]:
    """The sources that all scans of their table have in common: all of a statement set; in a query files and messages,
    which tasks may read once for several scans. It does not depend on filters, which a job may change, as a
    checkpoint knows how far each source is.
    """
    scans = [node for node in plan.walk() if isinstance(node, Scan)]
    if isinstance(plan, StatementSet):
        return frozenset(map(source_of, scans))
    if not (reuse.reads and reuse.in_queries) or engine is Engine.REAL_TIME:
        return frozenset()
    may_share = Counter(source_of(scan) for scan in scans if scan.table.connector in (_FILES, TOPICS))
    return frozenset(source for source, count in may_share.items() if count > 1)


def format_of(scan: Scan) -> str:
    """The format of the table's files as its options spell it, in small letters; empty without the option."""
    return (scan.table.option("format") or "").strip().lower()


def times_between(below: Node) -> Iterator[AssignTime]:
    """Yields the nodes of time attributes from ``below`` down to the scan."""
    return (node for node in _down(below) if isinstance(node, AssignTime))


def mark_below(below: Node, time: str) -> AssignTime | None:
    """The node that makes the field ``time`` of ``below`` a time attribute, if only projections, which do not compute
    it, and filters are between; else None.
    """
    name = time
    for node in _down(below):
        match node:
            case Project():
                expression = next(item.expression for item in node.items if item.name == name)
                if not isinstance(expression, exp.Column):
                    return None
                name = expression.name
            case AssignTime() if node.column == name and node.follows is None:
                return node
            case AssignTime():
                return None
    return None


def files_to_read(
    node: Node, port: int, marked: AssignTime | None, sources: PlannedSources, *, calls: bool
) -> Selection | None:
    """What the exchange of the input ``port`` of ``node`` reads of files itself, and computes; None if Spark must.
    ``marked``: the time attribute whose watermark it reports. ``calls``: it may call functions of users.
    """
    below, read = node.inputs[port], node.fields_read(port)
    *_, last = _down(below)
    if read is None or not (read.names or read.computed) or not isinstance(last, Scan):
        return None
    if last.table.connector != TOPICS and format_of(last) not in _FORMATS:
        return None
    selected = selection(below, read.names, sources, marked, calls=calls, computed=read.computed)
    if selected is None or selected.scan.on_error.tolerates:
        return None
    if not all(selected.type_of(key).name in _KEYS for key in read.keys):
        return None
    if read.time is not None and (
        selected.column(read.time) is None or selected.type_of(read.time).name != "TIMESTAMP"
    ):
        return None
    return selected


def _down(below: Node) -> Iterator[Node]:
    """The node and those below it as far as tasks may compute them, and the first node that they cannot."""
    while isinstance(below, Project | AssignTime | Filter):
        yield below
        below = below.input
    yield below
