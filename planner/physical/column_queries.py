"""What tasks compute over the columns of the files or messages that they read: filters and projections of queries
without state, so that only the rows of the result cross into Java, and those below an operator with state, in its
exchange.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot import exp

from sqlstream.planner.bad_rows import computed_event_time, required_columns
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.changes import is_upsert
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Insert, Output, Project, Scan
from sqlstream.planner.physical.column_compiler import FILE_TYPES, ColumnCompiler, ComputedBySpark, read_columns
from sqlstream.planner.physical.sources import PlannedSources
from sqlstream.types import STRING, DataType
from sqlstream.udfs.expressions.tree import Clock, ColumnStep, Kept


@dataclass(frozen=True)
class Selection:
    """What tasks compute over the columns of ``scan``: the ``steps`` in their order. ``fields``: for each field of the
    node above that is read, the column that has it after the steps, and its type. ``required``: the
    columns in which a row must have a value to be a good one, where bad rows do not fail the job.
    """

    scan: Scan
    steps: tuple[ColumnStep, ...]
    fields: tuple[tuple[str, str, DataType], ...]
    required: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The columns of the table that are read, never none: rows without a column would have no number. Where nothing
        is read of the rows, as by SELECT 'x', it is a text, which any record has, or the first column.
        """
        names = {column.name for step in self.steps for column in step.expression.columns}
        names |= {column for _, column, _ in self.fields}
        names |= {*self.required}
        there = read_columns(self.scan.table)
        read = tuple(c for c in there if c.name in names)
        return read or tuple(sorted(there, key=lambda c: (c.type != STRING, c.type.name not in FILE_TYPES))[:1])

    def type_of(self, field: str) -> DataType:
        """The type of a field."""
        return next(kind for name, _, kind in self.fields if name == field)

    @property
    def reads_clock(self) -> bool:
        """Whether a step adds the time at which the rows come."""
        return any(isinstance(step.expression, Clock) for step in self.steps)

    @property
    def has_letters(self) -> bool:
        """Whether records that cannot be read leave the tasks, too, as dead letters."""
        return self.scan.on_error.table is not None

    def column(self, field: str) -> TableColumn | None:
        """The column of the table that a field is; None if the field is computed."""
        name = next(column for own, column, _ in self.fields if own == field)
        return next((c for c in read_columns(self.scan.table) if c.name == name), None)


def column_query(root: Output | Insert, sources: PlannedSources) -> Selection | None:
    """The query that tasks compute for ``root``; None where Spark must compute a part of it."""
    names = [field.name for field in root.input.schema]
    selected = selection(root.input, names, sources, calls=not root.functions.tolerates)
    if selected is None or not selected.scan.on_error.tolerates:
        return selected
    required = _required(selected.scan)
    if required is None:
        return None
    read = tuple(dict.fromkeys((*selected.scan.columns, *required)))
    return replace(selected, scan=replace(selected.scan, columns=read), required=required)


def selection(
    below: Node,
    names: Collection[str],
    sources: PlannedSources,
    marked: AssignTime | None = None,
    *,
    calls: bool,
    computed: Mapping[str, exp.Expression] | None = None,
) -> Selection | None:
    """What tasks compute to give the fields ``names`` of ``below``, and expressions over it that are ``computed``, by
    their names; None where Spark must compute a part of it. ``calls``: they may call functions of users, whose errors
    fail the job.

    ``marked``: the time attribute whose newest time is to be known of all rows that reach it. None too where rows are
    filtered below it, so that the newest time of the rows that are read is another one.
    """
    computed = computed or {}
    path = _path(below, frozenset(names).union(*map(columns_of, computed.values())))
    scan = path[-1].node
    if not isinstance(scan, Scan) or not path[-1].read <= set(scan.columns):
        return None
    compiler = ColumnCompiler(scan, sources, calls)
    try:
        for node, read in reversed(path):
            if node is marked and any(isinstance(step, Kept) for step in compiler.steps):
                return None
            compiler.add(node, read)
        compiler.compute(below, computed)
        fields = tuple((name, *compiler.field(name)) for name in dict.fromkeys((*names, *computed)))
    except ComputedBySpark:
        return None
    return Selection(scan, tuple(compiler.steps), fields)


class _Reached(NamedTuple):
    """A node below an operator, and those of its fields that are read above it."""

    node: Node
    read: frozenset[str]


def _path(below: Node, read: frozenset[str]) -> list[_Reached]:
    """The nodes from ``below`` down to the first that is no filter, projection or time attribute."""
    path = [_Reached(below, read)]
    while isinstance(below, Project | Filter | AssignTime):
        match below:
            case Project():
                read = frozenset[str]().union(*(columns_of(i.expression) for i in below.items if i.name in read))
            case Filter():
                read |= columns_of(below.condition)
            case AssignTime(domain=TimeDomain.PROCESSING):
                read -= {below.column}
        below = below.input
        path.append(_Reached(below, read))
    return path


def _required(scan: Scan) -> tuple[str, ...] | None:
    """The columns of which tasks check that each row has a value, because a row without one is bad. None where Spark
    must check rows: for fields within columns, times that are computed, are metadata or have no zone, and rows that may
    be deletions, which are their key alone. Only Spark makes JSON of rows, which dead letters hold of those that have
    no text.
    """
    table, required = scan.table, required_columns(scan.table)
    has_fields = any(not part.nullable for c in table.physical_columns for part in c.type.parts())
    time = None if table.watermark is None else table.watermark.column
    is_stored = time is None or any(c.name == time for c in required)
    if has_fields or computed_event_time(table) is not None or not is_stored:
        return None
    has_texts = (table.option("format") or "").strip().lower() != "avro" or scan.on_error.table is None
    has_instants = all(c.type.name == "TIMESTAMP" for c in required if c.time is TimeDomain.EVENT)
    is_checked = has_texts and has_instants and not is_upsert(table)
    return tuple(c.name for c in required) if is_checked or not required else None
