"""A kernel that keeps rows, and holds the watermark meanwhile."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.udfs.kernel import KEY_HASH, Context, Kernel

KEPT = ("kept", 0)


@dataclass(frozen=True)
class Keeper(Kernel):
    """Rows ``v``, ``event_timer``, ``processing_timer`` go on at once, or where ``batches`` is not NULL after so many
    more micro-batches; ``event_timer`` is their time."""

    @property
    def output(self) -> pa.Schema:
        times = (("event_timer", pa.int64()), ("processing_timer", pa.int64()))
        return pa.schema([(KEY_HASH, pa.int64()), ("v", pa.int32()), *times])

    @property
    def deferring(self) -> bool:
        return True

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        given = rows.to_pylist()
        self._emit([row for row in given if row["batches"] is None], context)
        late = context.watermark + 1
        self._keep(
            [
                *self._kept(context),
                *({**row, "until": max(row["event_timer"], late)} for row in given if row["batches"] is not None),
            ],
            context,
        )

    def on_held(self, context: Context) -> None:
        kept = [{**row, "batches": row["batches"] - 1} for row in self._kept(context)]
        self._emit([row for row in kept if row["batches"] == 0], context)
        self._keep([row for row in kept if row["batches"]], context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer is set")

    def on_processing_time(self, time: int, context: Context) -> None:
        raise AssertionError("no timer is set")

    def _kept(self, context: Context) -> list[dict]:
        (stored,) = context.store.get([KEPT])
        return pickle.loads(stored) if stored else []

    def _keep(self, rows: list[dict], context: Context) -> None:
        context.store.put({KEPT: pickle.dumps(rows) if rows else None})
        if rows:
            context.hold(min(row["until"] for row in rows), len(rows))

    def _emit(self, rows: list[dict], context: Context) -> None:
        if rows:
            context.emit(pa.Table.from_pylist(rows, self.output))
