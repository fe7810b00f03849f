"""One call of a kernel for one key group: its context, and the order in which clocks and rows reach it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from sqlstream.udfs.exchange import Blob, Content, rows_in_order
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, Domain, Kernel, Store
from sqlstream.udfs.spark.clocks import Clocks, Watermark
from sqlstream.udfs.spark.group_entry import GroupEntry

_MILLISECOND = 1000


@dataclass
class GroupContext:
    """The ``kernel.Context`` of a call. ``ahead``: what is emitted now left before the watermark passed.

    ``held_below``: the time that the watermark must not reach here, which the operators below say anew in every
    micro-batch; END_OF_TIME when they stop, None where they say nothing.
    """

    store: Store
    watermark: int
    processing_time: int
    timers: dict[Domain, int]
    ahead: bool = True
    emitted: dict[bool, list[pa.Table]] = field(default_factory=lambda: {True: [], False: []})
    late: list[pa.Table] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    held: int = END_OF_TIME
    held_rows: int = 0
    held_below: int | None = None

    @property
    def held_back(self) -> bool:
        """True where an operator below holds the watermark."""
        return self.held_below not in (None, END_OF_TIME)

    def held_above(self, before: GroupEntry) -> int | None:
        """What operators above must be told: as ``held_below``."""
        if self.held_below is None and self.held == END_OF_TIME and not before.holds:
            return None
        return self.held if self.held_below is None else min(self.held, self.held_below)

    def emit(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.emitted[self.ahead].append(rows)

    def emit_late(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.late.append(rows)

    def count(self, metric: str, value: int) -> None:
        self.counters[metric] = self.counters.get(metric, 0) + value

    def set_timer(self, domain: Domain, time: int) -> None:
        self.timers[domain] = time

    def hold(self, time: int, rows: int = 1) -> None:
        self.held, self.held_rows = min(time, END_OF_TIME), rows


@dataclass(frozen=True)
class Arrived:
    """What a micro-batch brought to a key group, blobs in order of arrival. ``watermark_ms`` is Spark's.

    ``handed``: rows of an operator below that runs in the same call, sent ahead of the watermark or not.
    """

    watermark_ms: int
    blobs: Sequence[Blob] = ()
    handed: Mapping[Content, pa.Table] = field(default_factory=dict)

    def rows(self, content: Content) -> list[pa.Table]:
        """The rows of blobs, in order of arrival, or those that are handed."""
        return [self.handed[content]] if content in self.handed else rows_in_order(self.of(content))

    def of(self, content: Content) -> list[Blob]:
        return [blob for blob in self.blobs if blob.content is content]

    @property
    def tick(self) -> int:
        return max((blob.clock for blob in self.of(Content.TICK) if blob.clock is not None), default=NO_WATERMARK)

    @property
    def held(self) -> int | None:
        """The time that the watermark must not reach; END_OF_TIME where it was held before, None for neither."""
        return min((blob.clock for blob in self.of(Content.HOLD) if blob.clock is not None), default=None)

    @property
    def only_calls(self) -> bool:
        """True where there are only ticks."""
        return all(blob.content is Content.TICK for blob in self.blobs)

    @property
    def clock_of_rows(self) -> int:
        """What of processing time had passed when the first of the rows came."""
        clocks = (blob.clock for blob in self.of(Content.ROWS) if blob.clock is not None)
        return min(clocks, default=NO_WATERMARK + _MILLISECOND) - _MILLISECOND


def run(
    kernel: Kernel, clocks: Clocks, store: Store, entry: GroupEntry, arrived: Arrived
) -> tuple[GroupContext, GroupEntry]:
    """Lets rows and clocks reach the kernel in their order; the context with what came out, and the new entry."""
    timers = {Domain.EVENT: entry.event_timer, Domain.PROCESSING: entry.processing_timer}
    context = GroupContext(store, entry.watermark, entry.clock, timers, held_below=arrived.held)
    if entry.holds:
        kernel.on_held(context)
    _rows(kernel, context, arrived.rows(Content.AHEAD))
    watermark, clock = _held_back(context, *clocks.times(arrived.watermark_ms, arrived.tick))
    _event_time(kernel, context, max(watermark, entry.watermark))
    _processing_time(kernel, context, max(clock, entry.clock, arrived.clock_of_rows), clocks)
    context.ahead = False
    _rows(kernel, context, arrived.rows(Content.ROWS))
    if watermark == END_OF_TIME:
        _event_time(kernel, context, watermark)
        _processing_time(kernel, context, clock, clocks)
    return context, _next_entry(entry, context)


def _held_back(context: GroupContext, watermark: int, clock: int) -> tuple[int, int]:
    """Both clocks as far as operators below let them go: the end of the input comes when all rows have come."""
    held = context.held_below
    if held is None or held == END_OF_TIME:
        return watermark, clock
    return min(watermark, held - 1), NO_WATERMARK if clock == END_OF_TIME else clock


def _rows(kernel: Kernel, context: GroupContext, tables: Sequence[pa.Table]) -> None:
    if tables:
        kernel.on_rows(pa.concat_tables(tables) if len(tables) > 1 else tables[0], context)


def _event_time(kernel: Kernel, context: GroupContext, watermark: int) -> None:
    context.watermark = watermark
    if watermark >= context.timers[Domain.EVENT] and context.timers[Domain.EVENT] != END_OF_TIME:
        kernel.on_event_time(watermark, context)


def _processing_time(kernel: Kernel, context: GroupContext, time: int, clocks: Clocks) -> None:
    context.processing_time = time
    context.ahead = clocks.watermark is Watermark.CLOCK or clocks.chained_by_clock or time == END_OF_TIME
    if time >= context.timers[Domain.PROCESSING] and context.timers[Domain.PROCESSING] != END_OF_TIME:
        kernel.on_processing_time(time, context)


def _next_entry(entry: GroupEntry, context: GroupContext) -> GroupEntry:
    return replace(
        entry,
        watermark=context.watermark,
        clock=context.processing_time,
        event_timer=context.timers[Domain.EVENT],
        processing_timer=context.timers[Domain.PROCESSING],
        holds=context.held != END_OF_TIME,
    )
