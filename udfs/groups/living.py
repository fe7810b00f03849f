"""How long state without an end is remembered after it was last written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import END_OF_TIME, Context, Domain
from sqlstream.udfs.state.buckets import PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState


@dataclass(frozen=True)
class Living:
    """``ttl``: microseconds of processing time; 0 for ever, and then rows have no timer."""

    ttl: int = 0

    def timers(self, count: int, context: Context) -> list[pa.Array]:
        """PROCESSING_TIMER of rows that are written now, where they have one."""
        if not self.ttl:
            return []
        return [pa.array(np.full(count, min(context.processing_time, END_OF_TIME - self.ttl) + self.ttl))]

    def due(self, state: KeyedState, context: Context) -> pa.Table:
        """Takes the rows whose time is up out of the state."""
        now = context.processing_time
        if not self.ttl or now == END_OF_TIME:
            return state.schema.empty_table()
        rows = state.due(Domain.PROCESSING, now)
        if not rows.num_rows:
            return rows
        over = pc.less_equal(rows.column(PROCESSING_TIMER), now)
        state.replace(rows.filter(pc.invert(over)))
        return rows.filter(over)

    def wakes(self, state: KeyedState, context: Context) -> int:
        """When to look again, as of the last ``flush``. At the end of the input no time passes any more."""
        if not self.ttl or context.processing_time == END_OF_TIME:
            return END_OF_TIME
        return state.next_timer(Domain.PROCESSING)
