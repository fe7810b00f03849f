"""Which operators' exchanges read Parquet files themselves: those that take columns as they are in the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlstream.planner.catalog import Column
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Project, Scan, below_projections

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


def candidate(below: Node) -> Scan | None:
    """The scan of a table of Parquet files that only projections and times part from an operator above ``below``."""
    *_, last = _down(below)
    if not isinstance(last, Scan) or last.predicates or last.on_error.tolerates:
        return None
    return last if (last.table.option("format") or "").strip().lower() == "parquet" else None


def times_between(below: Node) -> Iterator[AssignTime]:
    """The time attributes between an operator above ``below`` and the scan."""
    return (node for node in _down(below) if isinstance(node, AssignTime))


def files_to_read(node: Node, port: int, scan: Scan) -> FilesToRead | None:
    """The files that the exchange of an operator's input reads itself; None if a needed column is computed."""
    read = node.fields_read(port)
    if read is None:
        return None
    columns: dict[str, Column] = {}
    for name in read.names:
        column = _column(node.inputs[port], name, scan)
        if column is None or (name == read.time and column.type.name != "TIMESTAMP"):
            return None
        columns[name] = column
    if not columns or not all(columns[key].type.name in _KEYS for key in read.keys):
        return None
    return FilesToRead(scan, tuple(columns.items()))


def _down(below: Node) -> Iterator[Node]:
    """The node and those below it, as far as they leave rows as they are, and what stands below that."""
    while isinstance(below, Project | AssignTime):
        yield below
        below = below.input
    yield below


def _column(below: Node, name: str, scan: Scan) -> Column | None:
    """The column of the file that a field is; None where it is computed, or of a type that is not read alike."""
    while below is not scan:
        source = below_projections(below, name)
        if source is None:
            return None
        below, name = source
        if isinstance(below, AssignTime):
            if name == below.column and name not in scan.columns:
                return None
            below = below.input
    column = next((c for c in scan.table.physical_columns if c.name == name), None)
    return column if column is not None and column.type.name in _TYPES else None
