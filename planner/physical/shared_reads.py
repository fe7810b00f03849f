"""Tables that several steps of a plan read in tasks: each is read and decoded once, and all its readers take the same
columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.bad_rows import computed_event_time
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.nodes import Scan
from sqlstream.planner.physical.column_compiler import FILE_TYPES, read_columns
from sqlstream.planner.physical.column_queries import Selection
from sqlstream.planner.physical.read_by_tasks import TOPICS, format_of
from sqlstream.planner.physical.sources import Source, source_of
from sqlstream.planner.physical.steps import Operator, Port, Read, SharedRead, Step, Write, read_below

_OF_RECORDS = ("csv", "json", "text")
"""Formats of files that tasks decode for Spark, too. It reads those that have columns itself."""


@dataclass(frozen=True)
class _Reader:
    """A step whose tasks read the table of ``read``. ``port``: the exchange that does; None for tasks of a root, and
    for Spark, which takes the rows that tasks read.
    """

    read: Read
    selection: Selection
    port: Port | None = None

    def event_times(self) -> Iterator[tuple[str, str, str]]:
        """See ``SharedRead.times``: that by which the exchange knows the watermark, and where it takes columns of the
        table, the table's.
        """
        watermark, table = self.port.watermark if self.port is not None else None, self.read.node.table
        if watermark is not None and (column := self.selection.column(watermark.time)) is not None:
            yield column.name, watermark.source.column, watermark.source.table
        if self.port is None or self.selection.steps:
            yield from ((c.name, c.name, table.name) for c in self.selection.columns if _is_time(c, table))


def with_shared_reads(root: Step, sources: frozenset[Source]) -> Step:
    """The plan, in which what tasks read of one of the ``sources`` is read once for all its scans. What they read in
    common is numbered in the order of the plan, behind the operators that run once.
    """
    shared: list[SharedRead] = []
    operators = sum(isinstance(step, Operator) and step.reuse is not None for step in root.walk())
    readers = [reader for reader in _readers(root) if source_of(reader.read.node) in sources]
    for reader in readers:
        alike = [other for other in readers if source_of(other.read.node) == source_of(reader.read.node)]
        if len(alike) > 1 and reader is alike[0]:
            shared.append(_shared(alike, operators + len(shared) + 1))
    return _Sharing(shared).step(root) if shared else root


def taken(scan: Scan) -> Selection | None:
    """The columns of a scan that Spark takes as they are of the rows that tasks read; None where it must read them."""
    columns = [c for c in read_columns(scan.table) if c.name in scan.columns]
    of_records = scan.table.connector == TOPICS or format_of(scan) in _OF_RECORDS
    if not of_records or not columns or len(columns) < len(scan.columns):
        return None
    if computed_event_time(scan.table) is not None or any(c.type.name not in FILE_TYPES for c in columns):
        return None
    return Selection(scan, (), tuple((c.name, c.name, c.type) for c in columns))


def sources_of_spark(root: Step) -> frozenset[Source]:
    """The sources that tasks read and Spark must: where it reads a scan of them that tasks cannot
    read for it, and where the only reader are the tasks of a root, whose rows go through Spark anyway.
    """
    reads = [step for step in root.walk() if isinstance(step, Read)]
    by_spark = {source_of(read.node) for read in reads if not read.by_tasks and read.taken is None}
    by_tasks = {source_of(read.node) for read in reads if read.by_tasks or read.shared is not None}
    alone = {source_of(read.node) for read in reads if read.by_root and read.shared is None}
    return frozenset(by_tasks & by_spark | alone)


def _readers(root: Step) -> Iterator[_Reader]:
    for step in root.walk():
        if isinstance(step, Write) and step.columns is not None:
            yield _Reader(read_below(step), step.columns)
        if isinstance(step, Read) and step.taken is not None:
            yield _Reader(step, step.taken)
        if isinstance(step, Operator):
            for port, below in zip(step.ports, step.inputs, strict=False):
                if port.files is not None:
                    yield _Reader(read_below(below), port.files, port)


def _is_time(column: Column, table: Table) -> bool:
    return table.watermark is not None and table.watermark.column == column.name


def _shared(readers: list[_Reader], number: int) -> SharedRead:
    scan = readers[0].read.node
    names = {column.name for reader in readers for column in reader.selection.columns}
    columns = tuple(c.name for c in scan.table.columns if c.name in names)
    same = all(reader.read.node.predicates == scan.predicates for reader in readers)
    times = {time[0]: time for reader in readers for time in reader.event_times()}
    in_order = any(reader.read.in_order for reader in readers)
    whole = replace(scan, columns=columns, predicates=scan.predicates if same else ())
    return SharedRead(number, whole, tuple(times.values()), in_order)


class _Sharing:
    """Writes into the steps of reads, in the order of the plan, which read they share."""

    def __init__(self, shared: list[SharedRead]) -> None:
        self._shared = shared
        self._seen: set[int] = set()

    def step(self, step: Step) -> Step:
        if isinstance(step, Read):
            return self._read(step)
        inputs = tuple(map(self.step, step.inputs))
        unchanged = all(now is before for now, before in zip(inputs, step.inputs, strict=True))
        return step if unchanged else replace(step, inputs=inputs)

    def _read(self, read: Read) -> Read:
        shared = next((s for s in self._shared if source_of(s.scan) == source_of(read.node)), None)
        if shared is None or not (read.by_tasks or read.taken is not None):
            return read
        again = shared.number in self._seen
        self._seen.add(shared.number)
        return replace(read, shared=shared, reused=again)
