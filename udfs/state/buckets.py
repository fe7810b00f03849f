"""The index of rows in buckets. Each bucket holds a range of the rows' place, so that it splits where its rows need it.

The place of a row is an int64 column: the hash of its key, or a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import END_OF_TIME, Domain, StateKey
from sqlstream.udfs.state.chunks import check_fingerprint, fingerprint

EVENT_TIMER = "__event_timer"
PROCESSING_TIMER = "__processing_timer"
"""BIGINT columns of stored rows: when the row must be looked at again; END_OF_TIME for never."""

LOW, NUMBER, ROWS, CHUNKS, EVENT, PROCESSING = range(6)
"""Columns of the index: lowest place, number in the store, rows, chunks, earliest timers."""

TIMERS = {EVENT: EVENT_TIMER, PROCESSING: PROCESSING_TIMER}
TIMER_OF = {Domain.EVENT: EVENT, Domain.PROCESSING: PROCESSING}

_LOWEST = -(2**63)


_FEW = 16
"""An index of fewer buckets is written whole."""


@dataclass
class Buckets:
    """``index``: int64, one row per bucket, in order of LOW; the first begins at the lowest int64.

    It is stored as two entries, the index and the rows of it that have changed since, by their positions: so few
    buckets that change in a large index cost little. ``changed``: positions that the first entry does not tell of.
    """

    index: np.ndarray
    next_number: int
    changed: set[int] = field(default_factory=set)
    _whole: bool = False
    _recent: bool = False

    @staticmethod
    def empty() -> Buckets:
        return Buckets(np.array([[_LOWEST, 0, 0, 0, END_OF_TIME, END_OF_TIME]], np.int64), 1)

    @staticmethod
    def keys(name: str) -> list[StateKey]:
        return [(name, 0), (name, 1)]

    @staticmethod
    def from_entries(data: Sequence[bytes | None], schema: pa.Schema, name: str) -> Buckets:
        """Builds the index from the entries of ``keys``."""
        whole, recent = data
        if whole is None:
            return Buckets.empty()
        table = np.frombuffer(whole, np.int64).reshape(-1, 6)
        check_fingerprint(int(table[0, 0]), schema, name)
        buckets = Buckets(table[1:].copy(), int(table[0, 1]), _whole=True, _recent=recent is not None)
        if recent is not None:
            rows = np.frombuffer(recent, np.int64).reshape(-1, 6)
            buckets.index[rows[:, LOW], NUMBER:] = rows[:, NUMBER:]
            buckets.changed = set(rows[:, LOW].tolist())
        return buckets

    def written(self, schema: pa.Schema, name: str) -> dict[StateKey, bytes | None]:
        """What is to be put into the store. The square root of the index is where both ways cost the same."""
        whole, recent = Buckets.keys(name)
        if self._whole and len(self.index) >= _FEW and len(self.changed) ** 2 <= 2 * len(self.index):
            positions = np.array(sorted(self.changed), np.int64)
            rows = self.index[positions]
            rows[:, LOW] = positions
            self._recent = True
            return {recent: rows.tobytes()}
        dropped: dict[StateKey, bytes | None] = {recent: None} if self._recent else {}
        self.changed, self._whole, self._recent = set(), bool(self.index[:, ROWS].any()), False
        return {whole: self._bytes(schema) if self._whole else None, **dropped}

    def _bytes(self, schema: pa.Schema) -> bytes:
        header = np.array([[fingerprint(schema), self.next_number, 0, 0, 0, 0]], np.int64)
        return np.concatenate((header, self.index)).tobytes()

    def positions(self, places: np.ndarray) -> np.ndarray:
        """The bucket of each place."""
        if len(self.index) == 1:
            return np.zeros(len(places), np.int64)
        return np.asarray(np.searchsorted(self.index[:, LOW], places, side="right") - 1)

    def holding(self, places: np.ndarray) -> np.ndarray:
        """The buckets that hold any of the places, which are sorted: numpy sorts many faster than it finds each."""
        edges = np.searchsorted(places, self.index[:, LOW])
        return np.flatnonzero(np.diff(edges, append=len(places)) > 0)

    def due(self, domain: Domain, time: int) -> np.ndarray:
        timers = self.index[:, TIMER_OF[domain]]
        return np.flatnonzero((timers <= time) & (timers != END_OF_TIME))

    def next_timer(self, domain: Domain) -> int:
        return int(self.index[:, TIMER_OF[domain]].min())

    def new_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def with_buckets(self, added: Sequence[Sequence[int]]) -> Buckets:
        """The index with new buckets and without empty ones, whose range the neighbour below takes over."""
        index = np.concatenate((self.index, np.array(added, np.int64).reshape(-1, 6)))
        kept = index[index[:, ROWS] > 0]
        if len(kept) == 0:
            return replace(Buckets.empty(), _recent=self._recent)
        kept = kept[np.argsort(kept[:, LOW], kind="stable")]
        kept[0, LOW] = _LOWEST
        return Buckets(kept, self.next_number, _recent=self._recent)


class BucketPiece(NamedTuple):
    """Rows of one bucket and their earliest timers of event time and processing time."""

    rows: pa.RecordBatch
    timers: np.ndarray


def cut(rows: pa.RecordBatch, positions: np.ndarray) -> dict[int, BucketPiece]:
    """The rows of each position, in their order; only positions that have rows, ascending."""
    if len(positions) == 0:
        return {}
    if (positions[1:] < positions[:-1]).any():
        order = np.argsort(_narrow(positions), kind="stable")
        rows, positions = rows.take(pa.array(order)), positions[order]
    starts = np.concatenate(([0], np.flatnonzero(positions[1:] != positions[:-1]) + 1))
    timers = np.stack([_earliest(rows, column, starts) for column in TIMERS.values()], axis=1)
    lengths = np.diff(starts, append=len(positions)).tolist()
    runs = zip(positions[starts].tolist(), starts.tolist(), lengths, timers, strict=True)
    return {position: BucketPiece(rows.slice(start, length), of_bucket) for position, start, length, of_bucket in runs}


def splits(places: np.ndarray, most_rows: int) -> bool:
    """Has a bucket too many rows, and can it be cut? Rows of one place stay together."""
    return len(places) > most_rows and bool(places.min() != places.max())


def split(rows: pa.RecordBatch, places: np.ndarray, low: int, most_rows: int) -> list[tuple[int, BucketPiece]]:
    """Cuts a bucket of too many rows into some of two thirds of what fits, with their lowest places."""
    lows = np.concatenate(([low], _cuts(np.sort(places), -(-3 * len(places) // (2 * most_rows)))))
    parts = cut(rows, np.searchsorted(lows, places, side="right") - 1)
    return [(int(lows[piece]), bucket_piece) for piece, bucket_piece in parts.items()]


def _cuts(ordered: np.ndarray, pieces: int) -> np.ndarray:
    """The places at which about equal pieces begin; at least one lies above the first."""
    quantiles = ordered[np.arange(1, pieces) * len(ordered) // pieces]
    begins = np.searchsorted(ordered, quantiles, side="left")
    ends = np.searchsorted(ordered, quantiles, side="right")
    cuts = np.unique(np.where(begins > 0, begins, ends))
    return np.asarray(ordered[cuts[cuts < len(ordered)]])


def _earliest(rows: pa.RecordBatch, column: str, starts: np.ndarray) -> np.ndarray:
    if column not in rows.schema.names:
        return np.full(len(starts), END_OF_TIME)
    return np.asarray(np.minimum.reduceat(rows.column(column).to_numpy(), starts))


def _narrow(positions: np.ndarray) -> np.ndarray:
    """Numpy sorts 16 bits by radix, in a tenth of the time."""
    return positions.astype(np.uint16) if positions.max() < 2**16 else positions
