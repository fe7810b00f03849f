"""Rows of which the clock is expected to let go before any row can meet them: those of all but the end of a long batch.

A watermark passes what a micro-batch brings only in the next one, so that all its rows are state until then. Those that
the next watermark will most probably be beyond are kept as they came, by the time at which the last one of them goes.
When that has passed they are dropped unread; else those that are left become state as others are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream.udfs.joins.pairs import Times
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, StateKey, Store
from sqlstream.udfs.state.chunked import ChunkedState

LEAST = 1024
"""Fewer rows cost less where all others are."""

SPARE = 32
"""The clock may be less far than expected by this part of the time that a batch spans: a piece of which it leaves one
row is read as a whole."""


class ShortLived:
    """The short-lived rows of one input, during one call. ``name`` is that of their part of the state."""

    def __init__(self, store: Store, name: str, schema: pa.Schema) -> None:
        self._store = store
        _, self._newest = self.keys(name)
        self._pieces = ChunkedState(store, name, schema)

    @staticmethod
    def keys(name: str) -> list[StateKey]:
        """Those of what each call reads: the index of the pieces, and the time of the newest row."""
        return [(name, 0), (f"{name}/newest", 0)]

    def left_over(self, now: int) -> Iterator[pa.Table]:
        """Rows of before, of which some have time left; none of them is kept here any longer."""
        for end in self._pieces.ids().tolist():
            if end > now:
                yield self._pieces.read([end])[end]
            self._pieces.replace(end, None)

    def chosen(self, times: Times, ends: Times, now: int) -> np.ndarray:
        """Which rows to keep here, of those that have come: their times, and when each goes."""
        if len(times) >= LEAST:
            soon = np.asarray(ends <= self._next(int(times.min()), int(times.max()), now))
            if np.count_nonzero(soon) >= LEAST:
                return soon
        return np.zeros(len(times), np.bool_)

    def add(self, rows: pa.Table, ends: Times) -> None:
        if rows.num_rows:
            self._pieces.append(int(ends.max()), rows)

    @property
    def next_end(self) -> int:
        """When the first rows are over; END_OF_TIME for none."""
        return int(self._pieces.ids().min(initial=END_OF_TIME))

    def flush(self, *, alone: bool) -> None:
        """``alone``: nothing else is kept of the input; where nothing is kept here either, nothing stays."""
        self._pieces.flush()
        if alone and not len(self._pieces.ids()) and self._store.get([self._newest]) != [None]:
            self._store.put({self._newest: None})

    def _next(self, oldest: int, newest: int, now: int) -> int:
        """How far the clock will be: as far behind the newest row as it was, or in the midst of the rows where that is
        not known."""
        (stored,) = self._store.get([self._newest])
        before = NO_WATERMARK if stored is None else int.from_bytes(stored, "little", signed=True)
        if newest > before:
            self._store.put({self._newest: newest.to_bytes(8, "little", signed=True)})
        if NO_WATERMARK in (before, now):
            return newest - (newest - oldest) // 2
        return max(newest - max(before - now, 0) - (newest - oldest) // SPARE, NO_WATERMARK)
