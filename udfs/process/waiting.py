"""Rows that wait for the watermark, so that they can be taken in order of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import Domain, Store
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState


class RowsInTimeOrder:
    """The rows of ``schema`` of one key group by the BIGINT column ``time``; rows of one time stay as they came."""

    def __init__(self, store: Store, schema: pa.Schema, time: str | None) -> None:
        assert time is not None, "rows are in order of event time"
        self._time = time
        self._schema = schema
        self._state = KeyedState(store, "waiting", schema.append(pa.field(EVENT_TIMER, pa.int64())), by=EVENT_TIMER)

    def add(self, rows: pa.Table, watermark: int) -> int:
        """Keeps the rows; those that the watermark has passed are dropped and counted."""
        stays = self.times(rows) > watermark
        kept = rows.filter(pa.array(stays))
        self._state.append(kept.append_column(EVENT_TIMER, pa.array(self.times(kept), pa.int64())).combine_chunks())
        return int((~stays).sum())

    def take(self, watermark: int) -> pa.Table:
        """The rows that the watermark has passed, in order of their times, then of arrival."""
        self._state.due(Domain.EVENT, watermark)
        rows = self._state.loaded()
        due = rows.column(EVENT_TIMER).to_numpy() <= watermark
        self._state.replace(rows.filter(pa.array(~due)))
        due_rows = rows.filter(pa.array(due))
        order = np.argsort(due_rows.column(EVENT_TIMER).to_numpy(), kind="stable")
        return due_rows.take(pa.array(order)).drop_columns([EVENT_TIMER]).combine_chunks()

    def times(self, rows: pa.Table) -> np.ndarray:
        return np.asarray(rows.column(self._time).to_numpy())

    def all_times(self) -> np.ndarray:
        """The times of all rows that wait."""
        return np.asarray(self._state.load_all().column(EVENT_TIMER).to_numpy())

    def next_time(self) -> int:
        """The time of the first row that waits."""
        return self._state.next_timer(Domain.EVENT)

    def flush(self) -> None:
        self._state.flush()
