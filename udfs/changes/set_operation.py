"""INTERSECT and EXCEPT of two changelogs.

The state is the number of times that each input has each row. The changes of a micro-batch to these numbers determine
how many times the row is emitted or retracted, as in Flink, which counts the rows of each input in an aggregate and
repeats them with a table function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.changes import SetKind
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context, Kernel
from sqlstream.udfs.keys import dense_ids, places, retracted_rows
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import TimeToLive

_SIDES = ("__left", "__right")
"""BIGINT columns of a stored row: how many times each input has it."""


@dataclass(frozen=True)
class SetOperationKernel(Kernel):
    """The kernel of INTERSECT and EXCEPT. ``rows`` is the schema of both inputs: the fields, KEY_HASH and, for
    changelogs, ROW_KIND.

    ``updates``: results are retracted. ``living``: how long the state of a row is kept after its last change.
    """

    kind: SetKind
    rows: pa.Schema
    living: TimeToLive
    updates: bool

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*self.rows, *([(ROW_KIND, pa.string())] if self.updates else [])])

    @property
    def ports(self) -> int:
        return 2

    @property
    def uses_processing_time(self) -> bool:
        return self.living.ttl > 0

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        changed, more = self._net(rows)
        state = KeyedState(context.store, "rows", self._stored)
        stored = state.load(changed.column(KEY_HASH).to_numpy())
        stored_row = places(changed, stored, self.rows.names)
        was = stored_row >= 0
        before = np.zeros_like(more)
        for side, name in enumerate(_SIDES):
            before[side, was] = stored.column(name).to_numpy()[stored_row[was]]
        after = before + more
        context.count(IGNORED, int(np.maximum(-after, 0).sum()))
        after = np.maximum(after, 0)
        self._emit(changed, self.kind.times(*after) - self.kind.times(*before), context)
        others = np.ones(stored.num_rows, np.bool_)
        others[stored_row[was]] = False
        timers = self.living.timers(changed.num_rows, context)
        now = pa.Table.from_arrays([*changed.columns, *map(pa.array, after), *timers], schema=self._stored)
        there = now.filter(pa.array(after.any(axis=0)))
        state.replace(pa.concat_tables([stored.filter(pa.array(others)), there]))
        self.living.close(state, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        state = KeyedState(context.store, "rows", self._stored)
        self.living.due(state, context)
        self.living.close(state, context)

    def _net(self, rows: Mapping[int, pa.Table]) -> tuple[pa.Table, np.ndarray]:
        """Each row that some side changes once, and how many more of it each side has."""
        names = [KEY_HASH, *self.rows.names]
        whole = pa.concat_tables([rows[port].select(names) for port in sorted(rows)])
        ids = dense_ids(whole, self.rows.names)
        more = np.zeros((2, ids.count), np.int64)
        start = 0
        for port in sorted(rows):
            gone, row_ids = retracted_rows(rows[port]), ids.ids[start : start + rows[port].num_rows]
            more[port] = np.bincount(row_ids, None if gone is None else np.where(gone, -1, 1), ids.count)
            start += len(row_ids)
        return whole.take(pa.array(ids.first)).replace_schema_metadata(None), more

    def _emit(self, rows: pa.Table, more: np.ndarray, context: Context) -> None:
        """Retractions, then additions: each row as often as it must."""
        for kind, times in (("-D", -more), ("+I", more)):
            chosen = np.repeat(np.arange(len(times)), np.maximum(times, 0))
            if len(chosen):
                chosen_rows = rows.select(self.rows.names).take(pa.array(chosen))
                kinds = [pa.repeat(kind, len(chosen))] if self.updates else []
                context.emit(pa.Table.from_arrays([*chosen_rows.columns, *kinds], schema=self.output))

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema(
            [(KEY_HASH, pa.int64()), *self.rows, *((name, pa.int64()) for name in _SIDES), *self.living.timer]
        )
