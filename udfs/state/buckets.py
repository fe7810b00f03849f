"""The index of rows in buckets. Each bucket holds the rows of a range of places, and splits where it has too many rows.

The place of a row is an int64 column: the hash of its key, or a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import END_OF_TIME, Domain, StateKey
from sqlstream.udfs.state.chunked import MOST_BYTES, check_fingerprint, decode, divided, encode, fingerprint, whole

EVENT_TIMER = "__event_timer"
PROCESSING_TIMER = "__processing_timer"
"""BIGINT columns of stored rows: the time at which the row must be processed again; END_OF_TIME for never."""

LOW, NUMBER, ROWS, CHUNKS, EVENT, PROCESSING = range(6)
"""Columns of the index: lowest place, number in the store, rows, chunks, earliest timers."""

TIMERS = {EVENT: EVENT_TIMER, PROCESSING: PROCESSING_TIMER}
TIMER_OF = {Domain.EVENT: EVENT, Domain.PROCESSING: PROCESSING}

_LOWEST = -(2**63)


_FEW = 16
"""An index of fewer buckets is always written as a whole."""


@dataclass
class Buckets:
    """The index of a ``KeyedState``, whose rows are divided into buckets by ranges of the key hash. ``index`` is an
    int64 array with one row per bucket: LOW, the lowest hash of the bucket, by which it is sorted; NUMBER, the bucket's
    name in the store; the numbers of rows and chunks; and the earliest timers. The first bucket begins at the lowest
    int64.

    It is stored as two entries: the index, and those of its rows that have changed since it was written. So changing
    few buckets of a large index costs little. ``changed``: the positions of rows that are not up to date in the first
    entry.
    """

    index: np.ndarray
    next_number: int
    changed: set[int] = field(default_factory=set)
    _whole: bool = False
    _recent: bool = False

    @staticmethod
    def empty() -> Buckets:
        """The index of an empty state: one bucket without rows."""
        return Buckets(np.array([[_LOWEST, 0, 0, 0, END_OF_TIME, END_OF_TIME]], np.int64), 1)

    @staticmethod
    def keys(name: str) -> list[StateKey]:
        """The two state keys under which the index of the state ``name`` is stored."""
        return [(name, 0), (name, 1)]

    @staticmethod
    def from_entries(
        data: Sequence[bytes | None], schema: pa.Schema, name: str, formerly: pa.Schema | None = None
    ) -> Buckets:
        """Builds the index from the stored values of ``keys``.

        ``formerly``: the schema under which earlier builds stored the rows; they are written under the new one.
        """
        whole, recent = data
        if whole is None:
            return Buckets.empty()
        table = np.frombuffer(whole, np.int64).reshape(-1, 6)
        is_former = formerly is not None and int(table[0, 0]) == fingerprint(formerly) != fingerprint(schema)
        if not is_former:
            check_fingerprint(int(table[0, 0]), schema, name)
        buckets = Buckets(table[1:].copy(), int(table[0, 1]), _whole=not is_former, _recent=recent is not None)
        if recent is not None:
            rows = np.frombuffer(recent, np.int64).reshape(-1, 6)
            buckets.index[rows[:, LOW], NUMBER:] = rows[:, NUMBER:]
            buckets.changed = set(rows[:, LOW].tolist())
        return buckets

    def written(self, schema: pa.Schema, name: str) -> dict[StateKey, bytes | None]:
        """The state entries to write, as a dictionary in which None deletes an entry. The whole index is rewritten when
        more than about the square root of its size has changed; otherwise only the changed rows are written.
        """
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
        """For each of ``places``, which are key hashes, the position of the bucket in whose range it is."""
        if len(self.index) == 1:
            return np.zeros(len(places), np.int64)
        return np.asarray(np.searchsorted(self.index[:, LOW], places, side="right") - 1)

    def holding(self, places: np.ndarray) -> np.ndarray:
        """The distinct positions of the buckets whose ranges contain any of these sorted places (key hashes)."""
        edges = np.searchsorted(places, self.index[:, LOW])
        return np.flatnonzero(np.diff(edges, append=len(places)) > 0)

    def due(self, domain: Domain, time: int) -> np.ndarray:
        """The positions of the buckets that have a timer up to ``time``, in microseconds."""
        timers = self.index[:, TIMER_OF[domain]]
        return np.flatnonzero((timers <= time) & (timers != END_OF_TIME))

    def next_timer(self, domain: Domain) -> int:
        """The earliest timer of all rows on the clock ``domain``, in microseconds; END_OF_TIME for none."""
        return int(self.index[:, TIMER_OF[domain]].min())

    def new_number(self) -> int:
        """An unused number, which names the state entries of a new bucket."""
        self.next_number += 1
        return self.next_number - 1

    def with_buckets(self, added: Sequence[Sequence[int]]) -> Buckets:
        """Returns the index with the rows of new buckets, ``added``, and without empty buckets. The range of an empty
        bucket goes to the bucket before it.
        """
        index = np.concatenate((self.index, np.array(added, np.int64).reshape(-1, 6)))
        kept = index[index[:, ROWS] > 0]
        if len(kept) == 0:
            return replace(Buckets.empty(), _recent=self._recent)
        kept = kept[np.argsort(kept[:, LOW], kind="stable")]
        kept[0, LOW] = _LOWEST
        return Buckets(kept, self.next_number, _recent=self._recent)


class BucketPiece(NamedTuple):
    """The rows of one bucket of a state, and their earliest timers of event time and processing time, in
    microseconds.
    """

    rows: pa.RecordBatch
    timers: np.ndarray


def cut(rows: pa.RecordBatch, positions: np.ndarray) -> dict[int, BucketPiece]:
    """Divides rows by bucket: returns a dictionary, in ascending order, from the position of a bucket to its rows and
    their earliest timers. ``positions`` has the position of each row's bucket; buckets without rows are omitted.
    """
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
    """True if a bucket has more than ``most_rows`` rows and can be split. ``places`` has for each row the key hash;
    rows of equal hash must remain together.
    """
    return len(places) > most_rows and bool(places.min() != places.max())


def split(rows: pa.RecordBatch, places: np.ndarray, low: int, most_rows: int) -> list[tuple[int, BucketPiece]]:
    """Splits an overfull bucket into buckets that are about two thirds full, by ranges of the key hash. ``places`` has
    the hash of each row, ``low`` is the lowest hash of the bucket. Returns pairs of the lowest hash of a new bucket and
    its rows.
    """
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


# --- chunks of a bucket ---------------------------------------------------------------------------------------
# Where few rows of a bucket change, the bucket gets one more chunk and the others remain as they are. The first chunk
# holds rows. Each later one holds rows that were appended, and the places whose rows in earlier chunks it replaces; a
# place that is replaced by no rows is deleted. Chunks are merged so that each is larger than all later ones together:
# a changed row is written only a few times, however large the bucket is, and a bucket has few chunks.


FACTOR = 2
"""A chunk is merged with all later ones when it has fewer than this many times their rows."""

SMALL = 16
"""A chunk of fewer rows is merged with all later ones: it costs hardly more than no chunk."""

NO_PLACES = np.zeros(0, np.int64)


class Chunk(NamedTuple):
    """A piece of a bucket that was written at once. Its ``rows`` come after those of earlier chunks, and replace all
    earlier rows whose place (key hash) is in ``replaced``. ``stored``: the bytes of its entry in the store.
    """

    rows: pa.RecordBatch
    replaced: np.ndarray = NO_PLACES
    stored: int = 0

    @property
    def size(self) -> int:
        """The number of rows or of replaced key hashes, whichever is greater; by it chunks are compared for merging."""
        return max(int(self.rows.num_rows), len(self.replaced))


@dataclass(eq=False)
class Bucket:
    """A bucket of a ``KeyedState`` during one call: of its ``chunks`` the first ``stored`` are in the store, the others
    are new.

    If it is not ``loaded``, ``chunks`` are only the new ones. ``rows``: the number of rows of all chunks that are not
    replaced.
    """

    chunks: list[Chunk]
    stored: int
    loaded: bool
    rows: int


def read_chunk(entry: bytes | None, schema: pa.Schema, number: int) -> Chunk:
    """Decodes chunk ``number`` of a bucket from a state entry; its rows share memory with the entry."""
    assert entry is not None, "the index names an entry that the store does not have"
    if number == 0:
        return Chunk(decode(entry, schema), stored=len(entry))
    count = int.from_bytes(entry[:8], "little")
    rows = decode(memoryview(entry)[8 + 8 * count :], schema)
    return Chunk(rows, np.frombuffer(entry, np.int64, count, 8), len(entry))


def write_chunk(chunk: Chunk, number: int) -> bytes:
    """A chunk as bytes for the state store. The first chunk of a bucket never replaces rows of earlier ones."""
    if number == 0:
        return encode(chunk.rows)
    return len(chunk.replaced).to_bytes(8, "little") + chunk.replaced.tobytes() + encode(chunk.rows)


def write_chunks(chunk: Chunk, number: int) -> list[bytes]:
    """A chunk as the entries of chunk ``number`` and those that follow it: one, or more where it is large."""
    entry = write_chunk(chunk, number)
    if (size := len(entry)) <= MOST_BYTES:
        return [entry]
    del entry  # before as much is made again
    first, *others = divided(chunk.rows, size)
    following = (write_chunk(Chunk(rows), number + at) for at, rows in enumerate(others, 1))
    return [write_chunk(Chunk(first, chunk.replaced), number), *following]


def first_merged(bucket: Bucket, most_chunks: int) -> int:
    """Decides which chunks of a bucket are merged into one: those from the returned index on. If it is the number of
    chunks, none are. A bucket without new chunks is left as it is if it has at most ``most_chunks``. A large chunk of
    whose rows none are replaced stays as it is.
    """
    chunks, rows_after = bucket.chunks, 0
    if len(chunks) == bucket.stored <= most_chunks:
        return len(chunks)
    first = last = len(chunks) - 1
    for number in range(last, -1, -1):
        size = chunks[number].size
        if chunks[number].stored > MOST_BYTES // 2 and number < last and not replace_any(chunks[number + 1 :]):
            break
        if number < last and size < (max(FACTOR * rows_after, SMALL) if number else FACTOR * rows_after):
            first = number
        rows_after += size
    first = min(first, bucket.stored)
    return len(chunks) if first == last < bucket.stored else first


def replace_any(chunks: Sequence[Chunk]) -> bool:
    """True where some of the chunks replace rows of earlier ones."""
    return any(len(chunk.replaced) for chunk in chunks)


def neighbours(buckets: Mapping[int, Bucket], most_rows: int) -> list[list[int]]:
    """Divides buckets into groups, each of which is to be merged into one bucket: neighbours that have at most
    ``most_rows`` rows together. Other buckets are alone in their group. A group is a list of sorted positions.
    """
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
    """One chunk with the content of ``chunks``, which is a non-empty sequence of consecutive chunks."""
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(one(alive(chunks, hash_column)), distinct(np.concatenate([chunk.replaced for chunk in chunks])))


def alive(chunks: Sequence[Chunk], hash_column: str) -> list[pa.RecordBatch]:
    """The rows of a bucket's chunks, in order, as record batches. Rows that a later chunk replaces, because it names
    their key hash, are left out.
    """
    batches, gone = [], NO_PLACES
    for rows, replaced, _ in reversed(chunks):
        batches.append(_without(rows, gone, hash_column) if len(gone) else rows)
        if len(replaced):
            gone = distinct(np.concatenate((gone, replaced))) if len(gone) else replaced
    return batches[::-1]


def alive_at(chunks: Sequence[Chunk], places: np.ndarray, hash_column: str, schema: pa.Schema) -> pa.Table:
    """The rows whose key hash is in the sorted array ``places``, in order, without those that later chunks of their
    bucket replace. ``chunks`` are those of several buckets.

    It needs one pass over the hashes of all rows, and other work only for the rows found.
    """
    rows = pa.Table.from_batches([chunk.rows for chunk in chunks], schema)
    every = np.concatenate([NO_PLACES, *(chunk.rows.column(hash_column).to_numpy() for chunk in chunks)])
    row_indices = np.flatnonzero(pc.is_in(pa.array(every), value_set=pa.array(places)).to_numpy(zero_copy_only=False))
    if replace_any(chunks):
        begins = np.cumsum([chunk.rows.num_rows for chunk in chunks])
        chunk_of_row = np.searchsorted(begins, row_indices, side="right")
        row_indices = row_indices[
            chunk_of_row >= _last_replaced(chunks, places)[np.searchsorted(places, every[row_indices])]
        ]
    return rows.take(pa.array(row_indices)).combine_chunks()


def distinct(places: np.ndarray) -> np.ndarray:
    """Returns the values sorted and each only once."""
    ordered = np.sort(places)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The record batches concatenated to a single one."""
    return batches[0] if len(batches) == 1 else whole(pa.Table.from_batches(batches))


def _last_replaced(chunks: Sequence[Chunk], places: np.ndarray) -> np.ndarray:
    """The last chunk that replaces each of some sorted places, -1 for none."""
    replaced = np.concatenate([chunk.replaced for chunk in chunks])
    chunk = np.repeat(np.arange(len(chunks)), [len(chunk.replaced) for chunk in chunks])
    positions = np.minimum(np.searchsorted(places, replaced), len(places) - 1)
    asked = places[positions] == replaced
    last = np.full(len(places), -1)
    # Of several assignments to one index numpy keeps the last, which is that of the latest chunk.
    last[positions[asked]] = chunk[asked]
    return last


def _without(rows: pa.RecordBatch, places: np.ndarray, hash_column: str) -> pa.RecordBatch:
    """``places`` are sorted."""
    of_rows = rows.column(hash_column).to_numpy()
    positions = np.minimum(np.searchsorted(places, of_rows), len(places) - 1)
    stays = places[positions] != of_rows
    return rows if stays.all() else rows.take(pa.array(np.flatnonzero(stays)))


# --- rows of loaded buckets -----------------------------------------------------------------------------------


DENSE = 4
"""Where at least one row in this many is asked for, whole buckets are returned and written."""


class RequestedRows:
    """The rows of loaded buckets that a kernel has requested, cached. ``by``: the column by which rows are found,
    mostly the key hash. ``places``: its sorted values that were requested; None for all rows.
    """

    def __init__(self, by: str, schema: pa.Schema) -> None:
        self.places: np.ndarray | None = NO_PLACES
        self._by = by
        self._schema = schema
        self._latest: tuple[Sequence[Bucket], pa.Table] | None = None

    def add(self, places: np.ndarray, dense: bool) -> None:
        """Adds requests for rows with these sorted key hashes. ``dense``: from now on all rows of the loaded buckets
        are requested.
        """
        if self.places is not None:
            self.places = None if dense else distinct(np.concatenate((self.places, places)))
            self._latest = None

    def changed(self) -> None:
        """Discards the cached rows, because the rows of the buckets have changed."""
        self._latest = None

    def rows(self, buckets: Sequence[Bucket], log: Sequence[Chunk] = (), places: np.ndarray | None = None) -> pa.Table:
        """The requested rows of some buckets. ``log``: chunks that come after those of all buckets; of these only the
        rows with ``places`` are of these buckets.
        """
        if self.places is None:
            batches = [rows for bucket in buckets for rows in alive(bucket.chunks, self._by)]
            return pa.Table.from_batches(batches, self._schema)
        if self._latest is None or self._latest[0] != buckets:
            chunks = [*(chunk for bucket in buckets for chunk in bucket.chunks), *log]
            asked = self.places if places is None else places
            self._latest = buckets, alive_at(chunks, asked, self._by, self._schema)
        return self._latest[1]


def is_dense(places: np.ndarray, bucket: Bucket, rows: int, hash_column: str) -> bool:
    """True if so many rows are requested that reading all rows of their buckets is faster. ``places``: the sorted key
    hashes that are requested, ``rows``: the number of rows of the buckets that may have them, ``bucket``: the largest
    of these.
    """
    if (np.count_nonzero(places[1:] != places[:-1]) + 1) * DENSE >= rows:
        return True
    largest = max((chunk.rows for chunk in bucket.chunks), key=len, default=None)
    if not largest:  # all of them are in the log
        return False
    of_rows = largest.column(hash_column).to_numpy()
    here = places[np.searchsorted(places, of_rows.min()) : np.searchsorted(places, of_rows.max(), side="right")]
    return bool(np.isin(of_rows, here).sum() * DENSE >= len(of_rows))
