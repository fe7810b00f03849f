"""Which operators' exchanges read Parquet files themselves: those that take columns as they are in the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.catalog import Column
from sqlstream.planner.firing import Delta, EvictDelta, LateAction, UserEvictor, UserTrigger, When, simple_triggers
from sqlstream.planner.naming import below_projections
from sqlstream.planner.nodes import AssignTime, Node, Project, Scan, Session, UserWindow, WindowAggregate
from sqlstream.planner.physical.aggregate_arguments import read_by
from sqlstream.planner.physical.side_markers import late_fields

_TYPES = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY",
                    "DATE", "TIMESTAMP"})  # fmt: skip
"""Types of columns that pyarrow reads from a file as Spark does."""

_KEYS = frozenset({"INT", "BIGINT", "STRING"})
"""Types of keys that exchanges hash themselves (``udfs.key_hash.can_hash``)."""


@dataclass(frozen=True)
class FilesToRead:
    """``columns``: by field of the operator's input, the column of the table of ``scan`` that it is."""

    scan: Scan
    columns: tuple[tuple[str, Column], ...]

    def column(self, field: str) -> Column:
        return dict(self.columns)[field]


def candidate(node: Node) -> Scan | None:
    """The scan of a table of Parquet files that only projections and times part from a window."""
    if not isinstance(node, WindowAggregate):
        return None
    *_, last = _below(node)
    if not isinstance(last, Scan) or last.predicates or last.on_error.tolerates:
        return None
    return last if (last.table.option("format") or "").strip().lower() == "parquet" else None


def times_between(node: WindowAggregate) -> Iterator[AssignTime]:
    """The time attributes between a window and the scan below it."""
    return (below for below in _below(node) if isinstance(below, AssignTime))


def files_to_read(node: WindowAggregate, scan: Scan) -> FilesToRead | None:
    """What the exchange of the window reads; None where something is computed that it needs."""
    fields = None if node.grouping_sets is not None else _read(node)
    if fields is None:
        return None
    found: dict[str, Column] = {}
    for name in fields:
        column = _column(node, name, scan)
        if column is None or (name == node.time and column.type.name != "TIMESTAMP"):
            return None
        found[name] = column
    if not found or not all(found[key].type.name in _KEYS for key in node.keys):
        return None
    return FilesToRead(scan, tuple(found.items()))


def _below(node: WindowAggregate) -> Iterator[Node]:
    """What stands below the node, as far as it leaves rows as they are, and what stands below that."""
    below = node.input
    while isinstance(below, Project | AssignTime):
        yield below
        below = below.input
    yield below


def _read(node: WindowAggregate) -> list[str] | None:
    """The fields that the operator reads; None where it reads what is computed."""
    expressions = [read for item in node.aggregates for read in read_by(item)]
    computes = any(not isinstance(read, exp.Column) for read in expressions)
    if computes or _window_computes(node) or _firing_computes(node):
        return None
    every = [f.name for f in node.input.schema] if _classes_of_users(node) else []
    late = [f.name for f in late_fields(node)] if node.firing.late.action is LateAction.TO else []
    time = [node.time] if node.time is not None else []
    return list(dict.fromkeys([*node.keys, *time, *(read.name for read in expressions), *late, *every]))


def _window_computes(node: WindowAggregate) -> bool:
    match node.window:
        case None:
            return True
        case Session(gap_ms=int(), start_when=None, end_when=None):
            return False
        case Session():
            return True
    return False


def _firing_computes(node: WindowAggregate) -> bool:
    eviction = node.firing.eviction
    evicts = eviction is not None and isinstance(eviction.evictor, EvictDelta)
    return evicts or any(isinstance(found, When | Delta) for found in simple_triggers(node.firing.trigger))


def _classes_of_users(node: WindowAggregate) -> bool:
    """True where classes of the user see whole rows."""
    eviction = node.firing.eviction
    evicts = eviction is not None and isinstance(eviction.evictor, UserEvictor)
    fires = any(isinstance(found, UserTrigger) for found in simple_triggers(node.firing.trigger))
    return evicts or fires or isinstance(node.window, UserWindow)


def _column(node: WindowAggregate, name: str, scan: Scan) -> Column | None:
    """The column of the file that the field is; None where it is computed, or of a type that is not read alike."""
    below: Node = node.input
    while below is not scan:
        found = below_projections(below, name)
        if found is None:
            return None
        below, name = found
        if isinstance(below, AssignTime):
            if name == below.column and name not in scan.columns:
                return None
            below = below.input
    column = next((c for c in scan.table.physical_columns if c.name == name), None)
    return column if column is not None and column.type.name in _TYPES else None
