"""The general window operator: any assigner, trigger, evictor and window function. It has the semantics of Flink's
WindowOperator and EvictingWindowOperator, for all windows of a batch at once.

An instance is a key and one of its windows. Rows count one by one in order of arrival. A window is dropped when the
watermark passes its end plus the allowed lateness.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import BARRIER, END_OF_TIME, KEY_HASH, Context, Domain, Pending, Wait, waits
from sqlstream.udfs.state.buckets import TIMER_OF, TIMERS
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.triggers import EachBatch
from sqlstream.udfs.triggers.trigger import LAST_MOMENT
from sqlstream.udfs.windows.call import WindowCall, WindowOperator
from sqlstream.udfs.windows.instances import END, ROWS, Touched
from sqlstream.udfs.windows.sessions import merge_rows


class WindowKernel(WindowOperator):
    """The kernel of the general window operator."""

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        """Processes rows. Rows in which only BARRIER is set are aligned barriers, at their positions among the
        others."""
        if BARRIER not in rows.column_names:
            self._on_plain_rows(rows, context)
            return
        for number, between in enumerate(between_barriers(rows)):
            if number:
                WindowCall.of(self, context).on_barrier()
            if between.num_rows:
                self._on_plain_rows(between, context)

    def _on_plain_rows(self, rows: pa.Table, context: Context) -> None:
        """Processes rows without barriers."""
        call, rows = WindowCall.of(self, context), rows.combine_chunks()
        loaded = call.state.load(np.unique(rows.column(KEY_HASH).to_numpy())).combine_chunks()
        assigned = self.assigner.assign(rows, context)
        touched: Touched
        if self.assigner.merging:
            touched = merge_rows(call, rows, assigned, loaded)
        else:
            touched = call.add_rows(rows, assigned, loaded)
        if isinstance(self.trigger, EachBatch):
            call.fire_each(touched.instances, len(assigned.row))
        call.finish(touched, loaded)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Rows until their windows close, or until a timer of windows without an end."""
        instances = KeyedState(context.store, "windows", self.layout.schema).load_all()
        rows, end = (instances.column(name).to_numpy() for name in (ROWS, END))
        timers = {domain: instances.column(TIMERS[TIMER_OF[domain]]).to_numpy() for domain in Domain}
        own, now = self.assigner.domain, {Domain.EVENT: context.watermark, Domain.PROCESSING: context.processing_time}
        close = np.where(end == END_OF_TIME, timers[own], end - LAST_MOMENT)
        close[close <= now[own]] = END_OF_TIME  # closed, and stored for late rows
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
