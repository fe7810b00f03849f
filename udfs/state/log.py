"""Changes of a key group that are not in its buckets yet. A micro-batch that changes few rows of many buckets writes
them as one chunk behind those of earlier micro-batches, instead of a chunk for each bucket. When the log holds many
rows for the number of buckets, a call moves them there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import StateKey
from sqlstream.udfs.keys import differ, in_order
from sqlstream.udfs.state.buckets import (
    LOW,
    Bucket,
    Chunk,
    distinct,
    first_merged,
    merged,
    read_chunk,
    write_chunk,
)
from sqlstream.udfs.state.chunked import MOST_CHUNKS, chunk_key, chunk_keys

LEAST_BUCKETS = 16
"""In a state of fewer buckets each gets its own changes: a log would save few entries."""

LOG_ROWS = 32
"""The log is moved to the buckets when it has so many rows for each of them, or half as many: each key group has a
limit of its own, so that not all of them move their logs in the same micro-batch."""


class ChangeLog:
    """The log of a ``KeyedState`` during one call. Its chunks come after all chunks of the buckets. ``sizes``: the
    stored entry with the size of each chunk; None where there is no log.
    """

    def __init__(self, name: str, schema: pa.Schema, sizes: bytes | None) -> None:
        self._name = f"{name}/log"
        self._key = log_key(name)
        self._schema = schema
        self._sizes = np.zeros(0, np.int64) if sizes is None else np.frombuffer(sizes, np.int64)
        self._bucket = Bucket([], 0, len(self._sizes) == 0, 0)
        self._moved = False

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that are in memory, in order: all once they are loaded, otherwise those that the call adds."""
        return self._bucket.chunks

    @property
    def is_used(self) -> bool:
        """True if there are stored or new chunks."""
        return bool(self._bucket.chunks) or (len(self._sizes) > 0 and not self._moved)

    @property
    def has_many(self) -> bool:
        """True if so many chunks are stored that they must be read, in order to be merged with those that are added."""
        return not self._bucket.loaded and len(self._sizes) >= MOST_CHUNKS

    @property
    def is_changed(self) -> bool:
        """True if the call has added chunks."""
        return len(self._bucket.chunks) > self._bucket.stored

    def overflows(self, index: np.ndarray) -> bool:
        """True if there is more in the log than fits the buckets of the ``index``, and the call adds to it."""
        stored = 0 if self._bucket.loaded else int(self._sizes.sum())
        size = stored + sum(chunk.size for chunk in self._bucket.chunks)
        share = 1 + (int(index[min(1, len(index) - 1), LOW]) >> 20 & 0xFF) / 256
        return self.is_changed and size > LOG_ROWS * len(index) * share / 2

    def missing(self) -> list[StateKey]:
        """The keys of the chunks to read; none once they are loaded."""
        return [] if self._bucket.loaded else chunk_keys(self._name, 0, len(self._sizes))

    def load(self, entries: Iterable[bytes | None]) -> None:
        """Takes the values of the keys that are ``missing``."""
        if not self._bucket.loaded:
            stored = [read_chunk(entry, self._schema, 1) for entry in entries]
            self._bucket.chunks[:0] = stored
            self._bucket.stored, self._bucket.loaded = len(stored), True

    def add(self, chunk: Chunk) -> None:
        """Adds changes behind all others; ``written`` writes them."""
        self._bucket.chunks.append(chunk)

    def moved(self, by: str) -> Chunk | None:
        """Removes all changes from the log, which is loaded, and returns them as one chunk; None if there are none."""
        assert self._bucket.loaded, "the log is not loaded"
        chunks = self._bucket.chunks
        self._bucket = Bucket([], 0, True, 0)
        self._moved = True
        return merged(chunks, by) if chunks else None

    def written(self, by: str) -> dict[StateKey, bytes | None]:
        """The entries to write: of chunks that are merged, and of new ones. None deletes an entry."""
        stored = len(self._sizes)
        moved, self._moved = self._moved, False
        if moved:
            self._begin(np.zeros(0, np.int64))
            return dict.fromkeys([*chunk_keys(self._name, 0, stored), self._key]) if stored else {}
        if not self.is_changed:
            self._begin(self._sizes)
            return {}
        chunks, first = self._bucket.chunks, first_merged(self._bucket, MOST_CHUNKS)
        number = first if self._bucket.loaded else stored
        chunk = merged(chunks[first:], by)
        self._begin(np.append(self._sizes[:number], np.int64(chunk.size)))
        return {
            **dict.fromkeys(chunk_keys(self._name, 0, stored, number)),
            chunk_key(self._name, 0, number): write_chunk(chunk, 1),
            self._key: self._sizes.tobytes(),
        }

    def _begin(self, sizes: np.ndarray) -> None:
        """Nothing is loaded, and the stored chunks have these sizes."""
        self._sizes = sizes
        self._bucket = Bucket([], 0, len(sizes) == 0, 0)


def log_key(name: str) -> StateKey:
    """The state key under which the sizes of the log's chunks are stored, beside the index of the state ``name``."""
    return name, 2


def changes_of(old: pa.Table, new: pa.Table, by: str) -> Chunk | None:
    """What ``new`` rows change of ``old`` ones: the rows of all places, values of the column ``by``, that do not have
    the same rows in the same order, and those of these places that had rows. None if nothing changes.
    """
    of_old, of_new = (np.asarray(rows.column(by).to_numpy()) for rows in (old, new))
    places = distinct(np.concatenate((of_old, of_new)))
    old_index, new_index = np.searchsorted(places, of_old), np.searchsorted(places, of_new)
    before, after = (np.bincount(index, minlength=len(places)) for index in (old_index, new_index))
    changed = before != after
    old_rows, new_rows = (_ordered(index, ~changed) for index in (old_index, new_index))
    differs = differ(old.take(pa.array(old_rows)), new.take(pa.array(new_rows)))
    changed[old_index[old_rows[differs]]] = True
    if not changed.any():
        return None
    rows = new.take(pa.array(_ordered(new_index, changed))).combine_chunks()
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return Chunk(batches[0], places[changed & (before > 0)])


def _ordered(index: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The rows whose ``index`` is chosen, by index; those of one index keep their order."""
    rows = np.flatnonzero(chosen[index])
    return np.asarray(rows[in_order([index[rows]])])
