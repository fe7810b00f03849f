"""The chunks of a bucket. Where few of its rows change, the bucket gets a chunk more, and the others stay as they are.

The first chunk holds rows. Each later one holds rows that came behind them, and the places whose rows in the chunks
before it they replace; a place that is replaced without new rows is gone. Chunks are merged so that each is larger than
those behind it together: a row that changes is written a few times over, however large the bucket, and a bucket has
few chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.state.chunks import decode, encode, whole

FACTOR = 2
"""A chunk is rewritten with those behind it when it has fewer than so many times their rows."""

SMALL = 16
"""A chunk of fewer rows costs what none would: it becomes one with those behind it."""

NO_PLACES = np.zeros(0, np.int64)


class Chunk(NamedTuple):
    rows: pa.RecordBatch
    replaced: np.ndarray = NO_PLACES

    @property
    def size(self) -> int:
        return max(int(self.rows.num_rows), len(self.replaced))


@dataclass(eq=False)
class Bucket:
    """A bucket during one call: the first ``stored`` of its ``chunks`` are in the store, the others have come since.

    Where it is not ``loaded``, ``chunks`` are only those that have come. ``rows``: how many all chunks leave.
    """

    chunks: list[Chunk]
    stored: int
    loaded: bool
    rows: int


def read_chunk(entry: bytes | None, schema: pa.Schema, number: int) -> Chunk:
    """Chunk ``number`` of a bucket; it shares memory with the bytes."""
    assert entry is not None, "the index names an entry that the store does not have"
    if number == 0:
        return Chunk(decode(entry, schema))
    count = int.from_bytes(entry[:8], "little")
    rows = decode(memoryview(entry)[8 + 8 * count :], schema)
    return Chunk(rows, np.frombuffer(entry, np.int64, count, 8))


def write_chunk(chunk: Chunk, number: int) -> bytes:
    """What the first chunk replaces is gone already."""
    if number == 0:
        return encode(chunk.rows)
    return len(chunk.replaced).to_bytes(8, "little") + chunk.replaced.tobytes() + encode(chunk.rows)


def first_merged(bucket: Bucket, most_chunks: int) -> int:
    """The chunks from this one on become one; as many as there are where they may stay."""
    chunks, behind = bucket.chunks, 0
    if len(chunks) == bucket.stored <= most_chunks:
        return len(chunks)
    first = last = len(chunks) - 1
    for number in range(last, -1, -1):
        size = chunks[number].size
        if number < last and size < (max(FACTOR * behind, SMALL) if number else FACTOR * behind):
            first = number
        behind += size
    first = min(first, bucket.stored)
    return len(chunks) if first == last < bucket.stored else first


def neighbours(buckets: Mapping[int, Bucket], most_rows: int) -> list[list[int]]:
    """The sorted positions of buckets; neighbours that have few rows together are in one list, to become one."""
    groups: list[list[int]] = []
    filled = 0
    for position, bucket in buckets.items():
        filled += bucket.rows
        near = bool(groups) and groups[-1][-1] == position - 1 and filled <= most_rows
        if near and bucket.loaded and buckets[position - 1].loaded:
            groups[-1].append(position)
        else:
            groups.append([position])
            filled = bucket.rows
    return groups


def merged(chunks: Sequence[Chunk], hash_column: str) -> Chunk:
    """One chunk in place of several; at least one."""
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(one(alive(chunks, hash_column)), distinct(np.concatenate([chunk.replaced for chunk in chunks])))


def alive(chunks: Sequence[Chunk], hash_column: str) -> list[pa.RecordBatch]:
    """The rows of chunks that no later one replaces, in order."""
    batches, gone = [], NO_PLACES
    for rows, replaced in reversed(chunks):
        batches.append(_without(rows, gone, hash_column) if len(gone) else rows)
        if len(replaced):
            gone = distinct(np.concatenate((gone, replaced))) if len(gone) else replaced
    return batches[::-1]


def alive_at(chunks: Sequence[Chunk], places: np.ndarray, hash_column: str, schema: pa.Schema) -> pa.Table:
    """The rows of some sorted places that no later chunk of their bucket replaces; chunks of several buckets, in order.

    One pass over the places of all rows; all else is done for the rows that are found.
    """
    rows = pa.Table.from_batches([chunk.rows for chunk in chunks], schema)
    every = np.concatenate([NO_PLACES, *(chunk.rows.column(hash_column).to_numpy() for chunk in chunks)])
    row_indices = np.flatnonzero(pc.is_in(pa.array(every), value_set=pa.array(places)).to_numpy(zero_copy_only=False))
    if any(len(chunk.replaced) for chunk in chunks):
        begins = np.cumsum([chunk.rows.num_rows for chunk in chunks])
        chunk_of_row = np.searchsorted(begins, row_indices, side="right")
        row_indices = row_indices[
            chunk_of_row >= _last_replaced(chunks, places)[np.searchsorted(places, every[row_indices])]
        ]
    return rows.take(pa.array(row_indices)).combine_chunks()


def distinct(places: np.ndarray) -> np.ndarray:
    """Sorted, each once."""
    ordered = np.sort(places)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else whole(pa.Table.from_batches(batches))


def _last_replaced(chunks: Sequence[Chunk], places: np.ndarray) -> np.ndarray:
    """The last chunk that replaces each of some sorted places, -1 for none."""
    replaced = np.concatenate([chunk.replaced for chunk in chunks])
    chunk = np.repeat(np.arange(len(chunks)), [len(chunk.replaced) for chunk in chunks])
    positions = np.minimum(np.searchsorted(places, replaced), len(places) - 1)
    asked = places[positions] == replaced
    last = np.full(len(places), -1)
    # Of several assignments to one place numpy keeps the last, which is the latest chunk's.
    last[positions[asked]] = chunk[asked]
    return last


def _without(rows: pa.RecordBatch, places: np.ndarray, hash_column: str) -> pa.RecordBatch:
    """``places`` are sorted."""
    of_rows = rows.column(hash_column).to_numpy()
    positions = np.minimum(np.searchsorted(places, of_rows), len(places) - 1)
    stays = places[positions] != of_rows
    return rows if stays.all() else rows.take(pa.array(np.flatnonzero(stays)))
