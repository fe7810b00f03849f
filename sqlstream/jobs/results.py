"""Rows on their way to the caller of a query: one Arrow table per micro-batch, through a bounded queue."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WAITING = 16  # tables; more make Spark wait for the caller
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Results:
    """Batches go in on Spark's thread and come out on the caller's, who may stop listening at any time."""

    names: tuple[str, ...]
    _tables: queue.Queue[pa.Table] = field(default_factory=lambda: queue.Queue(_WAITING))
    _closed: Event = field(default_factory=Event)

    def on_batch(self, rows: DataFrame, batch: int) -> None:
        """What ``foreachBatch`` calls."""
        self.put(rows.toArrow())

    def put(self, table: pa.Table) -> None:
        """Hand a table over; waits while the caller is behind, and returns at once when nobody listens any more."""
        while table.num_rows and not self._closed.is_set():
            try:
                return self._tables.put(table.rename_columns(list(self.names)), timeout=_POLL_SECONDS)
            except queue.Full:
                continue
        return None

    def close(self) -> None:
        """No more tables will come, or be taken."""
        self._closed.set()

    def __iter__(self) -> Iterator[pa.Table]:
        while True:
            try:
                yield self._tables.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if self._closed.is_set() and self._tables.empty():
                    return
