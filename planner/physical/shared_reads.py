"""Tables that several steps of a statement set read in tasks: each is read and decoded once, and all its readers take
the same columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.physical.column_queries import Selection
from sqlstream.planner.physical.sources import Source, source_of
from sqlstream.planner.physical.steps import Operator, Port, Read, SharedRead, Step, Write, read_below


@dataclass(frozen=True)
class _Reader:
    """A step whose tasks read the table of ``read``. ``port``: the exchange that does; None for tasks of a root."""

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


def with_shared_reads(root: Step) -> Step:
    """The plan, in which scans of one source that tasks read are read once. What they read in common is numbered from
    1, in the order of the plan.
    """
    shared: list[SharedRead] = []
    readers = [*_readers(root)]
    for reader in readers:
        alike = [other for other in readers if source_of(other.read.node) == source_of(reader.read.node)]
        if len(alike) > 1 and reader is alike[0]:
            shared.append(_shared(alike, len(shared) + 1))
    return _Sharing(shared).step(root) if shared else root


def sources_of_spark(root: Step) -> frozenset[Source]:
    """The sources of a statement set that tasks read and Spark must: where it reads a scan of them that tasks cannot,
    and where the only reader are the tasks of a root, whose rows go through Spark anyway.
    """
    reads = [step for step in root.walk() if isinstance(step, Read)]
    by_spark = {source_of(read.node) for read in reads if not read.by_tasks}
    by_tasks = {source_of(read.node) for read in reads if read.by_tasks}
    alone = {source_of(read.node) for read in reads if read.by_root and read.shared is None}
    return frozenset(by_tasks & by_spark | alone)


def _readers(root: Step) -> Iterator[_Reader]:
    for step in root.walk():
        if isinstance(step, Write) and step.columns is not None:
            yield _Reader(read_below(step), step.columns)
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
        if shared is None or not read.by_tasks:
            return read
        again = shared.number in self._seen
        self._seen.add(shared.number)
        return replace(read, shared=shared, reused=again)
