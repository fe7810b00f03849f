"""The general window operator: any assigner, trigger, evictor and window function. It has the semantics of Flink's
WindowOperator and EvictingWindowOperator, for all windows of a batch at once.

An instance is a key and one of its windows. Rows count one by one in order of arrival. A window is dropped when the
watermark passes its end plus the allowed lateness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.errors import UnsupportedError
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners import Assigner
from sqlstream.udfs.evictors import Evictor
from sqlstream.udfs.kernel import BARRIER, END_OF_TIME, KEY_HASH, Context, Domain, Kernel
from sqlstream.udfs.state.buckets import TIMER_OF, TIMERS
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.triggers.trigger import LAST_MOMENT, Trigger
from sqlstream.udfs.waiting import Pending, Wait, waits
from sqlstream.udfs.windows.buffered import Buffered
from sqlstream.udfs.windows.call import WindowCall
from sqlstream.udfs.windows.contents import Accumulated, Contents
from sqlstream.udfs.windows.emission import NO_LATENESS, Emission, Lateness
from sqlstream.udfs.windows.instances import END, ROWS, InstanceLayout, names_of
from sqlstream.udfs.windows.ranges import AllRows

NOT_MERGEABLE = "SS397"


@dataclass(frozen=True)
class WindowKernel(Kernel):
    """Windows of ``assigner`` over rows that have the columns of ``input``; results come out as ``trigger`` says.

    ``keys``: the key columns, which come out first. ``time``: for windows without bounds (GLOBAL), the column of event
    times that their results are bounded by. ``retracting``: a result retracts the one before it, with row kinds;
    DISCARDING is ``Purging(trigger)``. ``panes``: ``__pane`` and ``__pane_index`` come out too.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    assigner: Assigner
    trigger: Trigger
    function: Aggregates | AllRows
    evictor: Evictor | None = None
    lateness: Lateness = NO_LATENESS
    time: str | None = None
    retracting: bool = False
    panes: bool = False
    row_kinds: bool = False

    def __post_init__(self) -> None:
        assert self.row_kinds or not self.retracting, "retractions have row kinds"
        assert not (self.retracting and isinstance(self.function, AllRows)), "rows as they are are not retracted"
        if self.assigner.merging and not self.trigger.mergeable:
            message = "the trigger has no on_merge, but windows merge"
            raise UnsupportedError(NOT_MERGEABLE, message, hint="Write on_merge, if only to return CONTINUE.")

    @property
    def output(self) -> pa.Schema:
        return self.emission.output

    @property
    def late_output(self) -> pa.Schema | None:
        return self.lateness.output(self.input)

    @property
    def uses_processing_time(self) -> bool:
        return self.assigner.domain is Domain.PROCESSING or self.trigger.uses_processing_time

    @cached_property
    def contents(self) -> Contents:
        """How the contents of windows are stored."""
        if isinstance(self.function, Aggregates) and self.evictor is None:
            merging = self.assigner.merging
            return Accumulated(self.function.for_merging_windows() if merging else self.function, self.time)
        return Buffered(self.function, self.input, self.keys, self.evictor, self.time, self.assigner.merging)

    @cached_property
    def emission(self) -> Emission:
        """The output of the operator."""
        keys = names_of(self.input, self.keys)
        return Emission(keys, self.contents.results, self.panes, self.retracting, self.row_kinds)

    @cached_property
    def layout(self) -> InstanceLayout:
        """The columns of stored instances."""
        keys = names_of(self.input, [KEY_HASH, *self.keys])
        return InstanceLayout(keys, self.trigger, self.contents.held, self.emission.last)

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        """Rows of BARRIER alone stand for aligned barriers, in their places among the others."""
        if BARRIER not in rows.column_names:
            WindowCall.of(self, context).on_rows(rows)
            return
        for number, between in enumerate(between_barriers(rows)):
            if number:
                WindowCall.of(self, context).on_barrier()
            if between.num_rows:
                WindowCall.of(self, context).on_rows(between)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Until the windows close; rows of windows without an end, until a timer of theirs."""
        instances = KeyedState(context.store, "windows", self.layout.schema).load_all()
        rows, end = (instances.column(name).to_numpy() for name in (ROWS, END))
        timers = {domain: instances.column(TIMERS[TIMER_OF[domain]]).to_numpy() for domain in Domain}
        own, now = self.assigner.domain, {Domain.EVENT: context.watermark, Domain.PROCESSING: context.processing_time}
        close = np.where(end == END_OF_TIME, timers[own], end - LAST_MOMENT)
        close[close <= now[own]] = END_OF_TIME  # closed, and kept for late rows
        yield from waits(Pending.ROWS_IN_WINDOWS, own, close, rows)
        other = next(domain for domain in Domain if domain is not own)
        endless = np.where((end == END_OF_TIME) & (close == END_OF_TIME), timers[other], END_OF_TIME)
        yield from waits(Pending.ROWS_IN_WINDOWS, other, endless, rows)

    def on_event_time(self, watermark: int, context: Context) -> None:
        WindowCall.of(self, context).on_time(Domain.EVENT, watermark)

    def on_processing_time(self, time: int, context: Context) -> None:
        WindowCall.of(self, context).on_time(Domain.PROCESSING, time)


# --- rows between barriers ------------------------------------------------------------------------------------


def between_barriers(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows before the first row with a BARRIER, between it and the second, …, after the last; parts may be
    empty."""
    barriers = np.flatnonzero(np.asarray(rows.column(BARRIER).is_valid())).tolist()
    plain = rows.drop_columns([BARRIER])
    for start, stop in zip([0, *(barrier + 1 for barrier in barriers)], [*barriers, rows.num_rows], strict=True):
        yield plain.slice(start, stop - start)
