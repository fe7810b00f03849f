"""The order in which a micro-batch reaches a kernel, for one key group. Spark's adapter and the test harness share it.

``kernel.py`` documents the order; this module implements it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from sqlstream.udfs.exchange import united
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, Domain, Kernel, Store

Ports: TypeAlias = Mapping[int, Sequence[pa.Table]]
"""Rows by port, each in order of arrival."""


@dataclass(frozen=True)
class MicroBatch:
    """The input of one key group in one micro-batch. All times are in microseconds since 1970.

    ``ahead``: rows that an upstream operator emitted before its watermark advanced. ``fired``: rows that
    processing-time timers of an upstream operator emitted, by the processing time of the firing. ``rows``: all other
    rows. ``watermark`` and ``processing_time``: the new clocks, which never decrease. ``input_ended``: this is the last
    watermark, so timers that the last rows set fire at once. ``reached``: the watermark that follows from the rows, if
    it is known already: it passes after them, and is that of the next micro-batch. ``clock_ahead``: downstream
    operators use the same processing-time clock, so rows that it fires must reach them before their clock advances.
    """

    watermark: int
    processing_time: int
    ahead: Ports = field(default_factory=dict)
    rows: Ports = field(default_factory=dict)
    input_ended: bool = False
    clock_ahead: bool = False
    fired: Mapping[int, Ports] = field(default_factory=dict)
    reached: int = NO_WATERMARK


@dataclass(frozen=True)
class Folded:
    """Results in compact form: the kernel's ``unfold`` expands the table to ``results`` result rows."""

    rows: pa.Table
    results: int = 0

    @property
    def num_rows(self) -> int:
        """The number of result rows after unfolding."""
        return int(self.rows.num_rows)


Emitted: TypeAlias = pa.Table | Folded
"""A table of results, or Folded."""


def unfolded(kernel: Kernel, emitted: Iterable[Emitted]) -> Iterator[pa.Table]:
    """Yields all results that the kernel emitted, as tables of bounded size: results in compact form (``Folded``) are
    expanded by ``kernel.unfold``.
    """
    for result in emitted:
        if isinstance(result, Folded):
            yield from kernel.unfold(result.rows)
        else:
            yield result


@dataclass
class GroupContext:
    """The ``kernel.Context`` of one key group during one micro-batch. It collects the output of the kernel.

    ``emitted[True]`` has the rows that reach downstream operators before the watermark of the micro-batch,
    ``emitted[False]`` the rest; either may contain folded tables. ``ahead`` selects the list that ``emit`` appends to.
    ``held`` is the event time in microseconds that the watermark of downstream operators must not reach, END_OF_TIME
    for none.
    """

    store: Store
    watermark: int = NO_WATERMARK
    processing_time: int = NO_WATERMARK
    timers: dict[Domain, int] = field(default_factory=lambda: dict.fromkeys(Domain, END_OF_TIME))
    ahead: bool = True
    emitted: dict[bool, list[Emitted]] = field(default_factory=lambda: {True: [], False: []})
    late: list[pa.Table] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    held: int = END_OF_TIME
    held_rows: int = 0

    def emit(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.emitted[self.ahead].append(rows)

    def emit_folded(self, folded: pa.Table, results: int) -> None:
        self.emitted[self.ahead].append(Folded(folded, results))

    @property
    def rows_given(self) -> int:
        """The number of result rows that the kernel has emitted in this micro-batch."""
        emissions = (emission for emitted in self.emitted.values() for emission in emitted)
        return sum(each.results if isinstance(each, Folded) else int(each.num_rows) for each in emissions)

    def emit_late(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.late.append(rows)

    def count(self, metric: str, value: int) -> None:
        self.counters[metric] = self.counters.get(metric, 0) + value

    def set_timer(self, domain: Domain, time: int) -> None:
        self.timers[domain] = time

    def hold(self, time: int, rows: int = 1) -> None:
        self.held, self.held_rows = min(time, END_OF_TIME), rows


def drive(kernel: Kernel, context: GroupContext, batch: MicroBatch, *, holds: bool) -> None:
    """Calls the kernel with the rows and the clocks of a micro-batch, in the order that the contract of kernels
    defines. ``holds``: the kernel held back the watermark in the previous micro-batch.
    """
    if holds:
        kernel.on_held(context)
    _rows(kernel, context, batch.ahead)
    for time in sorted(batch.fired):
        _processing_time(kernel, context, batch, max(time, context.processing_time))
        _rows(kernel, context, batch.fired[time])
    _event_time(kernel, context, batch.watermark)
    _processing_time(kernel, context, batch, batch.processing_time)
    context.ahead = False
    _rows(kernel, context, batch.rows)
    if batch.input_ended or batch.reached > batch.watermark:
        _event_time(kernel, context, max(batch.watermark, batch.reached))
    if batch.input_ended:
        _processing_time(kernel, context, batch, batch.processing_time)


def _rows(kernel: Kernel, context: GroupContext, ports: Ports) -> None:
    rows_by_port = {port: united(tables) for port, tables in ports.items() if tables}
    if rows_by_port:
        kernel.on_ports(rows_by_port, context)


def _event_time(kernel: Kernel, context: GroupContext, watermark: int) -> None:
    context.watermark = watermark
    if _due(context, Domain.EVENT, watermark):
        kernel.on_event_time(watermark, context)


def _processing_time(kernel: Kernel, context: GroupContext, batch: MicroBatch, time: int) -> None:
    context.processing_time = time
    context.ahead = batch.clock_ahead or time == END_OF_TIME
    if _due(context, Domain.PROCESSING, time):
        kernel.on_processing_time(time, context)


def _due(context: GroupContext, domain: Domain, time: int) -> bool:
    timer = context.timers[domain]
    return timer <= time and timer != END_OF_TIME
